package idem_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/memory"
	"github.com/idem-go/idem/sqlite"
)

// Bad input is refused with ErrInvalid before the store is asked.
func TestBadRequests(t *testing.T) {
	f := &faulty{Backend: memory.New(), claim: func(context.Context, backend.Claim) (backend.Claimed, error) {
		t.Error("the store was asked")
		return backend.Claimed{}, nil
	}}
	e := newExecutor(t, f)
	for name, change := range map[string]func(*idem.Request){
		"no tenant":             func(r *idem.Request) { r.Scope.Tenant = "" },
		"no actor":              func(r *idem.Request) { r.Scope.Actor = "" },
		"no key":                func(r *idem.Request) { r.Key = "" },
		"a key of 7 bytes":      func(r *idem.Request) { r.Key = "1234567" },
		"a key of 256 bytes":    func(r *idem.Request) { r.Key = strings.Repeat("k", 256) },
		"control in the key":    func(r *idem.Request) { r.Key = "12345\n78" },
		"NUL in the tenant":     func(r *idem.Request) { r.Scope.Tenant = "a\x00b" },
		"bad UTF-8 in an actor": func(r *idem.Request) { r.Scope.Actor = "a\xffb" },
		"a long actor":          func(r *idem.Request) { r.Scope.Actor = strings.Repeat("a", 256) },
		"no operation":          func(r *idem.Request) { r.Operation = "" },
		"control in the path":   func(r *idem.Request) { r.Path = "/a\x7f" },
		"a long path":           func(r *idem.Request) { r.Path = strings.Repeat("p", 8193) },
		"a long method":         func(r *idem.Request) { r.Method = strings.Repeat("M", 33) },
		"a large payload":       func(r *idem.Request) { r.Payload = make([]byte, 1<<20+1) },
	} {
		r := request("key-0001")
		change(&r)
		_, err := idem.Do(t.Context(), e, r, never(t))
		wantError(t, "Do with "+name, err, idem.ErrInvalid)
		for _, secret := range []string{"ada", "shop", "key-0001", "1234567", "kkkk"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("Do with %s = %q, which carries something of the request", name, err)
			}
		}
	}
	_, err := idem.Do[string](t.Context(), e, request("key-0001"), nil)
	wantError(t, "Do without an effect", err, idem.ErrInvalid)
	_, err = idem.Do(t.Context(), nil, request("key-0001"), never(t))
	wantError(t, "Do without an executor", err, idem.ErrInvalid)
}

// Whatever is wrong with a part of a request is ErrInvalid and says what it is, on
// every path, and no effect runs.
func TestBadPartsOnEveryPath(t *testing.T) {
	b := openBank(t)
	e := newTx(t, b)
	runs := 0
	leased := func(context.Context, *idem.Run) (string, error) { runs++; return "", nil }
	inTx := func(context.Context, *sql.Tx) (string, error) { runs++; return "", nil }
	tx, err := b.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	parts := map[string]func(*idem.Request) *string{
		"tenant":    func(r *idem.Request) *string { return &r.Scope.Tenant },
		"actor":     func(r *idem.Request) *string { return &r.Scope.Actor },
		"key":       func(r *idem.Request) *string { return &r.Key },
		"method":    func(r *idem.Request) *string { return &r.Method },
		"path":      func(r *idem.Request) *string { return &r.Path },
		"operation": func(r *idem.Request) *string { return &r.Operation },
	}
	for part, of := range parts {
		values := []string{"a\x00bcdefgh", "a\xffbcdefgh", "a\nbcdefgh", "abcdefgh\x7f", "abcd\u0085efgh", strings.Repeat("x", 9000)}
		if part != "method" && part != "path" {
			values = append(values, "")
		}
		for _, v := range values {
			r := request("key-0001")
			*of(&r) = v
			_, do := idem.Do(t.Context(), e.Executor, r, leased)
			_, doTx := idem.DoTx(t.Context(), e, r, inTx)
			_, doIn := idem.DoIn(t.Context(), e, tx, r, inTx)
			for call, err := range map[string]error{"Do": do, "DoTx": doTx, "DoIn": doIn} {
				var typed *backend.Error
				if !errors.Is(err, idem.ErrInvalid) || !errors.As(err, &typed) || !strings.Contains(typed.Hint, part) {
					t.Errorf("%s with the %s %.12q = %v, want ErrInvalid that names the %s", call, part, v, err, part)
				}
			}
		}
	}
	if runs != 0 {
		t.Errorf("effects ran %d times, want never", runs)
	}
	b.wantCharges(t, 0)
}

