package idem_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// request is a valid request of one user.
func request(key string) idem.Request {
	return idem.Request{
		Scope:     idem.Scope{Tenant: "shop", Actor: "ada"},
		Key:       key,
		Operation: "POST /payments",
		Method:    "POST",
		Path:      "/payments",
		Content:   idem.Content{Type: "application/json", Body: []byte(`{"amount":5}`)},
	}
}

func newExecutor(t *testing.T, b backend.Backend, opts ...idem.Option) *idem.Executor {
	t.Helper()
	e, err := idem.New(b, opts...)
	if err != nil {
		t.Fatalf("New() = %v", err)
	}
	return e
}

// returns is an effect that gives v.
func returns[V any](v V) func(context.Context, *idem.Run) (V, error) {
	return func(context.Context, *idem.Run) (V, error) { return v, nil }
}

// never is an effect that must not run.
func never(t *testing.T) func(context.Context, *idem.Run) (string, error) {
	return func(context.Context, *idem.Run) (string, error) {
		t.Helper()
		t.Error("the effect ran")
		return "", nil
	}
}

func wantError(t *testing.T, call string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s = %v, want %v", call, got, want)
	}
}

// faulty lets a test stand in the way of single operations of a backend, as a
// network would.
type faulty struct {
	backend.Backend
	claim      func(context.Context, backend.Claim) (backend.Claimed, error)
	renew      func(context.Context, backend.Lease, time.Duration) error
	checkpoint func(context.Context, backend.Lease, backend.Checkpoint) error
	complete   func(context.Context, backend.Lease, backend.Completion) error
	release    func(context.Context, backend.Lease) error
	get        func(context.Context, backend.Key) (backend.Record, error)
}

func (f *faulty) Claim(ctx context.Context, c backend.Claim) (backend.Claimed, error) {
	if f.claim != nil {
		return f.claim(ctx, c)
	}
	return f.Backend.Claim(ctx, c)
}

func (f *faulty) Renew(ctx context.Context, l backend.Lease, d time.Duration) error {
	if f.renew != nil {
		return f.renew(ctx, l, d)
	}
	return f.Backend.Renew(ctx, l, d)
}

func (f *faulty) Checkpoint(ctx context.Context, l backend.Lease, c backend.Checkpoint) error {
	if f.checkpoint != nil {
		return f.checkpoint(ctx, l, c)
	}
	return f.Backend.Checkpoint(ctx, l, c)
}

func (f *faulty) Complete(ctx context.Context, l backend.Lease, c backend.Completion) error {
	if f.complete != nil {
		return f.complete(ctx, l, c)
	}
	return f.Backend.Complete(ctx, l, c)
}

func (f *faulty) Release(ctx context.Context, l backend.Lease) error {
	if f.release != nil {
		return f.release(ctx, l)
	}
	return f.Backend.Release(ctx, l)
}

func (f *faulty) Get(ctx context.Context, k backend.Key) (backend.Record, error) {
	if f.get != nil {
		return f.get(ctx, k)
	}
	return f.Backend.Get(ctx, k)
}

// events collects what an observer is told.
type events struct {
	mu sync.Mutex
	s  []string
}

func (e *events) observe(_ context.Context, ev idem.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := string(ev.Kind)
	if ev.Operation != "POST /payments" {
		s += " of " + ev.Operation
	}
	e.s = append(e.s, s)
}

func (e *events) want(t *testing.T, want ...string) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if fmt.Sprint(e.s) != fmt.Sprint(want) {
		t.Errorf("events = %q, want %q", e.s, want)
	}
}

var errBoom = errors.New("boom")

func TestFirstAndReplay(t *testing.T) {
	var ev events
	e := newExecutor(t, memory.New(), idem.WithObserver(ev.observe))
	for i, replayed := range []bool{false, true, true} {
		res, err := idem.Do(t.Context(), e, request("key-0001"), func(_ context.Context, run *idem.Run) (string, error) {
			if run.Attempt() != 1 || run.Token() <= 0 {
				t.Errorf("Attempt, Token = %d, %d, want 1 and a positive token", run.Attempt(), run.Token())
			}
			return fmt.Sprint("answer of call ", i), nil
		})
		if err != nil || res.Value != "answer of call 0" || res.Replayed != replayed || res.Attempt != 1 {
			t.Errorf("Do, call %d = %+v, %v, want the first answer, Replayed %v", i, res, err, replayed)
		}
	}
	ev.want(t, "acquired", "replayed", "replayed")
}

