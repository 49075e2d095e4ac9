package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/postgres"
)

// begin starts a transaction of somebody else, on a connection of its own.
func begin(t testing.TB, pool *pgxpool.Pool) pgx.Tx {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// claimIn claims in a transaction of somebody else, which is left open.
func claimIn(t testing.TB, b *postgres.Backend, tx pgx.Tx, c backend.Claim) backend.Record {
	t.Helper()
	got, err := b.Bind(tx).Claim(t.Context(), c)
	if err != nil || !got.Acquired {
		t.Fatalf("Claim in a transaction = acquired %v, %v, want acquired", got.Acquired, err)
	}
	return got.Record
}

// waiting waits until n sessions wait for a lock.
func waiting(t testing.TB, pool *pgxpool.Pool, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d sessions wait for a lock", n), func() bool {
		return value[int](t, pool, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == n
	})
}

// quiet waits until no session runs anything. One that waits may look for a moment
// as if it did not; it is active all the time.
func quiet(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	eventually(t, "nothing runs", func() bool {
		return value[int](t, pool, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active'`) == 1
	})
}

type answer struct {
	got backend.Claimed
	err error
}

func inBackground(f func() (backend.Claimed, error)) <-chan answer {
	out := make(chan answer, 1)
	go func() {
		got, err := f()
		out <- answer{got, err}
	}()
	return out
}

// PG-1, PG-2, PG-5, field reports 7 and 9: a claim that meets an uncommitted one
// waits, and answers by what became of it.
func TestClaimMeetsAnUncommittedOne(t *testing.T) {
	t.Parallel()
	for _, commit := range []bool{true, false} {
		b, pool, _ := migrated(t)
		first := request("key")
		tx := begin(t, pool)
		claimIn(t, b, tx, first)
		second := request("key")
		second.Wait = 10 * time.Second
		answer := inBackground(func() (backend.Claimed, error) { return b.Claim(t.Context(), second) })
		waiting(t, pool, 1)
		end := tx.Rollback
		if commit {
			end = tx.Commit
		}
		if err := end(t.Context()); err != nil {
			t.Fatal(err)
		}
		a := <-answer
		switch {
		case a.err != nil:
			t.Errorf("Claim after commit %v = %v, want nil", commit, a.err)
		case commit && (a.got.Acquired || a.got.Hidden || a.got.Record.ClaimID != first.ID):
			t.Errorf("Claim after a commit = acquired %v of %x, want the winner's record", a.got.Acquired, a.got.Record.ClaimID)
		case !commit && (!a.got.Acquired || a.got.Record.ClaimID != second.ID):
			t.Errorf("Claim after a rollback = acquired %v, want acquired", a.got.Acquired)
		}
	}
}

// PG-6, hard case 11: the wait has a bound, and its end is not an error.
func TestClaimWaitsForNoLongerThanAsked(t *testing.T) {
	t.Parallel()
	b, pool := withEffects(t)
	tx := begin(t, pool)
	claimIn(t, b, tx, request("new"))
	lapsed := request("lapsed")
	lapsed.Lease = time.Millisecond
	acquire(t, b, lapsed)
	until(t, b, lapsed.Key)
	exec2(t, tx, `UPDATE idem_keys SET updated_at = updated_at WHERE key = 'lapsed'`)
	for _, key := range []string{"new", "lapsed", "at once"} {
		c := request(key)
		c.Wait = 100 * time.Millisecond
		least := c.Wait
		if key == "at once" {
			c.Key.Value, c.Wait, least = "new", 0, 50*time.Millisecond
		}
		for path, claim := range map[string]func() (backend.Claimed, error){
			"Claim":    func() (backend.Claimed, error) { return b.Claim(t.Context(), c) },
			"Transact": func() (backend.Claimed, error) { return b.Transact(t.Context(), c, never(t)) },
			"Bind": func() (got backend.Claimed, err error) {
				err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					if got, err = b.Bind(tx).Claim(t.Context(), c); err != nil {
						return err
					}
					// PG-6: the caller's transaction is not lost to it.
					_, err := tx.Exec(t.Context(), `INSERT INTO effects (key) VALUES ('bound')`)
					return err
				})
				return got, err
			},
		} {
			start := time.Now()
			got, err := claim()
			if err != nil || got.Acquired || !got.Hidden || got.Record.Key != c.Key || got.Record.Status != 0 {
				t.Errorf("%s(%s) = %+v, %v, want hidden and only the key", path, key, got, err)
			}
			if d := time.Since(start); d < least {
				t.Errorf("%s(%s) returned after %v, want it to wait %v", path, key, d, least)
			}
		}
	}
	wantEffects(t, pool, 3)
	wantIdleBut(t, pool, 1)
}