func TestKeyLengths(t *testing.T) {
	e := newExecutor(t, memory.New())
	for _, n := range []int{8, 255} {
		if _, err := idem.Do(t.Context(), e, request(strings.Repeat("k", n)), returns("ok")); err != nil {
			t.Errorf("Do with a key of %d bytes = %v", n, err)
		}
	}
}

func TestBadOptions(t *testing.T) {
	for name, opts := range map[string][]idem.Option{
		"no lease":                     {idem.WithLease(0)},
		"a negative lease":             {idem.WithLease(-time.Second)},
		"no retention":                 {idem.WithRetention(0)},
		"a negative retention":         {idem.WithRetention(-time.Second)},
		"a negative remembrance":       {idem.WithRemember(-1)},
		"too long a remembrance":       {idem.WithRemember(backend.MaxDuration + 1)},
		"a lease over the retention":   {idem.WithLease(2 * time.Hour), idem.WithRetention(time.Hour)},
		"abandon under the retention":  {idem.WithAbandonAfter(time.Hour)},
		"a negative wait":              {idem.WithWait(-1)},
		"no retry after":               {idem.WithRetryAfter(0)},
		"a negative response":          {idem.WithMaxResponse(-1)},
		"keys of no bytes":             {idem.WithKeyLength(0, 10)},
		"keys longer than the store's": {idem.WithKeyLength(8, 256)},
		"keys longest before shortest": {idem.WithKeyLength(9, 8)},
		"no fingerprinter":             {idem.WithFingerprinter(nil)},
		"no observer":                  {idem.WithObserver(nil)},
		"a nil option":                 {nil},
		"no rule of takeover":          {idem.WithTakeover(nil)},
	} {
		_, err := idem.New(memory.New(), opts...)
		wantError(t, "New with "+name, err, idem.ErrInvalid)
	}
	_, err := idem.New(nil)
	wantError(t, "New(nil)", err, idem.ErrInvalid)
	_, err = idem.NewTx[int](nil)
	wantError(t, "NewTx(nil)", err, idem.ErrInvalid)
	_, err = idem.New((*memory.Backend)(nil))
	wantError(t, "New of a nil pointer", err, idem.ErrInvalid)
	_, err = idem.NewTx((*sqlite.Backend)(nil))
	wantError(t, "NewTx of a nil pointer", err, idem.ErrInvalid)
}

// Hard cases 4 and 28: changing how requests are compared breaks no retry of an
// older one, and what can't be computed is neither a mismatch nor a replay.
func TestFingerprintVersions(t *testing.T) {
	m := memory.New()
	plain, err := idem.NewFingerprinter()
	if err != nil {
		t.Fatal(err)
	}
	without, err := idem.NewFingerprinter(idem.Omit("/sent_at"))
	if err != nil {
		t.Fatal(err)
	}
	old := newExecutor(t, m)
	deployed := newExecutor(t, m, idem.WithFingerprinter(without, plain))
	stranger := newExecutor(t, m, idem.WithFingerprinter(without))
	if _, err := idem.Do(t.Context(), old, request("key-0001"), returns("old")); err != nil {
		t.Fatal(err)
	}
	if res, err := idem.Do(t.Context(), deployed, request("key-0001"), never(t)); err != nil || res.Value != "old" {
		t.Errorf("Do after the deploy = %+v, %v, want the replay", res, err)
	}
	bad := request("key-0001")
	bad.Content.Body = []byte(`{"amount":6}`)
	_, err = idem.Do(t.Context(), deployed, bad, never(t))
	wantError(t, "Do of another request after the deploy", err, idem.ErrMismatch)
	_, err = idem.Do(t.Context(), stranger, request("key-0001"), never(t))
	wantError(t, "Do with a version that can't be compared", err, idem.ErrUnavailable)
}

