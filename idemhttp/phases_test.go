package idemhttp

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/memory"
	"github.com/idem-go/idem/sqlite"
)

var errGateway = errors.New("the gateway's secret")

// steps is a handler of two steps: a phase and a call. What it does after them is
// the test's.
type steps struct {
	phases, calls, asked atomic.Int32

	charge  func() error // what Do of the call ends with; nil: it is done
	inquire idem.Outcome
	end     func(w http.ResponseWriter, r *http.Request, run *idem.Run, err error)
}

func (s *steps) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	run, _ := RunFrom(ctx)
	_, err := idem.Phase(ctx, run, "create", func(context.Context) (int32, error) { return s.phases.Add(1), nil })
	if err == nil {
		_, err = idem.Call(ctx, run, "charge", idem.Foreign[int32]{
			Do: func(context.Context, string) (int32, error) {
				n := s.calls.Add(1)
				if s.charge != nil {
					return n, s.charge()
				}
				return n, nil
			},
			Inquire: func(context.Context, string) (int32, idem.Outcome, error) {
				return s.asked.Add(1), s.inquire, nil
			},
		})
	}
	s.end(w, r, run, err)
}

func (s *steps) check(t *testing.T, when string, phases, calls, asked int32) {
	t.Helper()
	if p, c, a := s.phases.Load(), s.calls.Load(), s.asked.Load(); p != phases || c != calls || a != asked {
		t.Errorf("%s: the phase ran %d times, the call was sent %d times and asked for %d times, want %d, %d, %d", when, p, c, a, phases, calls, asked)
	}
}

func answerAttempt(w http.ResponseWriter, run *idem.Run) {
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, "attempt "+strconv.Itoa(run.Attempt()))
}

func withSteps(opts ...idem.Option) []idem.Option {
	return append([]idem.Option{idem.WithPhases("1")}, opts...)
}

// A failed request that has passed recovery points is resumed by the client's retry,
// at once and behind them: whatever 5xx the handler wrote, and if it wrote none.
func TestFailedRequestIsResumed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fail func(w http.ResponseWriter, r *http.Request)
		want func(t *testing.T, r reply)
	}{
		"the handler's 500": {
			func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "oops", http.StatusInternalServerError) },
			func(t *testing.T, r reply) {
				if r.status != http.StatusInternalServerError || r.body != "oops\n" {
					t.Errorf("first = %d %q, want the handler's 500", r.status, r.body)
				}
			},
		},
		"an error": {
			func(_ http.ResponseWriter, r *http.Request) { Transient(r.Context(), errGateway) },
			func(t *testing.T, r reply) { checkProblem(t, "first", r, requestFailed) },
		},
		"a panic": {
			func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			func(t *testing.T, r reply) {
				if !r.aborted() {
					t.Errorf("first = %d, want no answer", r.status)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &steps{end: func(w http.ResponseWriter, r *http.Request, run *idem.Run, err error) {
				if err != nil {
					t.Errorf("attempt %d: %v", run.Attempt(), err)
				}
				if run.Attempt() == 1 {
					c.fail(w, r)
					return
				}
				answerAttempt(w, run)
			}}
			s := leased(t, setup{executor: withSteps()}, h)
			first := send(t, s, withKey(key1))
			c.want(t, first)
			if strings.Contains(first.body, "secret") {
				t.Errorf("first = %q, which tells the error", first.body)
			}
			h.check(t, "failed", 1, 1, 0)
			for _, replayed := range []string{"", "true"} {
				if r := send(t, s, withKey(key1)); r.status != http.StatusCreated || r.body != "attempt 2" || r.header.Get(replayedHeader) != replayed {
					t.Errorf("retry = %d %q, replayed %q, want 201 of attempt 2", r.status, r.body, r.header.Get(replayedHeader))
				}
			}
			h.check(t, "resumed", 1, 1, 0)
		})
	}
}

// hard case 30: a 5xx after a call mark keeps the record, with its lease where the
// call's outcome is not known. Whatever the handler writes then, nothing is stored
// over it.
func TestUnknownCallKeepsTheRecord(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(w http.ResponseWriter, r *http.Request, err error)
		want problem // of the first answer; zero: the handler's 502
	}{
		"502": {end: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }},
		"201": {func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusCreated) }, unknownOutcome},
		"404": {func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusNotFound) }, unknownOutcome},
		"final 502": {func(w http.ResponseWriter, r *http.Request, _ error) {
			Final(r.Context())
			w.WriteHeader(http.StatusBadGateway)
		}, unknownOutcome},
		"nothing":   {func(http.ResponseWriter, *http.Request, error) {}, unknownOutcome},
		"transient": {func(_ http.ResponseWriter, r *http.Request, err error) { Transient(r.Context(), err) }, unknownOutcome},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := memory.NewClock(time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC))
			h := &steps{
				charge:  func() error { return errGateway },
				inquire: idem.OutcomeDone,
				end: func(w http.ResponseWriter, r *http.Request, run *idem.Run, err error) {
					switch {
					case run.Attempt() == 1 && !errors.Is(err, idem.ErrUnknownOutcome):
						t.Errorf("attempt 1: %v, want %v", err, idem.ErrUnknownOutcome)
					case run.Attempt() > 1 && err != nil:
						t.Errorf("attempt %d: %v", run.Attempt(), err)
					}
					if err != nil {
						c.end(w, r, err)
						return
					}
					answerAttempt(w, run)
				},
			}
			s := leased(t, setup{backend: memory.New(memory.WithClock(clock)), executor: withSteps()}, h)
			first := send(t, s, withKey(key1))
			if c.want.Type != "" {
				checkProblem(t, "first", first, c.want)
			} else if first.status != http.StatusBadGateway {
				t.Errorf("first = %d %q, want the handler's 502", first.status, first.body)
			}
			if strings.Contains(first.body, "secret") {
				t.Errorf("first = %q, which tells the error", first.body)
			}
			checkProblem(t, "retry within the lease", send(t, s, withKey(key1)), inProgress)
			h.check(t, "within the lease", 1, 1, 0)
			clock.Advance(time.Minute)
			if r := send(t, s, withKey(key1)); r.status != http.StatusCreated || r.body != "attempt 2" {
				t.Errorf("retry after the lease = %d %q, want 201 of attempt 2", r.status, r.body)
			}
			h.check(t, "after the lease", 1, 1, 1)
		})
	}
}