func exec2(t testing.TB, tx pgx.Tx, sql string, args ...any) {
	t.Helper()
	if _, err := tx.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func wantIdleBut(t testing.TB, pool *pgxpool.Pool, n int32) {
	t.Helper()
	if got := pool.Stat().AcquiredConns(); got != n {
		t.Errorf("connections held = %d, want %d", got, n)
	}
}

// until waits until the lease of a key lapses.
func until(t testing.TB, b backend.Backend, k backend.Key) {
	t.Helper()
	eventually(t, "the lease lapses", func() bool {
		r, err := b.Get(t.Context(), k)
		return err == nil && r.LeaseLeft == 0
	})
}

// PG-11, hard cases 8 and 25: a lease granted after a wait is a whole one, and its
// token is drawn after it.
func TestClaimAfterAWaitHasAWholeLease(t *testing.T) {
	t.Parallel()
	const lease = time.Second
	for _, path := range []string{"Claim", "Transact", "Bind"} {
		for _, lapsed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s of a lapsed record %v", path, lapsed), func(t *testing.T) {
				t.Parallel()
				b, pool := withEffects(t)
				tx := begin(t, pool)
				old := request("key")
				if lapsed {
					old.Lease = time.Millisecond
					acquire(t, b, old)
					until(t, b, old.Key)
					exec2(t, tx, `UPDATE idem_keys SET updated_at = updated_at`)
				} else {
					claimIn(t, b, tx, old)
				}
				c := request("key")
				c.Lease, c.Wait = lease, 10*time.Second
				var held backend.Record
				answer := inBackground(func() (got backend.Claimed, err error) {
					switch path {
					case "Claim":
						got, err = b.Claim(t.Context(), c)
						held = got.Record
					case "Transact":
						got, err = b.Transact(t.Context(), c, func(ctx context.Context, tx pgx.Tx, h backend.Claimed) (backend.Effect, error) {
							held = h.Record
							eff, err := writes("x")(ctx, tx, h)
							eff.Undo = true // the savepoint comes after all of the claim
							return eff, err
						})
					default:
						err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
							v := b.Bind(tx)
							if got, err = v.Claim(t.Context(), c); err != nil {
								return err
							}
							held = got.Record
							exec2(t, tx, `INSERT INTO effects (key) VALUES ('undone')`)
							if err := v.Undo(t.Context()); err != nil {
								return err
							}
							return v.Complete(t.Context(), held.Holder(), completion("x"))
						})
					}
					return got, err
				})
				waiting(t, pool, 1)
				exec(t, pool, `SELECT pg_sleep(1.2)`) // longer than the lease
				now := value[int64](t, pool, `SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint`)
				if err := tx.Rollback(t.Context()); err != nil {
					t.Fatal(err)
				}
				a := <-answer
				if a.err != nil || !a.got.Acquired {
					t.Fatalf("%s = acquired %v, %v, want acquired", path, a.got.Acquired, a.err)
				}
				if held.LeaseLeft < lease*9/10 {
					t.Errorf("lease left = %v, want at least %v", held.LeaseLeft, lease*9/10)
				}
				if int64(held.Token) < now {
					t.Errorf("token = %d, want one drawn after the wait, at %d or later", held.Token, now)
				}
				stored, err := b.Get(t.Context(), c.Key)
				if err != nil || stored.Token != held.Token {
					t.Errorf("stored token = %d, %v, want %d", stored.Token, err, held.Token)
				}
				if path != "Claim" {
					wantRecord(t, b, c.Key, backend.Completed, "x")
					wantEffects(t, pool, 0)
				}
			})
		}
	}
}