// Hard case 29: refusing takeover.
func TestTakeoverRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExecutor(t, memory.New(), idem.WithLease(time.Minute),
			idem.WithTakeover(func(op string) bool { return op != "POST /payments" }))
		_, err := idem.Do(t.Context(), e, request("key-0001"), func(context.Context, *idem.Run) (string, error) {
			return "", idem.MaybeDone(errBoom)
		})
		wantError(t, "Do", err, errBoom)
		_, err = idem.Do(t.Context(), e, request("key-0001"), never(t))
		wantError(t, "Do while the lease holds", err, idem.ErrInProgress)
		time.Sleep(time.Minute)
		_, err = idem.Do(t.Context(), e, request("key-0001"), never(t))
		wantError(t, "Do after the lease", err, idem.ErrNeedsResolution)
		r := request("key-0001")
		r.Operation = "POST /other"
		if res, err := idem.Do(t.Context(), e, r, returns("ok")); err != nil || res.Attempt != 2 {
			t.Errorf("Do of an operation that may = %+v, %v, want a takeover", res, err)
		}
	})
}

// A record with recovery points is not run by code that has no phases.
func TestRecoveryPointIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.New()
		e := newExecutor(t, m, idem.WithLease(time.Minute))
		var held backend.Lease
		f := &faulty{Backend: m, claim: func(ctx context.Context, c backend.Claim) (backend.Claimed, error) {
			got, err := m.Claim(ctx, c)
			held = got.Record.Holder()
			return got, err
		}}
		_, err := idem.Do(t.Context(), newExecutor(t, f, idem.WithLease(time.Minute)), request("key-0001"), func(ctx context.Context, _ *idem.Run) (string, error) {
			if err := m.Checkpoint(ctx, held, backend.Checkpoint{Sequence: 1, Point: "created"}); err != nil {
				t.Error(err)
			}
			return "", errBoom
		})
		wantError(t, "Do", err, errBoom)
		_, err = idem.Do(t.Context(), e, request("key-0001"), never(t))
		wantError(t, "Do on a record with a recovery point", err, idem.ErrRecoveryPoint)
		if r, err := m.Get(t.Context(), held.Key); err != nil || r.RecoveryPoint != "created" {
			t.Errorf("Get() = %+v, %v, want the recovery point kept", r, err)
		}
	})
}

// A background sweeper stops with its context.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.New()
		var ev events
		e := newExecutor(t, m, idem.WithObserver(ev.observe), idem.WithRetention(time.Hour))
		if _, err := idem.Do(t.Context(), e, request("key-0001"), returns("ok")); err != nil {
			t.Fatal(err)
		}
		if n, err := e.Sweep(t.Context()); n != 0 || err != nil {
			t.Errorf("Sweep within the retention = %d, %v, want 0", n, err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		stopped := make(chan error)
		go func() { stopped <- e.RunSweeper(ctx, time.Minute) }()
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		ev.want(t, "acquired", "swept of ")
		cancel(errBoom)
		if err := <-stopped; !errors.Is(err, errBoom) {
			t.Errorf("RunSweeper() = %v, want its context's cause", err)
		}
		if res, err := idem.Do(t.Context(), e, request("key-0001"), returns("again")); err != nil || res.Replayed {
			t.Errorf("Do after the retention = %+v, %v, want a fresh run", res, err)
		}
	})
	wantError(t, "RunSweeper(0)", newExecutor(t, memory.New()).RunSweeper(t.Context(), 0), idem.ErrInvalid)
}

// Two jobs that get one key and one body are two requests: the name of a job is
// its target.
func TestJobsDoNotAnswerForEachOther(t *testing.T) {
	e := newExecutor(t, memory.New())
	charge, mail := request("key-0001"), request("key-0001")
	charge.Method, charge.Path, charge.Operation = "", "", "charge"
	mail.Method, mail.Path, mail.Operation = "", "", "send mail"
	if _, err := idem.Do(t.Context(), e, charge, returns("charged")); err != nil {
		t.Fatal(err)
	}
	_, err := idem.Do(t.Context(), e, mail, never(t))
	var mismatch *idem.MismatchError
	if !errors.As(err, &mismatch) || mismatch.Part != backend.Path {
		t.Errorf("Do of another job with the key = %v, want a mismatch of the path", err)
	}
	if res, err := idem.Do(t.Context(), e, charge, never(t)); err != nil || !res.Replayed {
		t.Errorf("Do of the first job again = %+v, %v, want its replay", res, err)
	}
}
