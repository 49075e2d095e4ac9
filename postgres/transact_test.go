package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/postgres"
)

// withEffects is a backend on a new database with a table for effects.
func withEffects(t testing.TB, opts ...postgres.Option) (*postgres.Backend, *pgxpool.Pool) {
	t.Helper()
	b, pool, _ := migrated(t, opts...)
	effectsTable(t, pool)
	return b, pool
}

func effectsTable(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	exec(t, pool, `CREATE TABLE effects (key text NOT NULL, note text, CONSTRAINT once UNIQUE (note) DEFERRABLE INITIALLY DEFERRED)`)
}

func exec(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func value[T any](t testing.TB, pool *pgxpool.Pool, sql string, args ...any) (v T) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func effects(t testing.TB, pool *pgxpool.Pool) int {
	t.Helper()
	return value[int](t, pool, `SELECT count(*) FROM effects`)
}

type effect = func(ctx context.Context, tx pgx.Tx, held backend.Claimed) (backend.Effect, error)

// writes is an effect that leaves one row.
func writes(body string) effect {
	return func(ctx context.Context, tx pgx.Tx, held backend.Claimed) (backend.Effect, error) {
		_, err := tx.Exec(ctx, `INSERT INTO effects (key) VALUES ($1)`, held.Record.Key.Value)
		return backend.Effect{Response: response(body)}, err
	}
}

func never(t testing.TB) effect {
	return func(context.Context, pgx.Tx, backend.Claimed) (backend.Effect, error) {
		t.Error("the effect was called, want it not to be")
		return backend.Effect{}, errors.New("not to be called")
	}
}

func wantRecord(t testing.TB, b backend.Backend, k backend.Key, status backend.Status, body string) backend.Record {
	t.Helper()
	r, err := b.Get(t.Context(), k)
	if err != nil {
		t.Fatalf("Get = %v, want a %v record", err, status)
	}
	if r.Status != status || string(r.Response.Body) != body {
		t.Errorf("record = %v with body %q, want %v with %q", r.Status, r.Response.Body, status, body)
	}
	return r
}

func wantNoRecord(t testing.TB, b backend.Backend, k backend.Key) {
	t.Helper()
	if r, err := b.Get(t.Context(), k); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("Get = %v record, %v, want ErrNotFound", r.Status, err)
	}
}

func wantEffects(t testing.TB, pool *pgxpool.Pool, want int) {
	t.Helper()
	if got := effects(t, pool); got != want {
		t.Errorf("effects = %d, want %d", got, want)
	}
}

// wantIdle checks that no connection was lost and none is left in a transaction.
func wantIdle(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	if n := value[int](t, pool, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'`); n != 0 {
		t.Errorf("sessions idle in a transaction = %d, want 0", n)
	}
	if n := pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("connections held after the call = %d, want 0", n)
	}
}

func TestTransactCommitsEffectAndRecordTogether(t *testing.T) {
	t.Parallel()
	b, pool := withEffects(t)
	c := request("key")
	var held backend.Claimed
	got, err := b.Transact(t.Context(), c, func(ctx context.Context, tx pgx.Tx, h backend.Claimed) (backend.Effect, error) {
		held = h
		return writes("paid")(ctx, tx, h)
	})
	if err != nil || !got.Acquired || got.Record.Status != backend.Completed {
		t.Fatalf("Transact = acquired %v (%v), %v, want acquired and completed", got.Acquired, got.Record.Status, err)
	}
	if !held.Acquired || held.Record.Status != backend.Started || held.Record.LeaseLeft <= 0 {
		t.Errorf("held by the effect = %+v, want an acquired claim with a lease", held)
	}
	stored := wantRecord(t, b, c.Key, backend.Completed, "paid")
	if d := got.Record; d.Token != stored.Token || !d.CompletedAt.Equal(stored.CompletedAt) || !d.ExpiresAt.Equal(stored.ExpiresAt) || d.Sequence != stored.Sequence {
		t.Errorf("Transact returned %+v, want the stored %+v", d, stored)
	}
	wantEffects(t, pool, 1)

	again := request("key")
	got, err = b.Transact(t.Context(), again, never(t))
	if err != nil || got.Acquired || string(got.Record.Response.Body) != "paid" {
		t.Errorf("Transact of a duplicate = acquired %v with %q, %v, want the record", got.Acquired, got.Record.Response.Body, err)
	}
	// Field report 8: the same claim id finds what it has completed itself.
	got, err = b.Transact(t.Context(), c, never(t))
	if err != nil || got.Acquired || got.Record.ClaimID != c.ID || got.Record.Status != backend.Completed {
		t.Errorf("Transact again = acquired %v (%v), %v, want its own completed record", got.Acquired, got.Record.Status, err)
	}
	wantEffects(t, pool, 1)
	wantIdle(t, pool)
}

