package idem_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/memory"
)

// A request's own wait counts, and not the executor's.
func TestRequestWait(t *testing.T) {
	for name, c := range map[string]struct {
		executor []idem.Option
		own      *time.Duration
		want     time.Duration
	}{
		"the executor's": {[]idem.Option{idem.WithWait(5 * time.Second)}, nil, 5 * time.Second},
		"longer":         {nil, new(7 * time.Second), 7 * time.Second},
		"none":           {[]idem.Option{idem.WithWait(5 * time.Second)}, new(time.Duration(0)), 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newExecutor(t, memory.New(), c.executor...)
				_, err := idem.Do(t.Context(), e, request("key-0001"), func(context.Context, *idem.Run) (string, error) {
					r := request("key-0001")
					r.Wait = c.own
					before := time.Now()
					dup := <-duplicates(t, e, r, 1, never(t))
					wantError(t, "Do of a duplicate", dup.err, idem.ErrInProgress)
					if got := time.Since(before); got != c.want {
						t.Errorf("the duplicate waited %v, want %v", got, c.want)
					}
					return "ok", nil
				})
				if err != nil {
					t.Fatal(err)
				}
			})
		})
	}
	r := request("key-0001")
	r.Wait = new(-time.Second)
	_, err := idem.Do(t.Context(), newExecutor(t, memory.New()), r, never(t))
	wantError(t, "Do with a negative wait", err, idem.ErrInvalid)
}

// A request's own fingerprinters count, with those they accept; one that can't be
// compared is no mismatch, in flight neither (hard case 28).
func TestRequestFingerprinters(t *testing.T) {
	t.Parallel()
	language, err := idem.NewFingerprinter(idem.Headers("Accept-Language"))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := idem.NewFingerprinter()
	if err != nil {
		t.Fatal(err)
	}
	in := func(lang string, f ...*idem.Fingerprinter) idem.Request {
		r := request("key-0001")
		r.Content.Header = map[string][]string{"Accept-Language": {lang}}
		r.Fingerprinters = f
		return r
	}
	e := newExecutor(t, memory.New())
	_, err = idem.Do(t.Context(), e, in("de", language), func(ctx context.Context, _ *idem.Run) (string, error) {
		_, err := idem.Do(context.WithoutCancel(t.Context()), e, in("de"), never(t))
		wantError(t, "Do in flight, by a fingerprint that can't be compared", err, idem.ErrUnavailable)
		_, err = idem.Do(t.Context(), e, in("en", language), never(t))
		wantError(t, "Do in flight, in another language", err, idem.ErrMismatch)
		return "ok", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		r    idem.Request
		want error
	}{
		"the same":            {in("de", language), nil},
		"another language":    {in("en", language), idem.ErrMismatch},
		"a deploy later":      {in("de", plain, language), nil},
		"a deploy later, bad": {in("en", plain, language), idem.ErrMismatch},
		"not accepted":        {in("de", plain), idem.ErrUnavailable},
		"the executor's":      {in("de"), idem.ErrUnavailable},
		"nil":                 {in("de", nil), idem.ErrInvalid},
		"none":                {in("de", []*idem.Fingerprinter{}...), idem.ErrUnavailable},
	} {
		_, err := idem.Do(t.Context(), e, c.r, never(t))
		if c.want == nil && err == nil {
			continue
		}
		wantError(t, "Do with "+name, err, c.want)
	}
}

// What is published of an executor is what it was given, or its defaults.
func TestPolicy(t *testing.T) {
	t.Parallel()
	got := newExecutor(t, memory.New()).Policy()
	if got.MinKey != 8 || got.MaxKey != 255 || got.Lease != 30*time.Second || got.Retention != 72*time.Hour || got.Remember != 0 ||
		got.RetryAfter != 2*time.Second || got.Wait != 0 || got.TxWait != 5*time.Second || got.MaxResponse != 1<<20 || len(got.Fingerprint) != 3 {
		t.Errorf("Policy() by default = %+v", got)
	}
	f, err := idem.NewFingerprinter(idem.Headers("X-A"))
	if err != nil {
		t.Fatal(err)
	}
	got = newExecutor(t, memory.New(), idem.WithKeyLength(10, 20), idem.WithLease(time.Second), idem.WithRetention(time.Minute), idem.WithRemember(time.Hour),
		idem.WithRetryAfter(time.Second), idem.WithWait(3*time.Second), idem.WithMaxResponse(5), idem.WithFingerprinter(f)).Policy()
	if got.MinKey != 10 || got.MaxKey != 20 || got.Lease != time.Second || got.Retention != time.Minute || got.Remember != time.Hour ||
		got.RetryAfter != time.Second || got.Wait != 3*time.Second || got.TxWait != 3*time.Second || got.MaxResponse != 5 || len(got.Fingerprint) != 4 {
		t.Errorf("Policy() with options = %+v", got)
	}
}