// PG-3: the matrix of isolation levels and of what the other transaction does.
func TestIsolationLevels(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			b, pool, srv := migrated(t)
			effectsTable(t, pool)
			exec(t, pool, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = %L', current_database(), '`+string(level)+`'); END $$`)
			pool2 := open(t, srv.URL)
			if got := value[string](t, pool2, `SHOW transaction_isolation`); got != string(level) {
				t.Fatalf("default isolation = %s, want %s", got, level)
			}
			b2 := newBackend(t, pool2)
			strict := level != pgx.ReadCommitted

			t.Run("already there", func(t *testing.T) {
				done := request("done")
				if err := b2.Complete(t.Context(), acquire(t, b2, done).Holder(), completion("first")); err != nil {
					t.Fatal(err)
				}
				got, err := b2.Transact(t.Context(), request("done"), never(t))
				if err != nil || string(got.Record.Response.Body) != "first" {
					t.Errorf("Transact = %q, %v, want the record", got.Record.Response.Body, err)
				}
			})
			for _, commit := range []bool{true, false} {
				t.Run(fmt.Sprintf("commit %v", commit), func(t *testing.T) {
					key := fmt.Sprint("key-", commit)
					tx := begin(t, pool)
					first := request(key)
					claimIn(t, b, tx, first)
					c := request(key)
					c.Wait = 10 * time.Second
					leased := inBackground(func() (backend.Claimed, error) { return b2.Claim(t.Context(), c) })
					waiting(t, pool, 1)
					bound := request(key)
					bound.Wait = 10 * time.Second
					inTx := inBackground(func() (got backend.Claimed, err error) {
						err = pgx.BeginTxFunc(t.Context(), pool2, pgx.TxOptions{}, func(tx pgx.Tx) error {
							got, err = b2.Bind(tx).Claim(t.Context(), bound)
							return errors.Join(err, errEffect)
						})
						return got, err
					})
					waiting(t, pool, 2)
					end := tx.Rollback
					if commit {
						end = tx.Commit
					}
					if err := end(t.Context()); err != nil {
						t.Fatal(err)
					}
					// Own statements never show the caller what the level does to them.
					l, x := <-leased, <-inTx
					if l.err != nil || l.got.Hidden {
						t.Errorf("Claim = %+v, %v, want an answer", l.got, l.err)
					}
					if commit && (l.got.Acquired || l.got.Record.ClaimID != first.ID) {
						t.Errorf("Claim = acquired %v, want the winner's record", l.got.Acquired)
					}
					switch {
					case errors.Is(x.err, backend.ErrRetryTx):
						if !strict {
							t.Errorf("Claim in a transaction at read committed = %v, want no ErrRetryTx", x.err)
						}
					case commit && strict:
						t.Errorf("Claim in a transaction = acquired %v, %v, want ErrRetryTx", x.got.Acquired, x.err)
					case commit && (x.got.Acquired || x.got.Record.ClaimID != first.ID):
						t.Errorf("Claim in a transaction = acquired %v, want the winner's record", x.got.Acquired)
					case !commit && l.got.Acquired == x.got.Acquired && !x.got.Acquired:
						t.Errorf("both claims failed, want one to have the key")
					}
				})
			}
			t.Run("many", func(t *testing.T) {
				var wg sync.WaitGroup
				for range 4 {
					for k := range 10 {
						wg.Go(func() {
							c := request(fmt.Sprint("many-", k))
							c.Wait = 5 * time.Second
							for {
								_, err := b2.Transact(t.Context(), c, writes("x"))
								if errors.Is(err, backend.ErrRetryTx) {
									continue
								}
								if err != nil {
									t.Errorf("Transact = %v, want nil or ErrRetryTx", err)
								}
								return
							}
						})
					}
				}
				wg.Wait()
				wantEffects(t, pool, 10)
			})
		})
	}
}

// uniqueViolations counts the unique violations that the driver sees.
type uniqueViolations struct{ n atomic.Int64 }

func (u *uniqueViolations) see(err error) {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "23505" {
		u.n.Add(1)
	}
}

func (u *uniqueViolations) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (u *uniqueViolations) TraceQueryEnd(_ context.Context, _ *pgx.Conn, d pgx.TraceQueryEndData) {
	u.see(d.Err)
}