func TestTransactTakesOverALapsedRecord(t *testing.T) {
	t.Parallel()
	b, pool := withEffects(t)
	lapsed := request("key")
	lapsed.Lease = time.Millisecond
	old := acquire(t, b, lapsed)
	c := request("key")
	for undo, want := range map[bool]int{true: 0, false: 1} {
		c.Key.Value = "key"
		if undo {
			c.Key.Value = "undone"
			l := lapsed
			l.Key = c.Key
			acquire(t, b, l)
		}
		eventually(t, "the lease lapses", func() bool {
			r, err := b.Get(t.Context(), c.Key)
			return err == nil && r.LeaseLeft == 0
		})
		got, err := b.Transact(t.Context(), c, func(ctx context.Context, tx pgx.Tx, h backend.Claimed) (backend.Effect, error) {
			if h.Record.Attempt != 2 || h.Record.Token <= old.Token {
				t.Errorf("attempt %d, token %d, want 2 and more than %d", h.Record.Attempt, h.Record.Token, old.Token)
			}
			eff, err := writes("done")(ctx, tx, h)
			eff.Undo = undo
			return eff, err
		})
		if err != nil || !got.Acquired {
			t.Fatalf("Transact(undo %v) = acquired %v, %v, want acquired", undo, got.Acquired, err)
		}
		wantRecord(t, b, c.Key, backend.Completed, "done")
		if n := value[int](t, pool, `SELECT count(*) FROM effects WHERE key = $1`, c.Key.Value); n != want {
			t.Errorf("effects with undo %v = %d, want %d", undo, n, want)
		}
	}
}

// Hard case 13: a refusal is stored, its writes are not, also where a statement
// has failed.
func TestTransactUndo(t *testing.T) {
	t.Parallel()
	_, pool, srv := migrated(t)
	effectsTable(t, pool)
	b := newBackend(t, open(t, srv.URL, size(1)))
	// The failed one comes first: its connection has prepared nothing yet.
	for i, fail := range []bool{true, false} {
		name := fmt.Sprintf("%d, failed %v", i, fail)
		c := request(name)
		got, err := b.Transact(t.Context(), c, func(ctx context.Context, tx pgx.Tx, h backend.Claimed) (backend.Effect, error) {
			if _, err := writes("")(ctx, tx, h); err != nil {
				return backend.Effect{}, err
			}
			if fail {
				if _, err := tx.Exec(ctx, `SELECT 1 / 0`); err == nil {
					t.Error("Exec = nil, want division by zero")
				}
			}
			return backend.Effect{Response: response("refused"), Undo: true}, nil
		})
		if err != nil || !got.Acquired {
			t.Errorf("Transact(%s) = acquired %v, %v, want acquired", name, got.Acquired, err)
		}
		wantRecord(t, b, c.Key, backend.Completed, "refused")
	}
	wantEffects(t, pool, 0)
	wantIdle(t, pool)
}

var errEffect = errors.New("no funds")