// What Do says of steps that can't go on has a problem of its own each.
func TestProblemsOfSteps(t *testing.T) {
	t.Parallel()
	store := memory.New()
	pass := func(w http.ResponseWriter, r *http.Request, run *idem.Run, err error) {
		if err != nil {
			Transient(r.Context(), err)
			return
		}
		answerAttempt(w, run)
	}
	fails := func(w http.ResponseWriter, _ *http.Request, _ *idem.Run, _ error) {
		w.WriteHeader(http.StatusInternalServerError)
	}

	left := leased(t, setup{backend: store, executor: withSteps()}, &steps{end: fails})
	if r := send(t, left, withKey(key1)); r.status != http.StatusInternalServerError {
		t.Fatalf("first = %d %q, want 500", r.status, r.body)
	}
	for name, opts := range map[string][]idem.Option{
		"another version": {idem.WithPhases("2")},
		"no steps":        nil,
	} {
		h := &steps{end: pass}
		s := leased(t, setup{backend: store, executor: opts}, h)
		checkProblem(t, "retry on "+name, send(t, s, withKey(key1)), notResumable)
		h.check(t, name, 0, 0, 0)
	}
	renamed := leased(t, setup{backend: store, executor: withSteps()}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		run, _ := RunFrom(r.Context())
		if _, err := idem.Phase(r.Context(), run, "begin", func(context.Context) (int, error) { return 0, errGateway }); !errors.Is(err, idem.ErrRecoveryPoint) {
			t.Errorf("a step of another name = %v, want %v", err, idem.ErrRecoveryPoint)
		}
		created(w, r)
	}))
	checkProblem(t, "retry on renamed steps", send(t, renamed, withKey(key1)), notResumable)
	if r := send(t, leased(t, setup{backend: store, executor: withSteps()}, &steps{end: pass}), withKey(key1)); r.status != http.StatusCreated {
		t.Errorf("retry on the code that began it = %d %q, want 201", r.status, r.body)
	}

	big := func(w http.ResponseWriter, r *http.Request) {
		run, _ := RunFrom(r.Context())
		_, err := idem.Phase(r.Context(), run, "create", func(context.Context) (string, error) { return strings.Repeat("x", 1000), nil })
		pass(w, r, run, err)
	}
	none := leased(t, setup{executor: withSteps(idem.WithMaxState(10))}, http.HandlerFunc(big))
	checkProblem(t, "no room for a step", send(t, none, withKey(key1)), internal)
	little := leased(t, setup{executor: withSteps(idem.WithMaxState(500))}, http.HandlerFunc(big))
	checkProblem(t, "no room for a result", send(t, little, withKey(key1)), needsResolution)
	checkProblem(t, "retry", send(t, little, withKey(key1)), needsResolution)
}

// A handler whose answer is committed by idem.CompleteTx: the first caller gets what
// its retries get, whatever else the handler writes.
func TestAnswerOfCompleteTx(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]http.HandlerFunc{
		"nothing":     func(http.ResponseWriter, *http.Request) {},
		"a 500":       status(http.StatusInternalServerError),
		"another 201": created,
		"an error":    func(_ http.ResponseWriter, r *http.Request) { Transient(r.Context(), errGateway) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := openDB(t)
			b, err := sqlite.New(db)
			if err != nil {
				t.Fatal(err)
			}
			h, ran := runs(func(w http.ResponseWriter, r *http.Request) {
				run, _ := RunFrom(r.Context())
				if _, ok := run.Answer(); ok {
					t.Error("Answer() before there is one")
				}
				answer, err := NewAnswer(http.StatusAccepted, http.Header{"Location": {"/orders/7"}}, []byte("order 7"))
				if err != nil {
					t.Error(err)
				}
				_, err = idem.CompleteTx(r.Context(), run, b, func(ctx context.Context, tx *sql.Tx) (idem.Response, error) {
					_, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES ('order')")
					return answer, err
				})
				if err != nil {
					t.Errorf("CompleteTx() = %v", err)
				}
				http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
				after(w, r)
			})
			s := leased(t, setup{backend: b, executor: withSteps()}, h)
			for i, replayed := range []string{"", "true"} {
				r := send(t, s, withKey(key1))
				if r.status != http.StatusAccepted || r.body != "order 7" || r.header.Get("Location") != "/orders/7" || r.header.Get("Set-Cookie") != "" || r.header.Get(replayedHeader) != replayed {
					t.Errorf("try %d = %d %q %q, want the answer of CompleteTx", i+1, r.status, r.head, r.body)
				}
			}
			if n := ran.Load(); n != 1 || count(t, db) != 1 {
				t.Errorf("the handler ran %d times and had %d effects, want 1 and 1", n, count(t, db))
			}
		})
	}
}
