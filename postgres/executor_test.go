package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/postgres"
)

// intent is a request of one user, as a service gets it.
func intent(key string) idem.Request {
	return idem.Request{
		Scope: idem.Scope{Tenant: "tenant", Actor: "actor"}, Key: key, Operation: "POST /payments",
		Method: "POST", Path: "/payments", Content: idem.Content{Type: "application/json", Body: []byte(`{"amount":5}`)},
	}
}

func keyOf(r idem.Request) backend.Key {
	return backend.Key{Tenant: r.Scope.Tenant, Actor: r.Scope.Actor, Value: r.Key}
}

func executor(t testing.TB, b *postgres.Backend, opts ...idem.Option) *idem.TxExecutor[pgx.Tx] {
	t.Helper()
	e, err := idem.NewTx(b, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return e
}

// payments are effects that leave a row each, and are counted.
type payments struct {
	pool *pgxpool.Pool
	runs atomic.Int32
}

func (p *payments) inTx(ctx context.Context, tx pgx.Tx) (string, error) {
	n := p.runs.Add(1)
	_, err := tx.Exec(ctx, `INSERT INTO effects (key) VALUES ('paid')`)
	return fmt.Sprint("payment ", n), err
}

func (p *payments) leased(ctx context.Context, _ *idem.Run) (string, error) {
	n := p.runs.Add(1)
	_, err := p.pool.Exec(ctx, `INSERT INTO effects (key) VALUES ('paid')`)
	return fmt.Sprint("payment ", n), err
}

func (p *payments) wantRuns(t testing.TB, want int32) {
	t.Helper()
	if n := p.runs.Load(); n != want {
		t.Errorf("the effect ran %d times, want %d", n, want)
	}
}

// wantResult checks a call's answer.
func wantResult(t testing.TB, call string, res idem.Result[string], err error, value string, replayed bool, attempt int) {
	t.Helper()
	if want := (idem.Result[string]{Value: value, Replayed: replayed, Attempt: attempt}); err != nil || res != want {
		t.Errorf("%s = %+v, %v, want %+v", call, res, err, want)
	}
}

func cutWhere(arrives bool) testenv.Action {
	if arrives {
		return testenv.CutAfter
	}
	return testenv.CutBefore
}

// PG-12, hard case 10: the answer of the COMMIT that travels with the completion is
// lost, and so may be those of the first looks at what became of it. The caller gets
// the answer that retries get, and the effect happened once.
func TestDoTxFindsOutAboutItsCommit(t *testing.T) {
	t.Parallel()
	for name, m := range modes {
		for _, arrives := range []bool{true, false} {
			for _, looksLost := range []int{0, 2} {
				t.Run(fmt.Sprintf("%s, arrives %v, %d looks lost", name, arrives, looksLost), func(t *testing.T) {
					t.Parallel()
					b, proxy, direct, pool := faulty(t, mode(m))
					e := executor(t, b)
					p := &payments{}
					if _, err := idem.DoTx(t.Context(), e, intent("warm up."), (&payments{}).inTx); err != nil {
						t.Fatal(err)
					}
					cut := proxy.Add(testenv.Rule{On: testenv.ToServer, Match: commits, Do: cutWhere(arrives)})
					for range looksLost {
						// The first match is the claim of the transaction to be cut.
						proxy.Add(testenv.Rule{On: testenv.ToServer, Match: testenv.Runs("begin"), Do: testenv.CutAfter, Skip: 1})
					}
					res, err := idem.DoTx(t.Context(), e, intent("key-0001"), p.inTx)
					<-cut.Fired()
					answer, runs := "payment 1", int32(1)
					if !arrives {
						answer, runs = "payment 2", 2
					}
					wantResult(t, "DoTx", res, err, answer, false, 1)
					p.wantRuns(t, runs)
					wantEffects(t, pool, 2)
					res, err = idem.DoTx(t.Context(), executor(t, direct), intent("key-0001"), p.inTx)
					wantResult(t, "DoTx of a retry", res, err, answer, true, 1)
					wantEffects(t, pool, 2)
				})
			}
		}
	}
}

// PG-12: the same for a COMMIT that the caller sends, alone.
func TestDoInFindsOutAboutItsCommit(t *testing.T) {
	t.Parallel()
	for _, arrives := range []bool{true, false} {
		b, proxy, direct, pool := faulty(t)
		e, p := executor(t, b), &payments{}
		proxied := open(t, via(t, pool, proxy))
		call := func() (res idem.Result[string], err error) {
			err = pgx.BeginFunc(t.Context(), proxied, func(tx pgx.Tx) (err error) {
				res, err = idem.DoIn(t.Context(), e, tx, intent("key-0001"), p.inTx)
				return err
			})
			return res, err
		}
		cut := proxy.Add(testenv.Rule{On: testenv.ToServer, Match: commits, Do: cutWhere(arrives)})
		if res, err := call(); err == nil {
			t.Errorf("a transaction whose COMMIT got no answer = %+v, nil, want an error", res)
		}
		<-cut.Fired()
		answer, runs := "payment 1", int32(1)
		if !arrives {
			answer, runs = "payment 2", 2
		}
		res, err := call()
		wantResult(t, "the transaction again", res, err, answer, arrives, 1)
		p.wantRuns(t, runs)
		wantEffects(t, pool, 1)
		res, err = idem.DoTx(t.Context(), executor(t, direct), intent("key-0001"), p.inTx)
		wantResult(t, "DoTx of a retry", res, err, answer, true, 1)
	}
}

// Hard cases 10 and 11: a COMMIT is stuck in the network. Until it is through nobody
// runs the effect again; its caller and a duplicate then get one answer.
func TestDoTxWaitsForItsCommit(t *testing.T) {
	t.Parallel()
	b, proxy, direct, pool := faulty(t)
	p := &payments{}
	e, other := executor(t, b, idem.WithLease(8*time.Second)), executor(t, direct, idem.WithWait(100*time.Millisecond))
	held := proxy.Add(testenv.Rule{On: testenv.ToServer, Match: commits, Do: testenv.Hold})
	done := make(chan struct{})
	go func() {
		defer close(done)
		res, err := idem.DoTx(t.Context(), e, intent("key-0001"), p.inTx)
		wantResult(t, "DoTx", res, err, "payment 1", false, 1)
	}()
	<-held.Fired()
	waiting(t, pool, 1) // its caller gave the COMMIT up and looks
	_, err := idem.DoTx(t.Context(), other, intent("key-0001"), p.inTx)
	if !errors.Is(err, idem.ErrInProgress) {
		t.Errorf("DoTx of a duplicate = %v, want ErrInProgress", err)
	}
	bad := intent("key-0001")
	bad.Content.Body = []byte(`{"amount":6}`)
	if _, err := idem.DoTx(t.Context(), other, bad, p.inTx); !errors.Is(err, idem.ErrInProgress) {
		t.Errorf("DoTx of another request, nothing committed = %v, want ErrInProgress", err)
	}
	held.Release()
	<-done
	res, err := idem.DoTx(t.Context(), other, intent("key-0001"), p.inTx)
	wantResult(t, "DoTx of a duplicate", res, err, "payment 1", true, 1)
	if _, err := idem.DoTx(t.Context(), other, bad, p.inTx); !errors.Is(err, idem.ErrMismatch) {
		t.Errorf("DoTx of another request = %v, want ErrMismatch", err)
	}
	p.wantRuns(t, 1)
	wantEffects(t, pool, 1)
}

// An outcome that can't be found out is unknown, neither a success nor "not done";
// a retry finds it.
func TestDoTxReportsAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	b, proxy, direct, pool := faulty(t)
	p := &payments{}
	cut := proxy.Add(testenv.Rule{On: testenv.ToServer, Match: commits, Do: testenv.CutAfter})
	go func() {
		<-cut.Fired()
		proxy.Refuse(true)
	}()
	// The first look may get a connection before new ones are refused.
	proxy.Add(testenv.Rule{On: testenv.ToServer, Match: testenv.Runs("begin"), Do: testenv.CutAfter, Skip: 1, Sticky: true})
	_, err := idem.DoTx(t.Context(), executor(t, b, idem.WithLease(time.Second)), intent("key-0001"), p.inTx)
	if !errors.Is(err, idem.ErrUnknownOutcome) || errors.Is(err, idem.ErrUnavailable) {
		t.Errorf("DoTx whose COMMIT got no answer and that can't look = %v, want ErrUnknownOutcome only", err)
	}
	res, err := idem.DoTx(t.Context(), executor(t, direct), intent("key-0001"), p.inTx)
	wantResult(t, "DoTx of a retry", res, err, "payment 1", true, 1)
	p.wantRuns(t, 1)
	wantEffects(t, pool, 1)
}

