package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/idem-go/idem/backend"
)

func TestBind(t *testing.T) {
	t.Parallel()
	b, pool := withEffects(t)
	c := request("key")
	var rec backend.Record
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		v := b.Bind(tx)
		if err := v.Undo(t.Context()); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("Undo before a claim = %v, want ErrInvalid", err)
		}
		if _, err := v.Get(t.Context(), c.Key); !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("Get before the claim = %v, want ErrNotFound", err)
		}
		exec2(t, tx, `INSERT INTO effects (key) VALUES ('before')`)
		got, err := v.Claim(t.Context(), c)
		if err != nil || !got.Acquired {
			t.Fatalf("Claim = acquired %v, %v, want acquired", got.Acquired, err)
		}
		rec = got.Record
		wantNoRecord(t, b, c.Key) // it is not committed
		exec2(t, tx, `INSERT INTO effects (key) VALUES ('undone')`)
		if _, err := tx.Exec(t.Context(), `SELECT 1 / 0`); err == nil {
			t.Error("Exec = nil, want division by zero")
		}
		if err := v.Undo(t.Context()); err != nil {
			t.Fatalf("Undo = %v, want nil", err)
		}
		if err := v.Checkpoint(t.Context(), rec.Holder(), backend.Checkpoint{Sequence: 1, Point: "half"}); err != nil {
			t.Errorf("Checkpoint = %v, want nil", err)
		}
		exec2(t, tx, `INSERT INTO effects (key) VALUES ('after')`)
		done := completion("done")
		done.Sequence = 2
		for range 2 { // the second is a repetition
			if err := v.Complete(t.Context(), rec.Holder(), done); err != nil {
				t.Errorf("Complete = %v, want nil", err)
			}
		}
		r, err := v.Get(t.Context(), c.Key)
		if err != nil || r.Status != backend.Completed {
			t.Errorf("Get = %v, %v, want completed", r.Status, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	wantRecord(t, b, c.Key, backend.Completed, "done")
	wantEffects(t, pool, 2)
}

func TestBindRollsBackWithItsTransaction(t *testing.T) {
	t.Parallel()
	b, pool := withEffects(t)
	c := request("key")
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		claimIn(t, b, tx, c)
		exec2(t, tx, `INSERT INTO effects (key) VALUES ('gone')`)
		return errEffect
	})
	if !errors.Is(err, errEffect) {
		t.Error(err)
	}
	wantNoRecord(t, b, c.Key)
	wantEffects(t, pool, 0)
}

// Undo returns to the last claim that was acquired, not to the last one.
func TestBindUndoAfterAReplay(t *testing.T) {
	t.Parallel()
	b, pool := withEffects(t)
	done := request("done")
	if err := b.Complete(t.Context(), acquire(t, b, done).Holder(), completion("first")); err != nil {
		t.Fatal(err)
	}
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		v := b.Bind(tx)
		claimIn(t, b, tx, request("new"))
		got, err := v.Claim(t.Context(), request("mine"))
		if err != nil || !got.Acquired {
			t.Fatalf("Claim = acquired %v, %v, want acquired", got.Acquired, err)
		}
		exec2(t, tx, `INSERT INTO effects (key) VALUES ('undone')`)
		if got, err := v.Claim(t.Context(), request("done")); err != nil || got.Acquired || string(got.Record.Response.Body) != "first" {
			t.Fatalf("Claim of a duplicate = acquired %v, %v, want the record", got.Acquired, err)
		}
		if err := v.Undo(t.Context()); err != nil {
			t.Errorf("Undo = %v, want nil", err)
		}
		return v.Complete(t.Context(), got.Record.Holder(), completion("mine"))
	})
	if err != nil {
		t.Fatal(err)
	}
	wantEffects(t, pool, 0)
	wantRecord(t, b, request("mine").Key, backend.Completed, "mine")
	wantRecord(t, b, request("new").Key, backend.Started, "")
}

// Fact PG-18 (C-fence-tx), field report 4: an owner whose record was taken over
// can't commit what it did in a transaction of its own, even if it doesn't look at
// the error.
func TestBindFence(t *testing.T) {
	t.Parallel()
	b, pool := withEffects(t)
	c := request("key")
	c.Lease = time.Millisecond
	stale := acquire(t, b, c)
	until(t, b, c.Key)
	owner := acquire(t, b, request("key"))
	for name, write := range map[string]func(v backend.TxView) error{
		"Complete": func(v backend.TxView) error { return v.Complete(t.Context(), stale.Holder(), completion("stale")) },
		"Checkpoint": func(v backend.TxView) error {
			return v.Checkpoint(t.Context(), stale.Holder(), backend.Checkpoint{Sequence: 1, Point: "p"})
		},
	} {
		tx := begin(t, pool)
		exec2(t, tx, `INSERT INTO effects (key) VALUES ('stale')`)
		if err := write(b.Bind(tx)); !errors.Is(err, backend.ErrLeaseLost) {
			t.Errorf("%s = %v, want ErrLeaseLost", name, err)
		}
		if err := tx.Commit(t.Context()); !errors.Is(err, pgx.ErrTxCommitRollback) {
			t.Errorf("Commit after %s = %v, want ErrTxCommitRollback", name, err)
		}
	}
	wantEffects(t, pool, 0)
	if r := wantRecord(t, b, c.Key, backend.Started, ""); r.ClaimID != owner.ClaimID {
		t.Errorf("claim id = %x, want the owner's", r.ClaimID)
	}
}

// Fact PG-13 and the order of things: the transaction is the caller's.
func TestBindInAFailedTransaction(t *testing.T) {
	t.Parallel()
	b, pool := withEffects(t)
	tx := begin(t, pool)
	if _, err := tx.Exec(t.Context(), `SELECT 1 / 0`); err == nil {
		t.Error("Exec = nil, want division by zero")
	}
	v := b.Bind(tx)
	if _, err := v.Claim(t.Context(), request("key")); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("Claim in a failed transaction = %v, want ErrInvalid", err)
	}
	if err := v.Complete(t.Context(), backend.Lease{Key: request("key").Key, ClaimID: newID(), Token: 1}, completion("")); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("Complete in a failed transaction = %v, want ErrInvalid", err)
	}
}

// Two keys in one transaction, in opposite order: fact PG-9.
func TestBindDeadlock(t *testing.T) {
	t.Parallel()
	b, pool, _ := migrated(t)
	a, z := begin(t, pool), begin(t, pool)
	claimIn(t, b, a, request("a"))
	claimIn(t, b, z, request("z"))
	claim := func(tx pgx.Tx, key string) <-chan answer {
		c := request(key)
		c.Wait = 20 * time.Second
		return inBackground(func() (backend.Claimed, error) { return b.Bind(tx).Claim(t.Context(), c) })
	}
	first, second := claim(a, "z"), claim(z, "a")
	var loser answer
	select {
	case loser = <-first:
		_ = a.Rollback(t.Context())
		<-second
	case loser = <-second:
		_ = z.Rollback(t.Context())
		<-first
	}
	if !errors.Is(loser.err, backend.ErrRetryTx) {
		t.Errorf("Claim of the deadlock's victim = %v, want ErrRetryTx", loser.err)
	}
}