func TestTransactRollsBack(t *testing.T) {
	t.Parallel()
	b, pool := withEffects(t)
	exec(t, pool, `INSERT INTO effects (key, note) VALUES ('other', 'taken')`)
	ctx, cancel := context.WithCancel(t.Context())
	for _, tt := range []struct {
		name   string
		ctx    context.Context
		effect effect
		want   error
	}{
		{"the effect's error comes back as it is", t.Context(), func(ctx context.Context, tx pgx.Tx, h backend.Claimed) (backend.Effect, error) {
			_, err := writes("")(ctx, tx, h)
			return backend.Effect{}, errors.Join(err, errEffect)
		}, errEffect},
		{"a statement failed and nobody said so", t.Context(), func(ctx context.Context, tx pgx.Tx, h backend.Claimed) (backend.Effect, error) {
			_, _ = tx.Exec(ctx, `SELECT 1 / 0`)
			return backend.Effect{Response: response("")}, nil
		}, backend.ErrInvalid},
		{"rows left open", t.Context(), func(ctx context.Context, tx pgx.Tx, h backend.Claimed) (backend.Effect, error) {
			_, err := tx.Query(ctx, `SELECT generate_series(1, 100)`)
			return backend.Effect{Response: response("")}, err
		}, backend.ErrInvalid},
		{"a deferred constraint fails at COMMIT", t.Context(), func(ctx context.Context, tx pgx.Tx, h backend.Claimed) (backend.Effect, error) {
			_, err := tx.Exec(ctx, `INSERT INTO effects (key, note) VALUES ('key', 'taken')`)
			return backend.Effect{Response: response("")}, err
		}, backend.ErrInvalid},
		{"the response is larger than the store takes", t.Context(), func(ctx context.Context, tx pgx.Tx, h backend.Claimed) (backend.Effect, error) {
			eff, err := writes("")(ctx, tx, h)
			eff.Response.Body = make([]byte, postgres.MaxValue+1)
			return eff, err
		}, backend.ErrTooLarge},
		{"the caller has gone, and the effect says so", ctx, func(ctx context.Context, tx pgx.Tx, h backend.Claimed) (backend.Effect, error) {
			_, err := writes("")(ctx, tx, h)
			cancel()
			return backend.Effect{}, errors.Join(err, ctx.Err(), errEffect)
		}, context.Canceled},
	} {
		c := request(tt.name)
		got, err := b.Transact(tt.ctx, c, tt.effect)
		if !errors.Is(err, tt.want) || got.Acquired {
			t.Errorf("%s: Transact = acquired %v, %v, want %v", tt.name, got.Acquired, err, tt.want)
		}
		if !errors.Is(err, errEffect) && !backend.NotApplied(err) {
			t.Errorf("%s: NotApplied(%v) = false, want true", tt.name, err)
		}
		wantNoRecord(t, b, c.Key)
	}
	wantEffects(t, pool, 1)
	wantIdle(t, pool)
}

func TestTransactPanics(t *testing.T) {
	t.Parallel()
	b, pool := withEffects(t)
	c := request("key")
	func() {
		defer func() {
			if p := recover(); p != "ouch" {
				t.Errorf("recover() = %v, want the effect's panic", p)
			}
		}()
		_, _ = b.Transact(t.Context(), c, func(ctx context.Context, tx pgx.Tx, h backend.Claimed) (backend.Effect, error) {
			_, _ = writes("")(ctx, tx, h)
			panic("ouch")
		})
	}()
	wantNoRecord(t, b, c.Key)
	wantEffects(t, pool, 0)
	wantIdle(t, pool)
}

// Hard case 31: the effect's transaction can't be ended, and not be used when it is
// over.
func TestEffectTx(t *testing.T) {
	t.Parallel()
	b, pool := withEffects(t)
	var kept, nested pgx.Tx
	_, err := b.Transact(t.Context(), request("key"), func(ctx context.Context, tx pgx.Tx, h backend.Claimed) (backend.Effect, error) {
		if err := tx.Commit(ctx); err == nil {
			t.Error("Commit = nil, want an error")
		}
		if err := tx.Rollback(ctx); err == nil {
			t.Error("Rollback = nil, want an error")
		}
		err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
			_, err := writes("")(ctx, tx, h)
			return err
		})
		undone := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
			nested = tx
			if _, err := writes("")(ctx, tx, h); err != nil {
				return err
			}
			return errEffect
		})
		if !errors.Is(undone, errEffect) {
			t.Errorf("nested transaction = %v, want its own error", undone)
		}
		if _, err := tx.CopyFrom(ctx, pgx.Identifier{"effects"}, []string{"key"}, pgx.CopyFromRows([][]any{{"copied"}})); err != nil {
			t.Errorf("CopyFrom = %v, want nil", err)
		}
		kept = tx
		return backend.Effect{Response: response("")}, err
	})
	if err != nil {
		t.Fatalf("Transact = %v, want nil", err)
	}
	wantEffects(t, pool, 2)
	for name, tx := range map[string]pgx.Tx{"the transaction": kept, "a nested one": nested} {
		ctx := t.Context()
		_, begin := tx.Begin(ctx)
		_, run := tx.Exec(ctx, `DELETE FROM effects`)
		_, query := tx.Query(ctx, `DELETE FROM effects`)
		_, prepare := tx.Prepare(ctx, "", `DELETE FROM effects`)
		_, copied := tx.CopyFrom(ctx, pgx.Identifier{"effects"}, []string{"key"}, pgx.CopyFromRows([][]any{{"copied"}}))
		var batch pgx.Batch
		batch.Queue(`DELETE FROM effects`)
		for call, err := range map[string]error{
			"Begin": begin, "Exec": run, "Query": query, "Prepare": prepare, "CopyFrom": copied,
			"QueryRow": tx.QueryRow(ctx, `DELETE FROM effects`).Scan(), "SendBatch": tx.SendBatch(ctx, &batch).Close(),
			"Commit": tx.Commit(ctx), "Rollback": tx.Rollback(ctx),
		} {
			if !errors.Is(err, pgx.ErrTxClosed) {
				t.Errorf("%s on %s after its end = %v, want ErrTxClosed", call, name, err)
			}
		}
	}
	wantEffects(t, pool, 2)
}