// Field report 8: one's own retry after the lost reply of a claim or a completion
// is not a rival, and the effect is not run again for it.
func TestDoRecognisesItsOwn(t *testing.T) {
	t.Parallel()
	for _, statement := range []string{"insert into", "status = 'completed'"} {
		for _, arrives := range []bool{true, false} {
			b, proxy, direct, pool := faulty(t)
			p := &payments{pool: pool}
			cut := proxy.Add(testenv.Rule{On: testenv.ToServer, Match: testenv.Runs(statement), Do: cutWhere(arrives)})
			res, err := idem.Do(t.Context(), executor(t, b).Executor, intent("key-0001"), p.leased)
			<-cut.Fired()
			wantResult(t, "Do", res, err, "payment 1", false, 1)
			p.wantRuns(t, 1)
			wantEffects(t, pool, 1)
			res, err = idem.Do(t.Context(), executor(t, direct).Executor, intent("key-0001"), p.leased)
			wantResult(t, "Do of a retry", res, err, "payment 1", true, 1)
		}
	}
}

// Field report 21 and design 6: the store goes away. Before the effect: it doesn't
// run. After it: retried until the lease ends, found by looking where it can be, and
// otherwise unknown, never a success that a retry would contradict.
func TestDoOnAStoreThatGoesAway(t *testing.T) {
	t.Parallel()
	b, proxy, direct, pool := faulty(t)
	p := &payments{pool: pool}
	e := executor(t, b, idem.WithLease(3*time.Second))
	down := func(on bool) {
		proxy.Refuse(on)
		proxy.CutAll()
	}
	_, err := idem.Do(t.Context(), e.Executor, intent("key-0001"), func(ctx context.Context, run *idem.Run) (string, error) {
		down(true)
		return p.leased(ctx, run)
	})
	if !errors.Is(err, idem.ErrUnknownOutcome) || errors.Is(err, idem.ErrUnavailable) {
		t.Errorf("Do whose completion can't be stored = %v, want ErrUnknownOutcome only", err)
	}
	_, err = idem.Do(t.Context(), e.Executor, intent("key-0002"), p.leased)
	_, txErr := idem.DoTx(t.Context(), e, intent("key-0002"), p.inTx)
	for call, err := range map[string]error{"Do": err, "DoTx": txErr} {
		if !errors.Is(err, idem.ErrUnavailable) || errors.Is(err, idem.ErrUnknownOutcome) {
			t.Errorf("%s on a store that is down = %v, want ErrUnavailable only", call, err)
		}
	}
	p.wantRuns(t, 1)
	down(false)
	until(t, direct, keyOf(intent("key-0001")))
	res, err := idem.Do(t.Context(), e.Executor, intent("key-0001"), p.leased)
	wantResult(t, "Do after the lease", res, err, "payment 2", false, 2) // at least once, as the docs say

	// All answers of the completion are lost, but it can be looked up.
	lost := proxy.Add(testenv.Rule{On: testenv.ToServer, Match: testenv.Runs("status = 'completed'"), Do: testenv.CutAfter, Sticky: true})
	e = executor(t, b, idem.WithLease(4*time.Second))
	res, err = idem.Do(t.Context(), e.Executor, intent("key-0003"), p.leased)
	wantResult(t, "Do whose completions get no answer", res, err, "payment 3", false, 1)
	if lost.Count() < 2 {
		t.Errorf("the completion was sent %d times, want more than once", lost.Count())
	}
}