func (u *uniqueViolations) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (u *uniqueViolations) TraceBatchQuery(_ context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	u.see(d.Err)
}
func (u *uniqueViolations) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// PG-8, field report 10: an index that is rebuilt under claims is nobody's error.
func TestReindexUnderClaims(t *testing.T) {
	t.Parallel()
	for path, claim := range map[string]func(b *postgres.Backend, pool *pgxpool.Pool, c backend.Claim) error{
		"Claim": func(b *postgres.Backend, _ *pgxpool.Pool, c backend.Claim) error {
			got, err := b.Claim(t.Context(), c)
			if err != nil || !got.Acquired {
				return err
			}
			return b.Release(t.Context(), got.Record.Holder())
		},
		"Transact": func(b *postgres.Backend, _ *pgxpool.Pool, c backend.Claim) error {
			_, err := b.Transact(t.Context(), c, func(ctx context.Context, tx pgx.Tx, h backend.Claimed) (backend.Effect, error) {
				return backend.Effect{Response: response("x")}, nil
			})
			return err
		},
		"Bind": func(b *postgres.Backend, pool *pgxpool.Pool, c backend.Claim) error {
			return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				_, err := b.Bind(tx).Claim(t.Context(), c)
				return err
			})
		},
	} {
		t.Run(path, func(t *testing.T) {
			_, direct, srv := migrated(t)
			var seen uniqueViolations
			pool := open(t, srv.URL, func(c *pgxpool.Config) { c.ConnConfig.Tracer = &seen })
			b := newBackend(t, pool)
			ctx, cancel := context.WithCancel(t.Context())
			var round, claims atomic.Int64
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for ctx.Err() == nil {
						c := request(fmt.Sprint("key-", round.Load()))
						c.Wait = 10 * time.Second
						if err := claim(b, pool, c); err != nil {
							t.Errorf("claim during REINDEX = %v, want nil", err)
							return
						}
						if claims.Add(1)%8 == 0 {
							round.Add(1) // all of them meet at the next key
						}
					}
				})
			}
			for range 20 {
				exec(t, direct, `REINDEX TABLE CONCURRENTLY idem_keys`)
			}
			cancel()
			wg.Wait()
			// With a conflict target the server had a handful of them here.
			if n := seen.n.Load(); n != 0 {
				t.Errorf("%d claims met %d unique violations, want none", claims.Load(), n)
			}
		})
	}
}

// Field report 10: what tells of another transaction, and not of this one, is
// never the caller's error.
func TestClaimIsSentAgain(t *testing.T) {
	t.Parallel()
	for _, condition := range []string{"unique_violation", "serialization_failure", "deadlock_detected"} {
		b, pool, _ := migrated(t)
		exec(t, pool, `CREATE SEQUENCE failures MINVALUE 0`)
		exec(t, pool, `CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF nextval('failures') < 2 THEN RAISE `+condition+`; END IF;
			RETURN new;
		END $$`)
		exec(t, pool, `CREATE TRIGGER fail BEFORE INSERT ON idem_keys FOR EACH ROW EXECUTE FUNCTION fail()`)
		for path, claim := range map[string]func(c backend.Claim) (backend.Claimed, error){
			"Claim": func(c backend.Claim) (backend.Claimed, error) { return b.Claim(t.Context(), c) },
			"Transact": func(c backend.Claim) (backend.Claimed, error) {
				return b.Transact(t.Context(), c, func(context.Context, pgx.Tx, backend.Claimed) (backend.Effect, error) {
					return backend.Effect{Response: response("x")}, nil
				})
			},
			"Bind": func(c backend.Claim) (got backend.Claimed, err error) {
				err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					got, err = b.Bind(tx).Claim(t.Context(), c)
					return err
				})
				return got, err
			},
		} {
			exec(t, pool, `ALTER SEQUENCE failures RESTART`)
			got, err := claim(request(path))
			if path != "Claim" && condition != "unique_violation" {
				if !errors.Is(err, backend.ErrRetryTx) {
					t.Errorf("%s at %s = %v, want ErrRetryTx", path, condition, err)
				}
				continue
			}
			if err != nil || !got.Acquired {
				t.Errorf("%s at %s = acquired %v, %v, want acquired", path, condition, got.Acquired, err)
			}
		}
		// But not for ever.
		exec(t, pool, `ALTER SEQUENCE failures RESTART MINVALUE -1000 START -1000; ALTER SEQUENCE failures RESTART -1000`)
		_, err := b.Claim(t.Context(), request("never"))
		_, txErr := b.Transact(t.Context(), request("never"), never(t))
		for path, err := range map[string]error{"Claim": err, "Transact": txErr} {
			if !errors.Is(err, backend.ErrUnavailable) && !errors.Is(err, backend.ErrRetryTx) {
				t.Errorf("%s that always meets another (%s) = %v, want ErrUnavailable or ErrRetryTx", path, condition, err)
			}
		}
	}
}