// Hard case 12: whoever ends the transaction in SQL is told so. The record is
// completed, because the effect's writes are there.
func TestTransactEndedByItsEffect(t *testing.T) {
	t.Parallel()
	b, pool := withEffects(t)
	for name, fail := range map[string]error{"committed": nil, "committed, then failed": errEffect} {
		c := request(name)
		_, err := b.Transact(t.Context(), c, func(ctx context.Context, tx pgx.Tx, h backend.Claimed) (backend.Effect, error) {
			eff, err := writes("done")(ctx, tx, h)
			if err == nil {
				_, err = tx.Exec(ctx, `COMMIT`)
			}
			return eff, errors.Join(err, fail)
		})
		if !errors.Is(err, backend.ErrInvalid) || fail != nil && !errors.Is(err, fail) {
			t.Errorf("Transact(%s) = %v, want ErrInvalid", name, err)
		}
		r, err := b.Get(t.Context(), c.Key)
		switch {
		case err != nil || r.Status != backend.Completed:
			t.Errorf("Get(%s) = %v record, %v, want completed", name, r.Status, err)
		case fail == nil && string(r.Response.Body) != "done":
			t.Errorf("Get(%s) = %q, want the response", name, r.Response.Body)
		case fail != nil && r.Response.Tombstone != backend.NotStored:
			t.Errorf("Get(%s) = tombstone %q, want %q", name, r.Response.Tombstone, backend.NotStored)
		}
	}
	c := request("rolled back")
	_, err := b.Transact(t.Context(), c, func(ctx context.Context, tx pgx.Tx, h backend.Claimed) (backend.Effect, error) {
		eff, err := writes("done")(ctx, tx, h)
		if err == nil {
			_, err = tx.Exec(ctx, `ROLLBACK`)
		}
		return eff, err
	})
	if !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("Transact(rolled back) = %v, want ErrInvalid", err)
	}
	wantNoRecord(t, b, c.Key)
	wantEffects(t, pool, 2)
	wantIdle(t, pool)
}

// PG-18, finding 3: a transaction whose record is not its own any more never
// commits its effect.
func TestTransactFence(t *testing.T) {
	t.Parallel()
	b, pool := withEffects(t)
	c := request("key")
	_, err := b.Transact(t.Context(), c, func(ctx context.Context, tx pgx.Tx, h backend.Claimed) (backend.Effect, error) {
		// Nobody else can get at a locked record. What stands for that here is a
		// change by the transaction itself.
		if _, err := tx.Exec(ctx, `UPDATE idem_keys SET token = token + 1`); err != nil {
			return backend.Effect{}, err
		}
		return writes("stale")(ctx, tx, h)
	})
	if !errors.Is(err, backend.ErrLeaseLost) {
		t.Errorf("Transact with a changed token = %v, want ErrLeaseLost", err)
	}
	wantEffects(t, pool, 0)
	wantNoRecord(t, b, c.Key)
	wantIdle(t, pool)
}

// PG-3, field report 10: serialization failures and deadlocks of the effect are
// ErrRetryTx, with nothing done.
func TestTransactMustBeRunAgain(t *testing.T) {
	t.Parallel()
	b, pool := withEffects(t, postgres.WithIsolation(pgx.RepeatableRead))
	exec(t, pool, `INSERT INTO effects (key, note) VALUES ('shared', '0')`)
	c := request("key")
	conflict := true
	run := func() (backend.Claimed, error) {
		return b.Transact(t.Context(), c, func(ctx context.Context, tx pgx.Tx, h backend.Claimed) (backend.Effect, error) {
			if conflict {
				exec(t, pool, `UPDATE effects SET note = 'changed meanwhile' WHERE key = 'shared'`)
			}
			_, err := tx.Exec(ctx, `UPDATE effects SET note = 'by the effect' WHERE key = 'shared'`)
			return backend.Effect{Response: response("ok")}, err
		})
	}
	if _, err := run(); !errors.Is(err, backend.ErrRetryTx) || !backend.NotApplied(err) {
		t.Errorf("Transact = %v, want ErrRetryTx", err)
	}
	wantNoRecord(t, b, c.Key)
	conflict = false
	if got, err := run(); err != nil || !got.Acquired {
		t.Errorf("Transact again = acquired %v, %v, want acquired", got.Acquired, err)
	}
	if got := value[string](t, pool, `SELECT note FROM effects`); got != "by the effect" {
		t.Errorf("note = %q, want the effect's", got)
	}
}