// PG-16: a pool of two connections, one owner and eight duplicates, of this process
// and of others that share the pool. All of them end.
func TestExecutorsOnAPoolOfTwo(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"DoTx", "Do"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			direct, pool, srv := migrated(t)
			effectsTable(t, pool)
			b := newBackend(t, open(t, srv.URL, size(2)))
			p := &payments{pool: pool}
			opts := []idem.Option{idem.WithLease(12 * time.Second), idem.WithWait(time.Minute)}
			e := executor(t, b, opts...)
			var wg sync.WaitGroup
			duplicates := func() {
				for i := range 8 {
					d := e
					if i%2 == 0 {
						// Each waits with the one connection that is left, for a quarter of
						// the lease at most; the owner, who comes to it after all four,
						// must have it well within its own lease.
						d = executor(t, b, append(opts, idem.WithWait(time.Second))...)
					}
					wg.Go(func() {
						var res idem.Result[string]
						var err error
						if i < 4 {
							res, err = idem.DoTx(t.Context(), d, intent("key-0001"), p.inTx)
						} else {
							res, err = idem.Do(t.Context(), d.Executor, intent("key-0001"), p.leased)
						}
						// Those of other executors wait with a connection each, and may not
						// get one in time.
						if d != e && (errors.Is(err, idem.ErrUnavailable) || errors.Is(err, idem.ErrInProgress)) {
							return
						}
						wantResult(t, "a duplicate", res, err, "payment 1", true, 1)
					})
				}
			}
			// The owner needs connections besides, to renew and for what it likes.
			look := func(ctx context.Context) {
				if _, err := b.Get(ctx, request("another").Key); !errors.Is(err, backend.ErrNotFound) {
					t.Errorf("Get in the effect = %v, want ErrNotFound", err)
				}
			}
			var res idem.Result[string]
			var err error
			if path == "DoTx" {
				res, err = idem.DoTx(t.Context(), e, intent("key-0001"), func(ctx context.Context, tx pgx.Tx) (string, error) {
					duplicates()
					waiting(t, pool, 1)
					look(ctx)
					return p.inTx(ctx, tx)
				})
			} else {
				res, err = idem.Do(t.Context(), e.Executor, intent("key-0001"), func(ctx context.Context, run *idem.Run) (string, error) {
					duplicates()
					first, err := direct.Get(ctx, keyOf(intent("key-0001")))
					if err != nil {
						return "", err
					}
					eventually(t, "the lease is renewed", func() bool {
						r, err := direct.Get(ctx, first.Key)
						return err == nil && r.LockedUntil.After(first.LockedUntil.Add(time.Second))
					})
					look(ctx)
					return p.leased(ctx, run)
				})
			}
			wantResult(t, path, res, err, "payment 1", false, 1)
			wg.Wait()
			p.wantRuns(t, 1)
			wantEffects(t, pool, 1)
		})
	}
}

