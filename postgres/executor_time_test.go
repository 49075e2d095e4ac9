package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idem-go/idem"
)

// Field report 23: the clocks of the service and of the store are an hour apart,
// either way, and the session's time zone is not UTC. Only the store's decides. Its
// clock is moved by a function that the sessions find before the server's own.
func TestTwoClocks(t *testing.T) {
	t.Parallel()
	for _, offset := range []string{"1 hour", "-1 hour"} {
		for _, zone := range []string{"UTC", "Pacific/Chatham", "America/St_Johns"} {
			t.Run(offset+" "+zone, func(t *testing.T) {
				t.Parallel()
				_, pool, srv := migrated(t)
				effectsTable(t, pool)
				exec(t, pool, `CREATE SCHEMA moved`)
				exec(t, pool, `CREATE FUNCTION moved.clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql AS
					$$ SELECT pg_catalog.clock_timestamp() + interval '`+offset+`' $$`)
				b := newBackend(t, open(t, srv.URL, func(c *pgxpool.Config) {
					c.ConnConfig.RuntimeParams["search_path"] = "moved, public, pg_catalog"
					c.ConnConfig.RuntimeParams["TimeZone"] = zone
				}))
				p := &payments{pool: pool}
				const lease = time.Minute
				e := executor(t, b, idem.WithLease(lease), idem.WithRetryAfter(time.Hour), idem.WithWait(0))
				rival := executor(t, b, idem.WithLease(lease), idem.WithRetryAfter(time.Hour), idem.WithWait(0))
				res, err := idem.Do(t.Context(), e.Executor, intent("key-0001"), func(ctx context.Context, run *idem.Run) (string, error) {
					_, err := idem.Do(t.Context(), rival.Executor, intent("key-0001"), p.leased)
					var busy *idem.InProgressError
					if !errors.As(err, &busy) || busy.RetryAfter < lease/2 || busy.RetryAfter > lease {
						t.Errorf("Do of a duplicate = %v, want InProgressError with what is left of the lease", err)
					}
					r, err := b.Get(ctx, keyOf(intent("key-0001")))
					if d := time.Since(r.CreatedAt).Abs(); err != nil || d < 50*time.Minute || d > 70*time.Minute {
						t.Errorf("the store's clock is off by %v, %v, want an hour", d, err)
					}
					answer, err := p.leased(ctx, run)
					return answer, errors.Join(err, ctx.Err())
				})
				wantResult(t, "Do", res, err, "payment 1", false, 1)
				res, err = idem.DoTx(t.Context(), e, intent("key-0002"), func(ctx context.Context, tx pgx.Tx) (string, error) {
					if end, ok := ctx.Deadline(); !ok || time.Until(end) > lease || time.Until(end) < lease/2 {
						t.Errorf("the effect's context ends in %v, %v, want the lease", time.Until(end), ok)
					}
					return p.inTx(ctx, tx)
				})
				wantResult(t, "DoTx", res, err, "payment 2", false, 1)
				// What is retained is not swept, and replays; what lapsed is taken over.
				short := executor(t, b, idem.WithLease(2*time.Second), idem.WithWait(0))
				if _, err := idem.Do(t.Context(), short.Executor, intent("key-0003"), func(context.Context, *idem.Run) (string, error) {
					return "", idem.MaybeDone(errEffect)
				}); !errors.Is(err, errEffect) {
					t.Errorf("Do = %v, want the effect's error", err)
				}
				if n, err := e.Sweep(t.Context()); n != 0 || err != nil {
					t.Errorf("Sweep = %d, %v, want nothing to be over", n, err)
				}
				for key, want := range map[string]string{"key-0001": "payment 1", "key-0002": "payment 2"} {
					res, err := idem.Do(t.Context(), rival.Executor, intent(key), p.leased)
					wantResult(t, "Do of a retry", res, err, want, true, 1)
				}
				until(t, b, keyOf(intent("key-0003")))
				res, err = idem.Do(t.Context(), rival.Executor, intent("key-0003"), p.leased)
				wantResult(t, "Do after the lease", res, err, "payment 3", false, 2)
				p.wantRuns(t, 3)
			})
		}
	}
}