// Field report 22: an effect that returns nothing has an answer all the same.
func TestEmptyAnswerReplays(t *testing.T) {
	e := newExecutor(t, memory.New())
	for range 2 {
		ran := false
		res, err := idem.Do(t.Context(), e, request("key-0001"), func(context.Context, *idem.Run) (struct{}, error) {
			ran = true
			return struct{}{}, nil
		})
		if err != nil || ran == res.Replayed {
			t.Errorf("Do = %+v, %v with the effect run: %v", res, err, ran)
		}
	}
}

// Field reports 11 and 14: the key belongs to one request of one user.
func TestMismatchAndScope(t *testing.T) {
	var ev events
	e := newExecutor(t, memory.New(), idem.WithObserver(ev.observe))
	if _, err := idem.Do(t.Context(), e, request("key-0001"), returns("secret")); err != nil {
		t.Fatal(err)
	}
	for part, change := range map[backend.Part]func(*idem.Request){
		backend.Method:  func(r *idem.Request) { r.Method = "PATCH" },
		backend.Path:    func(r *idem.Request) { r.Path = "/refunds" },
		backend.Content: func(r *idem.Request) { r.Content.Body = []byte(`{"amount":6}`) },
	} {
		r := request("key-0001")
		change(&r)
		_, err := idem.Do(t.Context(), e, r, never(t))
		var m *idem.MismatchError
		if !errors.As(err, &m) || m.Part != part {
			t.Errorf("Do with another %s = %v, want a MismatchError of it", part, err)
		}
		wantError(t, "Do with another "+string(part), err, idem.ErrMismatch)
	}
	ev.want(t, "acquired", "mismatch", "mismatch", "mismatch")
	for _, s := range []idem.Scope{{Tenant: "shop", Actor: "bob"}, {Tenant: "other", Actor: "ada"}} {
		r := request("key-0001")
		r.Scope = s
		if res, err := idem.Do(t.Context(), e, r, returns("own")); err != nil || res.Replayed || res.Value != "own" {
			t.Errorf("Do of %v = %+v, %v, want a run of its own", s, res, err)
		}
	}
	// Hard case 27: the operation is a label.
	r := request("key-0001")
	r.Operation = "POST /v2/payments"
	if res, err := idem.Do(t.Context(), e, r, never(t)); err != nil || !res.Replayed {
		t.Errorf("Do with another operation = %+v, %v, want a replay", res, err)
	}
}

func TestFailureFreesTheKey(t *testing.T) {
	var ev events
	e := newExecutor(t, memory.New(), idem.WithObserver(ev.observe))
	fail := func(err error) {
		t.Helper()
		_, got := idem.Do(t.Context(), e, request("key-0001"), func(context.Context, *idem.Run) (string, error) { return "", err })
		wantError(t, "Do", got, errBoom)
	}
	fail(errBoom)
	fail(idem.NotDone(errBoom))
	func() {
		defer func() {
			if p := recover(); p != errBoom {
				t.Errorf("recover() = %v, want the effect's panic", p)
			}
		}()
		_, _ = idem.Do(t.Context(), e, request("key-0001"), func(context.Context, *idem.Run) (string, error) { panic(errBoom) })
	}()
	ended := make(chan struct{})
	go func() { // runtime.Goexit, as by t.FailNow in an effect
		defer close(ended)
		_, _ = idem.Do(t.Context(), e, request("key-0001"), func(context.Context, *idem.Run) (string, error) {
			runtime.Goexit()
			return "", nil
		})
	}()
	<-ended
	if res, err := idem.Do(t.Context(), e, request("key-0001"), returns("ok")); err != nil || res.Value != "ok" || res.Replayed {
		t.Errorf("Do after failures = %+v, %v, want a fresh run", res, err)
	}
	ev.want(t, "acquired", "released", "acquired", "released", "acquired", "released", "acquired", "released", "acquired")
}