// Hard case 25: tokens grow also where the clock does not.
func TestTokensGrowAgainstTheClock(t *testing.T) {
	t.Parallel()
	b, pool, _ := migrated(t)
	const future = int64(1) << 60
	for name, end := range map[string]string{
		"lapsed":  `UPDATE idem_keys SET token = $1, locked_until = 'epoch'`,
		"expired": `UPDATE idem_keys SET token = $1, status = 'completed', locked_until = NULL, completed_at = 'epoch'`,
	} {
		acquire(t, b, request("key"))
		exec(t, pool, end, future)
		r := acquire(t, b, request("key"))
		stored := wantRecord(t, b, r.Key, backend.Started, "")
		if int64(r.Token) != future+1 || stored.Token != r.Token {
			t.Errorf("token after one of %d (%s) = %d, stored %d, want one more", future, name, r.Token, stored.Token)
		}
		exec(t, pool, `DELETE FROM idem_keys`)
	}
}

// A completed record is kept for its retention, also if the run took longer than
// was planned for at its claim.
func TestCompletionMovesExpiry(t *testing.T) {
	t.Parallel()
	b, pool, _ := migrated(t)
	for _, path := range []string{"Complete", "InLease"} {
		c := request(path)
		l := acquire(t, b, c).Holder()
		exec(t, pool, `UPDATE idem_keys SET expires_at = clock_timestamp() + interval '1 minute'`)
		var err error
		if path == "Complete" {
			err = b.Complete(t.Context(), l, completion("x"))
		} else {
			_, err = b.InLease(t.Context(), l, 1, func(context.Context, pgx.Tx) (backend.Step, error) {
				r := response("x")
				return backend.Step{Response: &r}, nil
			})
		}
		if err != nil {
			t.Fatal(err)
		}
		if r := wantRecord(t, b, c.Key, backend.Completed, "x"); !r.ExpiresAt.Equal(r.CompletedAt.Add(c.Retention)) {
			t.Errorf("%s: expires %v after completion, want %v", path, r.ExpiresAt.Sub(r.CompletedAt), c.Retention)
		}
	}
}

// Fact of a replay, and of everything that only looks: no row lock, no WAL.
func TestReplayWritesNothing(t *testing.T) {
	t.Parallel()
	b, pool := privately(t)
	done := request("done")
	if err := b.Complete(t.Context(), acquire(t, b, done).Holder(), completion("first")); err != nil {
		t.Fatal(err)
	}
	running := request("running")
	acquire(t, b, running)
	other := request("done")
	other.Target.Path = "/refunds"
	look := func() {
		for range 20 {
			for _, c := range []backend.Claim{request("done"), request("running"), other} {
				if got, err := b.Claim(t.Context(), c); err != nil || got.Acquired || got.Hidden {
					t.Fatalf("Claim = %+v, %v, want the record", got, err)
				}
				if got, err := b.Transact(t.Context(), c, never(t)); err != nil || got.Acquired || got.Hidden {
					t.Fatalf("Transact = %+v, %v, want the record", got, err)
				}
			}
		}
	}
	state := func() (s string) {
		return value[string](t, pool, `SELECT string_agg(concat_ws(' ', key, ctid, xmin, xmax), ', ' ORDER BY key) FROM idem_keys`)
	}
	look() // hint bits are set now
	exec(t, pool, `CHECKPOINT`)
	rows, lsn := state(), value[string](t, pool, `SELECT pg_current_wal_insert_lsn()::text`)
	xid := value[string](t, pool, `SELECT pg_snapshot_xmax(pg_current_snapshot())::text`)
	look()
	if got := value[string](t, pool, `SELECT pg_snapshot_xmax(pg_current_snapshot())::text`); got != xid {
		t.Errorf("transaction ids after replays = %s, want %s as before", got, xid)
	}
	if got := value[int64](t, pool, `SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1::text::pg_lsn)::bigint`, lsn); got > 200 {
		// The server logs its running transactions now and then, without being asked.
		t.Errorf("WAL of 120 replays = %d bytes, want none", got)
	}
	if got := state(); got != rows {
		t.Errorf("rows after replays = %s, want %s as before", got, rows)
	}
	// A row lock would make it wait: somebody else has it.
	tx := begin(t, pool)
	exec2(t, tx, `SELECT * FROM idem_keys FOR UPDATE`)
	look()
}