// Field report 24: now() stands still in a long transaction. What lapsed since it
// began is taken over in it, and retained from its completion.
func TestDoInALongTransaction(t *testing.T) {
	t.Parallel()
	b, pool := withEffects(t)
	p := &payments{pool: pool}
	short := executor(t, b, idem.WithLease(2*time.Second))
	e := executor(t, b, idem.WithLease(2*time.Second))
	tx := begin(t, pool)
	began := value[time.Time](t, pool, `SELECT clock_timestamp()`)
	exec2(t, tx, `SELECT now()`)
	if _, err := idem.Do(t.Context(), short.Executor, intent("key-0001"), func(context.Context, *idem.Run) (string, error) {
		return "", idem.MaybeDone(errEffect)
	}); !errors.Is(err, errEffect) {
		t.Fatal(err)
	}
	until(t, b, keyOf(intent("key-0001")))
	eventually(t, "the transaction is old", func() bool {
		return value[bool](t, pool, `SELECT clock_timestamp() > $1::timestamptz + interval '500 ms'`, began)
	})
	res, err := idem.DoIn(t.Context(), e, tx, intent("key-0001"), p.inTx)
	wantResult(t, "DoIn", res, err, "payment 1", false, 2)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := b.Get(t.Context(), keyOf(intent("key-0001")))
	if err != nil || r.CompletedAt.Sub(began) < 500*time.Millisecond {
		t.Errorf("completed %v after the transaction began, %v, want the clock of the statement", r.CompletedAt.Sub(began), err)
	}
	if n, err := e.Sweep(t.Context()); err != nil || n != 0 {
		t.Errorf("Sweep = %d, %v, want what was just completed to stay", n, err)
	}
	res, err = idem.Do(t.Context(), e.Executor, intent("key-0001"), p.leased)
	wantResult(t, "Do of a retry", res, err, "payment 1", true, 2)
	wantEffects(t, pool, 1)
}

// Field report 5: sweepers and retries work on the same expired records. Whatever
// the sweepers saw before, a request that was answered stays answered.
func TestSweepersAgainstRetries(t *testing.T) {
	t.Parallel()
	b, pool := withEffects(t)
	e := executor(t, b)
	ctx, cancel := context.WithCancel(t.Context())
	var sweepers, callers sync.WaitGroup
	for range 3 {
		s := executor(t, b)
		sweepers.Go(func() {
			for ctx.Err() == nil {
				if _, err := s.Sweep(t.Context()); err != nil {
					t.Errorf("Sweep = %v, want nil", err)
				}
			}
		})
	}
	p := &payments{pool: pool}
	const keys, rounds = 6, 25
	for k := range keys {
		callers.Go(func() {
			r := intent(fmt.Sprint("key-000", k))
			for range rounds {
				res, err := idem.DoTx(t.Context(), e, r, p.inTx)
				if err != nil || res.Replayed {
					t.Errorf("DoTx after the retention = %+v, %v, want a fresh run", res, err)
				}
				again, err := idem.Do(t.Context(), e.Executor, r, p.leased)
				wantResult(t, "Do of a retry", again, err, res.Value, true, res.Attempt)
				exec(t, pool, `UPDATE idem_keys SET completed_at = 'epoch', expires_at = 'epoch' WHERE key = $1`, r.Key)
			}
		})
	}
	callers.Wait()
	cancel()
	sweepers.Wait()
	p.wantRuns(t, keys*rounds)
}

// Round trips through the executor, counted at the proxy: two on the leased path,
// one for a replay, on the transaction path two more than the effect's own.
func TestRoundTripsOfTheExecutor(t *testing.T) {
	t.Parallel()
	b, proxy, _, pool := faulty(t, size(1))
	e := executor(t, b)
	p := &payments{pool: pool}
	n := 0
	fresh := func() idem.Request { n++; return intent(fmt.Sprintf("key-%04d", n)) }
	last := func() idem.Request { return intent(fmt.Sprintf("key-%04d", n)) }
	do := func(r idem.Request) error { _, err := idem.Do(t.Context(), e.Executor, r, p.leased); return err }
	doTx := func(r idem.Request) error { _, err := idem.DoTx(t.Context(), e, r, p.inTx); return err }
	for _, tt := range []struct {
		name string
		do   func() error
		want int
	}{
		{"Do", func() error { return do(fresh()) }, 2},
		{"Do of a retry", func() error { return do(last()) }, 1},
		{"DoTx with one statement", func() error { return doTx(fresh()) }, 2 + 1},
		{"DoTx of a retry", func() error { return doTx(last()) }, 2},
	} {
		best, trips := 100, ""
		for range 5 { // statements are prepared at their first use
			proxy.Reset()
			if err := tt.do(); err != nil {
				t.Fatalf("%s = %v, want nil", tt.name, err)
			}
			if got := proxy.RoundTrips(); got < best {
				best, trips = got, strings.Join(proxy.Trips(), "\n")
			}
		}
		if best != tt.want {
			t.Errorf("round trips of %s = %d, want %d:\n%s", tt.name, best, tt.want, trips)
		}
	}
}