// Hard case 6: an error that leaves open what was done keeps the record.
func TestMaybeDoneKeepsTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ev events
		e := newExecutor(t, memory.New(), idem.WithLease(time.Minute), idem.WithRetryAfter(time.Hour), idem.WithObserver(ev.observe))
		_, err := idem.Do(t.Context(), e, request("key-0001"), func(context.Context, *idem.Run) (string, error) {
			return "", idem.MaybeDone(errBoom)
		})
		wantError(t, "Do", err, errBoom)
		_, err = idem.Do(t.Context(), e, request("key-0001"), never(t))
		var p *idem.InProgressError
		if !errors.As(err, &p) || p.RetryAfter != time.Minute {
			t.Errorf("Do = %v, want InProgressError with the whole lease", err)
		}
		time.Sleep(time.Minute)
		res, err := idem.Do(t.Context(), e, request("key-0001"), returns("ok"))
		if err != nil || res.Attempt != 2 {
			t.Errorf("Do after the lease = %+v, %v, want attempt 2", res, err)
		}
		ev.want(t, "acquired", "unknown", "in progress", "resumed")
	})
}

func TestReject(t *testing.T) {
	e := newExecutor(t, memory.New())
	for i, replayed := range []bool{false, true} {
		res, err := idem.Do(t.Context(), e, request("key-0001"), func(context.Context, *idem.Run) (string, error) {
			return "", fmt.Errorf("wrapped: %w", idem.Reject(fmt.Sprint("refused by call ", i)))
		})
		if err != nil || res.Value != "refused by call 0" || res.Replayed != replayed {
			t.Errorf("Do, call %d = %+v, %v, want the first refusal", i, res, err)
		}
	}
	_, err := idem.Do(t.Context(), e, request("key-0002"), func(context.Context, *idem.Run) (string, error) {
		return "", idem.Reject(5)
	})
	wantError(t, "Do with Reject of another type", err, idem.ErrInvalid)
	if _, err := idem.Do(t.Context(), e, request("key-0002"), returns("ok")); err != nil {
		t.Errorf("Do after it = %v, want a fresh run", err)
	}
}

// Field report 29: a limit that shows when the effect has run is answered with a
// tombstone.
func TestValuesThatCannotBeStored(t *testing.T) {
	e := newExecutor(t, memory.New(), idem.WithMaxResponse(10))
	t.Run("too large", func(t *testing.T) {
		big := idem.Response{Status: 201, Header: []byte("0123456789"), Body: []byte("x")}
		res, err := idem.Do(t.Context(), e, request("key-0001"), returns(big))
		if err != nil || string(res.Value.Body) != "x" {
			t.Errorf("Do = %+v, %v, want the whole answer", res, err)
		}
		_, err = idem.Do(t.Context(), e, request("key-0001"), returns(big))
		var ts *idem.TombstoneError
		if !errors.As(err, &ts) || ts.Response.Tombstone != backend.TooLarge || ts.Response.Status != 201 || string(ts.Response.Header) != "0123456789" {
			t.Errorf("Do again = %v, want a tombstone with status and header", err)
		}
	})
	for limit, header := range map[int]string{15: "0123456789", 5: ""} {
		t.Run("too large for the store", func(t *testing.T) { // hard case 15: what fits of the header is kept
			m := memory.New()
			f := &faulty{Backend: m, complete: func(ctx context.Context, l backend.Lease, c backend.Completion) error {
				if c.Response.Size() > limit {
					return &backend.Error{Op: "test", Kind: backend.ErrTooLarge}
				}
				return m.Complete(ctx, l, c)
			}}
			e := newExecutor(t, f)
			big := idem.Response{Status: 201, Header: []byte("0123456789"), Body: []byte("0123456789")}
			if res, err := idem.Do(t.Context(), e, request("key-0001"), returns(big)); err != nil || !res.Value.Equal(big) {
				t.Errorf("Do = %+v, %v, want the whole answer", res, err)
			}
			_, err := idem.Do(t.Context(), e, request("key-0001"), returns(big))
			var ts *idem.TombstoneError
			if !errors.As(err, &ts) || ts.Response.Tombstone != backend.TooLarge || string(ts.Response.Header) != header {
				t.Errorf("Do again, limit %d = %v, %+v, want a tombstone with header %q", limit, err, ts, header)
			}
		})
	}
	t.Run("fits exactly", func(t *testing.T) {
		fits := idem.Response{Header: []byte("01234"), Body: []byte("56789")}
		for range 2 {
			if res, err := idem.Do(t.Context(), e, request("key-0002"), returns(fits)); err != nil || !res.Value.Equal(fits) {
				t.Errorf("Do = %+v, %v, want it all", res, err)
			}
		}
	})
	t.Run("does not encode", func(t *testing.T) {
		_, err := idem.Do(t.Context(), e, request("key-0003"), returns(func() {}))
		wantError(t, "Do", err, idem.ErrInvalid)
		_, err = idem.Do(t.Context(), e, request("key-0003"), never(t))
		wantError(t, "Do again", err, idem.ErrTombstone)
	})
	t.Run("does not decode", func(t *testing.T) {
		if _, err := idem.Do(t.Context(), e, request("key-0004"), returns("text")); err != nil {
			t.Fatal(err)
		}
		_, err := idem.Do(t.Context(), e, request("key-0004"), returns(5))
		wantError(t, "Do with another type", err, idem.ErrInvalid)
	})
	t.Run("too large for the store", func(t *testing.T) {
		m := memory.New()
		f := &faulty{Backend: m, complete: func(ctx context.Context, l backend.Lease, c backend.Completion) error {
			if err := c.Validate(l, 3); err != nil {
				return err
			}
			return m.Complete(ctx, l, c)
		}}
		e := newExecutor(t, f)
		if res, err := idem.Do(t.Context(), e, request("key-0005"), returns("abcdef")); err != nil || res.Value != "abcdef" {
			t.Errorf("Do = %+v, %v, want the answer", res, err)
		}
		_, err := idem.Do(t.Context(), e, request("key-0005"), never(t))
		wantError(t, "Do again", err, idem.ErrTombstone)
	})
}