// Hard case 22: what is said about one's own claim is said under the row lock.
func TestClaimOfOnesOwnIsAnsweredUnderTheLock(t *testing.T) {
	t.Parallel()
	b, pool, _ := migrated(t)
	c := request("key")
	r := acquire(t, b, c)
	tx := begin(t, pool)
	if err := b.Bind(tx).Complete(t.Context(), r.Holder(), completion("on its way")); err != nil {
		t.Fatal(err)
	}
	c.Wait = 10 * time.Second
	answer := inBackground(func() (backend.Claimed, error) { return b.Claim(t.Context(), c) })
	waiting(t, pool, 1)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := <-answer; a.err != nil || a.got.Acquired || a.got.Record.Status != backend.Completed {
		t.Errorf("Claim again = acquired %v (%v), %v, want the completed record", a.got.Acquired, a.got.Record.Status, a.err)
	}
}

// Takeover and completion race for a lapsed record: exactly one wins.
func TestTakeoverAgainstCompletion(t *testing.T) {
	t.Parallel()
	b, _, _ := migrated(t)
	for i := range 50 {
		c := request(fmt.Sprint("key-", i))
		c.Lease = time.Millisecond
		r := acquire(t, b, c)
		until(t, b, c.Key)
		rival := request(c.Key.Value)
		start := make(chan struct{})
		taken := inBackground(func() (backend.Claimed, error) {
			<-start
			return b.Claim(t.Context(), rival)
		})
		completed := inBackground(func() (backend.Claimed, error) {
			<-start
			return backend.Claimed{}, b.Complete(t.Context(), r.Holder(), completion("late"))
		})
		close(start)
		x, y := <-taken, <-completed
		if x.err != nil {
			t.Fatalf("Claim = %v, want nil", x.err)
		}
		if won := y.err == nil; won == x.got.Acquired {
			t.Fatalf("completed = %v, taken over = %v, want exactly one", won, x.got.Acquired)
		}
		if y.err != nil && !errors.Is(y.err, backend.ErrLeaseLost) {
			t.Fatalf("Complete = %v, want ErrLeaseLost", y.err)
		}
	}
}

// Field reports 4 and 6: records come and go under many claims; one holder at a
// time, and every claim gets an answer.
func TestClaimAndReleaseStorm(t *testing.T) {
	t.Parallel()
	b, pool, _ := migrated(t)
	var holders [5]atomic.Int32
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			last := map[int]backend.Token{}
			for i := range 100 {
				k := (w + i) % len(holders)
				c := request(fmt.Sprint("key-", k))
				got, err := b.Claim(t.Context(), c)
				if err != nil {
					t.Errorf("Claim = %v, want nil", err)
					return
				}
				if !got.Acquired {
					continue
				}
				if n := holders[k].Add(1); n != 1 {
					t.Errorf("holders of one key = %d, want 1", n)
				}
				if got.Record.Token <= last[k] {
					t.Errorf("token = %d, want more than %d", got.Record.Token, last[k])
				}
				last[k] = got.Record.Token
				holders[k].Add(-1)
				if err := b.Release(t.Context(), got.Record.Holder()); err != nil {
					t.Errorf("Release = %v, want nil", err)
				}
			}
		})
	}
	wg.Wait()
	if n := value[int](t, pool, `SELECT count(*) FROM idem_keys`); n != 0 {
		t.Errorf("records left = %d, want 0", n)
	}
}

// Hard case 1: its own lapsed record comes back with the same token, also to a claim
// that waited for somebody, and with a whole lease.
func TestClaimOfOnesOwnAfterAWaitKeepsItsToken(t *testing.T) {
	t.Parallel()
	b, pool := withEffects(t)
	c := request("key")
	c.Lease = time.Millisecond
	first := acquire(t, b, c)
	until(t, b, c.Key)
	tx := begin(t, pool)
	exec2(t, tx, `UPDATE idem_keys SET updated_at = updated_at`)
	c.Lease, c.Wait = time.Second, 10*time.Second
	answer := inBackground(func() (backend.Claimed, error) { return b.Claim(t.Context(), c) })
	waiting(t, pool, 1)
	exec(t, pool, `SELECT pg_sleep(1.2)`) // longer than the lease
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := <-answer
	if a.err != nil || !a.got.Acquired || a.got.Record.Token != first.Token {
		t.Errorf("Claim = acquired %v with token %d, %v, want token %d again", a.got.Acquired, a.got.Record.Token, a.err, first.Token)
	}
	if left := a.got.Record.LeaseLeft; left < c.Lease*9/10 {
		t.Errorf("lease left = %v, want at least %v", left, c.Lease*9/10)
	}
	if err := b.Complete(t.Context(), first.Holder(), completion("x")); err != nil {
		t.Errorf("Complete with the first answer's token = %v, want nil", err)
	}
}