// Field report 2: the caller goes away. While its effect waits for the store the
// effect fails, and a retry runs it; after it, it is completed all the same.
func TestCallerGoes(t *testing.T) {
	t.Parallel()
	b, pool := withEffects(t)
	e, p := executor(t, b), &payments{pool: pool}
	for path, call := range map[string]func(context.Context, idem.Request, context.CancelFunc, string) (idem.Result[string], error){
		"Do": func(ctx context.Context, r idem.Request, cancel context.CancelFunc, at string) (idem.Result[string], error) {
			return idem.Do(ctx, e.Executor, r, func(ctx context.Context, run *idem.Run) (string, error) {
				if at == "before" {
					cancel()
				}
				defer cancel()
				return p.leased(ctx, run)
			})
		},
		"DoTx": func(ctx context.Context, r idem.Request, cancel context.CancelFunc, at string) (idem.Result[string], error) {
			return idem.DoTx(ctx, e, r, func(ctx context.Context, tx pgx.Tx) (string, error) {
				if at == "before" {
					cancel()
				}
				defer cancel()
				return p.inTx(ctx, tx)
			})
		},
	} {
		exec(t, pool, `TRUNCATE effects, idem_keys`)
		p.runs.Store(0)
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := call(ctx, intent("key-0001"), cancel, "before"); !errors.Is(err, context.Canceled) {
			t.Errorf("%s whose caller goes before its effect has written = %v, want Canceled", path, err)
		}
		wantEffects(t, pool, 0)
		ctx, cancel = context.WithCancel(t.Context())
		res, err := call(ctx, intent("key-0001"), cancel, "after")
		wantResult(t, path+" whose caller goes after its effect", res, err, "payment 2", false, 1)
		res, err = call(t.Context(), intent("key-0001"), func() {}, "")
		wantResult(t, path+" of a retry", res, err, "payment 2", true, 1)
		wantEffects(t, pool, 1)
	}
}

// A caller of DoIn that commits in spite of the effect's error: half an effect is not
// there, and the request runs once, when the claim that was committed has lapsed.
func TestDoInCommittedInSpiteOfItsError(t *testing.T) {
	t.Parallel()
	b, pool := withEffects(t)
	p := &payments{pool: pool}
	e := executor(t, b, idem.WithLease(time.Second), idem.WithMaxResponse(postgres.MaxValue+2))
	for name, fail := range map[string]func() (string, error){
		"an error":                  func() (string, error) { return "", errEffect },
		"a panic":                   func() (string, error) { panic(errEffect) },
		"more than the store takes": func() (string, error) { return strings.Repeat("x", postgres.MaxValue), nil },
	} {
		exec(t, pool, `TRUNCATE effects, idem_keys`)
		tx := begin(t, pool)
		func() {
			defer func() { _ = recover() }()
			if _, err := idem.DoIn(t.Context(), e, tx, intent("key-0001"), func(ctx context.Context, tx pgx.Tx) (string, error) {
				exec2(t, tx, `INSERT INTO effects (key) VALUES ('half')`)
				return fail()
			}); err == nil {
				t.Errorf("DoIn with %s = nil, want an error", name)
			}
		}()
		if err := tx.Commit(t.Context()); err != nil {
			t.Errorf("Commit after %s = %v", name, err)
		}
		wantEffects(t, pool, 0)
		until(t, b, keyOf(intent("key-0001")))
		if res, err := idem.DoTx(t.Context(), executor(t, b), intent("key-0001"), p.inTx); err != nil || res.Attempt != 2 {
			t.Errorf("DoTx after %s = %+v, %v, want attempt 2", name, res, err)
		}
		wantEffects(t, pool, 1)
	}
}