func TestStream(t *testing.T) {
	e := newExecutor(t, memory.New())
	_, err := idem.Do(t.Context(), e, request("key-0001"), func(ctx context.Context, run *idem.Run) (string, error) {
		if err := run.Stream(ctx, idem.Response{Status: 200}); err != nil {
			t.Errorf("Stream() = %v", err)
		}
		return "", errBoom // must not free the key any more
	})
	wantError(t, "Do", err, errBoom)
	_, err = idem.Do(t.Context(), e, request("key-0001"), never(t))
	var ts *idem.TombstoneError
	if !errors.As(err, &ts) || ts.Response.Tombstone != backend.Streamed || ts.Response.Status != 200 {
		t.Errorf("Do again = %v, want the tombstone of a stream", err)
	}
}

// Hard case 31: a call inside of a run of the same key.
func TestNested(t *testing.T) {
	e := newExecutor(t, memory.New(), idem.WithWait(time.Hour))
	_, err := idem.Do(t.Context(), e, request("key-0001"), func(ctx context.Context, _ *idem.Run) (string, error) {
		if res, err := idem.Do(ctx, e, request("key-0002"), returns("inner")); err != nil || res.Value != "inner" {
			t.Errorf("Do with another key inside = %+v, %v", res, err)
		}
		res, err := idem.Do(ctx, e, request("key-0001"), never(t))
		return res.Value, err
	})
	wantError(t, "Do inside of its own run", err, idem.ErrInvalid)
}

// Hard case 17: Close drains, New asks nothing, Check refuses on findings.
func TestCloseDrains(t *testing.T) {
	e := newExecutor(t, memory.New())
	began, end, done := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		_, err := idem.Do(t.Context(), e, request("key-0001"), func(context.Context, *idem.Run) (string, error) {
			close(began)
			<-end
			return "ok", nil
		})
		done <- err
	}()
	<-began
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantError(t, "Close with a call running", e.Close(ctx), context.Canceled)
	_, err := idem.Do(t.Context(), e, request("key-0002"), never(t))
	wantError(t, "Do after Close", err, idem.ErrUnavailable)
	close(end)
	if err := <-done; err != nil {
		t.Errorf("Do = %v, want the running call to end well", err)
	}
	for range 2 {
		if err := e.Close(t.Context()); err != nil {
			t.Errorf("Close() = %v", err)
		}
	}
}

// Hard case 17.
func TestCheckRefusesOnFindings(t *testing.T) {
	err := newExecutor(t, memory.New()).Check(t.Context())
	var f *idem.FindingsError
	if !errors.As(err, &f) || len(f.Findings) != 1 || f.Findings[0].ID != "memory/volatile" {
		t.Errorf("Check() = %v, want the memory's finding", err)
	}
	wantError(t, "Check()", err, idem.ErrFindings)
}