// PG-17: a session that is idle for longer than the lease loses its transaction.
func TestTransactIdleForTooLong(t *testing.T) {
	t.Parallel()
	b, pool := withEffects(t)
	c := request("key")
	c.Lease = 100 * time.Millisecond
	_, err := b.Transact(t.Context(), c, func(ctx context.Context, tx pgx.Tx, h backend.Claimed) (backend.Effect, error) {
		eff, err := writes("late")(ctx, tx, h)
		<-ctx.Done() // the effect doesn't care
		if !errors.Is(context.Cause(ctx), backend.ErrLeaseLost) {
			t.Errorf("cause of the effect's context = %v, want ErrLeaseLost", context.Cause(ctx))
		}
		eventually(t, "the server ends the session", func() bool {
			return value[int](t, pool, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'`) == 0
		})
		return eff, err
	})
	if err == nil || !backend.NotApplied(err) {
		t.Errorf("Transact = %v, want an error that says that nothing was done", err)
	}
	wantNoRecord(t, b, c.Key)
	wantEffects(t, pool, 0)
}

// Hard case 23: what is set for the transaction is set for it only.
func TestTransactLeavesNoSettings(t *testing.T) {
	t.Parallel()
	_, _, srv := migrated(t)
	pool := open(t, srv.URL, size(1))
	b := newBackend(t, pool)
	exec(t, pool, `SET lock_timeout = '7s'`)
	exec(t, pool, `SET idle_in_transaction_session_timeout = '77s'`)
	settings := func(q interface {
		QueryRow(context.Context, string, ...any) pgx.Row
	},
	) (got []string) {
		var lock, idle string
		if err := q.QueryRow(t.Context(), `SELECT current_setting('lock_timeout'), current_setting('idle_in_transaction_session_timeout')`).Scan(&lock, &idle); err != nil {
			t.Fatal(err)
		}
		return []string{lock, idle}
	}
	lapsed := request("lapsed")
	lapsed.Lease = time.Millisecond
	acquire(t, b, lapsed)
	eventually(t, "the lease lapses", func() bool {
		r, err := b.Get(t.Context(), lapsed.Key)
		return err == nil && r.LeaseLeft == 0
	})
	for _, key := range []string{"new", "lapsed"} {
		_, err := b.Transact(t.Context(), request(key), func(ctx context.Context, tx pgx.Tx, h backend.Claimed) (backend.Effect, error) {
			if got, want := settings(tx), []string{"7s", "1min"}; !slices.Equal(got, want) {
				t.Errorf("timeouts in the effect (%s) = %v, want %v", key, got, want)
			}
			return backend.Effect{Response: response("")}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := settings(pool), []string{"7s", "77s"}; !slices.Equal(got, want) {
			t.Errorf("timeouts after Transact (%s) = %v, want %v", key, got, want)
		}
	}
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		v := b.Bind(tx)
		got, err := v.Claim(t.Context(), request("bound"))
		if err == nil {
			err = v.Complete(t.Context(), got.Record.Holder(), completion("x"))
		}
		if got, want := settings(tx), []string{"7s", "77s"}; !slices.Equal(got, want) {
			t.Errorf("timeouts in a bound transaction = %v, want %v", got, want)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// eventually polls a condition of the server's.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("%s: not after 20s", what)
		}
	}
}

func TestNilEffectAndStep(t *testing.T) {
	t.Parallel()
	b, _, _ := migrated(t)
	if _, err := b.Transact(t.Context(), request("key"), nil); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("Transact without an effect = %v, want ErrInvalid", err)
	}
	l := acquire(t, b, request("key")).Holder()
	if _, err := b.InLease(t.Context(), l, 1, nil); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("InLease without a step = %v, want ErrInvalid", err)
	}
}
