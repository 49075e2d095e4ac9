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
	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/postgres"
)

// A store that can't be used says so with ErrUnavailable and what to do, before any
// effect runs, on every path.
func TestNoEffectWithoutAStore(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spoil func(t *testing.T, pool *pgxpool.Pool, proxy *testenv.Proxy)
		says  string
		in    bool // a transaction of the caller's can be had
	}{
		"a closed pool": {func(_ *testing.T, pool *pgxpool.Pool, _ *testenv.Proxy) { pool.Close() }, "", false},
		"a server that is down": {func(_ *testing.T, _ *pgxpool.Pool, proxy *testenv.Proxy) {
			proxy.Refuse(true)
			proxy.CutAll()
		}, "", false},
		"no table": {func(t *testing.T, pool *pgxpool.Pool, _ *testenv.Proxy) { exec(t, pool, `DROP TABLE idem_keys`) }, "postgres.Migrate", true},
		"too old a schema": {func(t *testing.T, pool *pgxpool.Pool, _ *testenv.Proxy) {
			exec(t, pool, `ALTER TABLE idem_keys DROP COLUMN recovery_point; COMMENT ON TABLE idem_keys IS 'idem schema 0'`)
		}, "postgres.Migrate", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, direct, srv := migrated(t)
			effectsTable(t, direct)
			proxy := srv.Proxy(t)
			pool := open(t, srv.Via(proxy.Addr()), mode(pgx.QueryExecModeCacheDescribe))
			e, p := executor(t, newBackend(t, pool), idem.WithLease(time.Second)), &payments{pool: direct}
			if _, err := idem.DoTx(t.Context(), e, intent("key-0000"), (&payments{}).inTx); err != nil {
				t.Fatal(err)
			}
			tt.spoil(t, pool, proxy)
			_, do := idem.Do(t.Context(), e.Executor, intent("key-0001"), p.leased)
			_, doTx := idem.DoTx(t.Context(), e, intent("key-0001"), p.inTx)
			errs := map[string]error{"Do": do, "DoTx": doTx}
			if tt.in {
				errs["DoIn"] = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					_, err := idem.DoIn(t.Context(), e, tx, intent("key-0001"), p.inTx)
					return err
				})
			}
			for call, err := range errs {
				if !errors.Is(err, idem.ErrUnavailable) || errors.Is(err, idem.ErrUnknownOutcome) || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("%s with %s = %v, want ErrUnavailable that says %q", call, name, err, tt.says)
				}
			}
			p.wantRuns(t, 0)
			wantEffects(t, direct, 1)
		})
	}
}

// PG-12, PG-20: the server dies between a COMMIT and its answer, and comes back. The
// caller finds out, and the effect happened once.
func TestServerDiesAtCommit(t *testing.T) {
	t.Parallel()
	for _, arrives := range []bool{true, false} {
		t.Run(fmt.Sprint("arrives ", arrives), func(t *testing.T) {
			t.Parallel()
			srv := testenv.PostgresPrivate(t)
			pool := open(t, srv.URL)
			if err := postgres.Migrate(t.Context(), pool); err != nil {
				t.Fatal(err)
			}
			effectsTable(t, pool)
			proxy := srv.Proxy(t)
			e, p := executor(t, newBackend(t, open(t, srv.Via(proxy.Addr()))), idem.WithLease(time.Minute)), &payments{}
			cut := proxy.Add(testenv.Rule{On: testenv.ToServer, Match: commits, Do: cutWhere(arrives)})
			restarted := make(chan struct{})
			go func() {
				defer close(restarted)
				<-cut.Fired()
				srv.Kill(t)
				srv.Start(t)
			}()
			res, err := idem.DoTx(t.Context(), e, intent("key-0001"), p.inTx)
			<-restarted
			answer, runs := "payment 1", int32(1)
			if !arrives {
				answer, runs = "payment 2", 2
			}
			wantResult(t, "DoTx", res, err, answer, false, 1)
			p.wantRuns(t, runs)
			pool.Reset()
			wantEffects(t, pool, 1)
			res, err = idem.DoTx(t.Context(), e, intent("key-0001"), p.inTx)
			wantResult(t, "DoTx of a retry", res, err, answer, true, 1)
		})
	}
}

// Hard case 24: what waited for somebody else has its whole lease before it, from
// the last statement that was sent.
func TestBudgetStartsAfterTheWait(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"Transact", "InLease"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			b, pool, _ := migrated(t)
			c := request("key")
			c.Lease, c.Wait = 2*time.Second, time.Minute
			check := func(ctx context.Context) {
				if end, ok := ctx.Deadline(); !ok || time.Until(end) < c.Lease/2 || time.Until(end) > c.Lease || ctx.Err() != nil {
					t.Errorf("the context of %s ends in %v, %v, %v, want about %v", path, time.Until(end), ok, ctx.Err(), c.Lease)
				}
			}
			tx := begin(t, pool)
			var call func() error
			if path == "Transact" {
				claimIn(t, b, tx, request("key"))
				call = func() error {
					_, err := b.Transact(t.Context(), c, func(ctx context.Context, _ pgx.Tx, _ backend.Claimed) (backend.Effect, error) {
						check(ctx)
						return backend.Effect{Response: response("x")}, nil
					})
					return err
				}
			} else {
				l := acquire(t, b, c).Holder()
				exec2(t, tx, `SELECT FROM idem_keys FOR UPDATE`)
				call = func() error {
					_, err := b.InLease(t.Context(), l, 1, func(ctx context.Context, _ pgx.Tx) (backend.Step, error) {
						check(ctx)
						return backend.Step{Point: "p"}, nil
					})
					return err
				}
			}
			done := make(chan error, 1)
			go func() { done <- call() }()
			waiting(t, pool, 1)
			began := value[time.Time](t, pool, `SELECT clock_timestamp()`)
			eventually(t, "the lease would be over", func() bool {
				return value[bool](t, pool, `SELECT clock_timestamp() > $1::timestamptz + interval '2.2 s'`, began)
			})
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Errorf("%s = %v, want nil", path, err)
			}
		})
	}
}

// Field report 28: executors through PgBouncer in transaction mode, with more clients
// than it has connections. One effect for every key.
func TestExecutorsThroughPgBouncer(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t)
	url := testenv.PgBouncer(t, srv)
	pool := open(t, srv.URL)
	if err := postgres.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	effectsTable(t, pool)
	p := &payments{pool: pool}
	const keys, clients = 10, 4
	var wg sync.WaitGroup
	for range clients {
		e := executor(t, newBackend(t, open(t, url, mode(pgx.QueryExecModeExec), size(10))), idem.WithWait(time.Minute))
		for k := range 2 * keys {
			r := intent(fmt.Sprintf("key-%04d", k/2))
			wg.Go(func() {
				var err error
				if k%4 < 2 {
					_, err = idem.DoTx(t.Context(), e, r, p.inTx)
				} else {
					_, err = idem.Do(t.Context(), e.Executor, r, p.leased)
				}
				if err != nil {
					t.Errorf("call through PgBouncer = %v, want nil", err)
				}
			})
		}
	}
	wg.Wait()
	p.wantRuns(t, keys)
	wantEffects(t, pool, keys)
}
