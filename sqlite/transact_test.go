package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/sqlite"
)

func withLedger(t *testing.T, opts ...sqlite.Option) (*sqlite.Backend, *sql.DB) {
	t.Helper()
	b, db := fresh(t, opts...)
	run(t, db, "CREATE TABLE ledger (who TEXT, amount INTEGER)")
	return b, db
}

func charge(ctx context.Context, tx *sql.Tx, who string) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO ledger (who, amount) VALUES (?, 1)", who)
	return err
}

func charges(t *testing.T, db *sql.DB) int { return count(t, db, "SELECT count(*) FROM ledger") }

var created = backend.Response{Status: 201, Header: []byte("h"), Body: []byte("body")}

func TestTransactCommitsRecordAndEffectTogether(t *testing.T) {
	t.Parallel()
	b, db := withLedger(t)
	c := claimOf("key")
	got, err := b.Transact(t.Context(), c, func(ctx context.Context, tx *sql.Tx, held backend.Claimed) (backend.Effect, error) {
		if !held.Acquired || held.Record.Token == 0 || held.Record.LeaseLeft <= 0 {
			t.Errorf("held = %+v, want an acquired claim with token and lease", held)
		}
		return backend.Effect{Response: created}, charge(ctx, tx, "a")
	})
	if err != nil || !got.Acquired || got.Record.Status != backend.Completed || !got.Record.Response.Equal(created) {
		t.Fatalf("Transact = %+v, %v, want acquired and completed", got, err)
	}
	again, err := b.Transact(t.Context(), claimOf("key"), func(context.Context, *sql.Tx, backend.Claimed) (backend.Effect, error) {
		t.Error("the effect ran twice")
		return backend.Effect{}, nil
	})
	if err != nil || again.Acquired || !again.Record.Response.Equal(created) {
		t.Fatalf("second Transact = %+v, %v, want the completed record", again, err)
	}
	if n := charges(t, db); n != 1 {
		t.Errorf("charges = %d, want 1", n)
	}
}

func TestTransactStoresNothingOfAFailedEffect(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for name, effect := range map[string]func(context.Context, *sql.Tx) (backend.Effect, error){
		"error": func(context.Context, *sql.Tx) (backend.Effect, error) { return backend.Effect{}, boom },
		"panic": func(context.Context, *sql.Tx) (backend.Effect, error) { panic(boom) },
		"too large a response": func(context.Context, *sql.Tx) (backend.Effect, error) {
			return backend.Effect{Response: backend.Response{Body: make([]byte, 16<<20+1)}}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, db := withLedger(t)
			err := func() (err error) {
				defer func() {
					if p := recover(); p != nil {
						err = p.(error)
					}
				}()
				_, err = b.Transact(t.Context(), claimOf("key"), func(ctx context.Context, tx *sql.Tx, _ backend.Claimed) (backend.Effect, error) {
					if err := charge(ctx, tx, "a"); err != nil {
						return backend.Effect{}, err
					}
					return effect(ctx, tx)
				})
				return err
			}()
			if err != boom && !errors.Is(err, backend.ErrTooLarge) {
				t.Errorf("Transact = %v, want the effect's error as it is, or ErrTooLarge", err)
			}
			if n := charges(t, db); n != 0 {
				t.Errorf("charges = %d, want 0", n)
			}
			if _, err := b.Get(t.Context(), claimOf("key").Key); !errors.Is(err, backend.ErrNotFound) {
				t.Errorf("Get = %v, want ErrNotFound", err)
			}
			mustClaim(t, b, claimOf("key")) // the file's lock is free again
		})
	}
}

func TestTransactUndoKeepsTheAnswer(t *testing.T) { // hard case 13
	t.Parallel()
	b, db := withLedger(t)
	refused := backend.Response{Status: 422, Body: []byte("no money")}
	got, err := b.Transact(t.Context(), claimOf("key"), func(ctx context.Context, tx *sql.Tx, _ backend.Claimed) (backend.Effect, error) {
		return backend.Effect{Response: refused, Undo: true}, charge(ctx, tx, "a")
	})
	if err != nil || !got.Record.Response.Equal(refused) {
		t.Fatalf("Transact = %+v, %v, want the refusal stored", got, err)
	}
	if n := charges(t, db); n != 0 {
		t.Errorf("charges = %d, want 0", n)
	}
	r, err := b.Get(t.Context(), claimOf("key").Key)
	if err != nil || r.Status != backend.Completed || !r.Response.Equal(refused) {
		t.Errorf("Get = %+v, %v, want the completed refusal", r, err)
	}
}

// Hard case 12: whatever the effect does to its transaction, neither its writes
// nor the record are stored, and it is told so.
func TestEffectCannotEndItsTransaction(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*sql.Tx) error{
		"Commit":   (*sql.Tx).Commit,
		"Rollback": (*sql.Tx).Rollback,
		"COMMIT":   func(tx *sql.Tx) error { _, err := tx.Exec("COMMIT"); return err },
		"ROLLBACK": func(tx *sql.Tx) error { _, err := tx.Exec("ROLLBACK"); return err },
		"ROLLBACK, then on": func(tx *sql.Tx) error {
			_, _ = tx.Exec("ROLLBACK")
			_, err := tx.Exec("INSERT INTO ledger VALUES ('autocommit', 1)")
			return err
		},
		"ROLLBACK, another BEGIN and COMMIT": func(tx *sql.Tx) error {
			for _, s := range []string{"ROLLBACK", "BEGIN", "INSERT INTO ledger VALUES ('autocommit', 1)"} {
				_, _ = tx.Exec(s)
			}
			_, err := tx.Exec("COMMIT")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, db := withLedger(t)
			_, err := b.Transact(t.Context(), claimOf("key"), func(ctx context.Context, tx *sql.Tx, _ backend.Claimed) (backend.Effect, error) {
				if err := charge(ctx, tx, "a"); err != nil {
					return backend.Effect{}, err
				}
				_ = end(tx)
				return backend.Effect{Response: created}, nil
			})
			if !errors.Is(err, backend.ErrInvalid) {
				t.Errorf("Transact = %v, want ErrInvalid", err)
			}
			if n := charges(t, db); n != 0 {
				t.Errorf("charges = %d, want 0", n)
			}
			if _, err := b.Get(t.Context(), claimOf("key").Key); !errors.Is(err, backend.ErrNotFound) {
				t.Errorf("Get = %v, want ErrNotFound", err)
			}
			// The connection goes back without the guard.
			run(t, db, "INSERT INTO ledger VALUES ('later', 1)")
			mustClaim(t, b, claimOf("key"))
		})
	}
}

// An INSERT that its context interrupts makes SQLite roll the transaction back;
// what an effect writes after ignoring that error must not be committed on its
// own.
func TestEffectThatGoesOnAfterAnInterrupt(t *testing.T) {
	t.Parallel()
	b, db := withLedger(t)
	_, err := b.Transact(t.Context(), claimOf("key"), func(ctx context.Context, tx *sql.Tx, _ backend.Claimed) (backend.Effect, error) {
		ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		_, err := tx.ExecContext(ctx, `INSERT INTO ledger
			WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT 'endless', i FROM n`)
		if err == nil {
			t.Error("the endless INSERT ended without an error")
		}
		_, err = tx.Exec("INSERT INTO ledger VALUES ('autocommit', 1)")
		if err == nil {
			t.Error("INSERT after the interrupt = nil, want it refused")
		}
		return backend.Effect{Response: created}, nil
	})
	if !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("Transact = %v, want ErrInvalid", err)
	}
	if n := charges(t, db); n != 0 {
		t.Errorf("charges = %d, want 0", n)
	}
}

// Hard case 31 and fact S-16: inside an effect the backend's own methods would
// wait for the effect.
func TestMethodsWithinAnEffect(t *testing.T) {
	t.Parallel()
	b, db := withLedger(t)
	db.SetMaxOpenConns(1)
	l := backend.Lease{Key: claimOf("other").Key, ClaimID: backend.ClaimID{1}, Token: 1}
	_, err := b.Transact(t.Context(), claimOf("key"), func(ctx context.Context, tx *sql.Tx, _ backend.Claimed) (backend.Effect, error) {
		for name, call := range map[string]func() error{
			"Claim":      func() error { _, err := b.Claim(ctx, claimOf("other")); return err },
			"Renew":      func() error { return b.Renew(ctx, l, time.Second) },
			"Checkpoint": func() error { return b.Checkpoint(ctx, l, backend.Checkpoint{Sequence: 1, Point: "p"}) },
			"Complete":   func() error { return b.Complete(ctx, l, backend.Completion{Sequence: 1}) },
			"Release":    func() error { return b.Release(ctx, l) },
			"Get":        func() error { _, err := b.Get(ctx, l.Key); return err },
			"Sweep":      func() error { _, err := b.Sweep(ctx, 1); return err },
			"Describe":   func() error { _, err := b.Describe(ctx); return err },
			"Transact":   func() error { _, err := b.Transact(ctx, claimOf("key"), noEffect); return err },
			"InLease": func() error {
				_, err := b.InLease(ctx, l, 1, func(context.Context, *sql.Tx) (backend.Step, error) { return backend.Step{}, nil })
				return err
			},
		} {
			if err := call(); !errors.Is(err, backend.ErrInvalid) {
				t.Errorf("%s within an effect = %v, want ErrInvalid", name, err)
			}
		}
		v := b.Bind(tx)
		got, err := v.Claim(ctx, claimOf("other"))
		if err != nil || !got.Acquired {
			t.Errorf("Bind(tx).Claim within an effect = %+v, %v, want acquired", got, err)
		}
		if err := v.Complete(ctx, got.Record.Holder(), backend.Completion{Sequence: 1, Response: created}); err != nil {
			t.Errorf("Bind(tx).Complete within an effect = %v, want nil", err)
		}
		return backend.Effect{Response: created}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := b.Get(t.Context(), claimOf("other").Key); err != nil || r.Status != backend.Completed {
		t.Errorf("Get of the record bound in the effect = %+v, %v, want completed", r, err)
	}
}

func noEffect(context.Context, *sql.Tx, backend.Claimed) (backend.Effect, error) {
	return backend.Effect{}, nil
}

// Hard case 31: the effect is bounded by a third of the lease and by the budget.
func TestEffectIsBounded(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		lease, budget, want time.Duration
	}{
		{300 * time.Millisecond, time.Minute, 100 * time.Millisecond},
		{time.Hour, 100 * time.Millisecond, 100 * time.Millisecond},
	} {
		t.Run(fmt.Sprint(tt.lease), func(t *testing.T) {
			t.Parallel()
			b, db := withLedger(t, sqlite.WithBusyBudget(tt.budget))
			c := claimOf("key")
			c.Lease = tt.lease
			_, err := b.Transact(t.Context(), c, func(ctx context.Context, tx *sql.Tx, _ backend.Claimed) (backend.Effect, error) {
				deadline, ok := ctx.Deadline()
				if left := time.Until(deadline); !ok || left > tt.want || left < tt.want/2 {
					t.Errorf("effect's context ends in %v, %v, want %v", left, ok, tt.want)
				}
				if err := charge(ctx, tx, "a"); err != nil {
					return backend.Effect{}, err
				}
				<-ctx.Done()
				return backend.Effect{}, context.Cause(ctx)
			})
			if err == nil || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Transact = %v, want the cause of the effect's context", err)
			}
			if n := charges(t, db); n != 0 {
				t.Errorf("charges = %d, want 0", n)
			}
		})
	}
}

// Fact S-6: database/sql rolls a transaction back when its context ends. A
// finished effect is not lost to a cancelled caller (field report 2).
func TestTransactOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	b, db := withLedger(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got, err := b.Transact(ctx, claimOf("key"), func(ctx context.Context, tx *sql.Tx, _ backend.Claimed) (backend.Effect, error) {
		err := charge(ctx, tx, "a")
		cancel()
		<-ctx.Done()
		return backend.Effect{Response: created}, err
	})
	if err != nil || got.Record.Status != backend.Completed {
		t.Errorf("Transact with a context that ended in the effect = %+v, %v, want completed", got, err)
	}
	if n := charges(t, db); n != 1 {
		t.Errorf("charges = %d, want 1", n)
	}
}

func TestInLease(t *testing.T) { // hard case 21
	t.Parallel()
	b, db := withLedger(t)
	l := mustClaim(t, b, claimOf("key")).Holder()
	steps := 0
	step := func(s backend.Step, err error) func(context.Context, *sql.Tx) (backend.Step, error) {
		return func(ctx context.Context, tx *sql.Tx) (backend.Step, error) {
			steps++
			if err := charge(ctx, tx, "a"); err != nil {
				return backend.Step{}, err
			}
			return s, err
		}
	}
	r, err := b.InLease(t.Context(), l, 1, step(backend.Step{Point: "charged", State: []byte("s")}, nil))
	if err != nil || r.RecoveryPoint != "charged" || string(r.State) != "s" || r.Sequence != 1 || r.LeaseLeft <= 0 {
		t.Fatalf("InLease = %+v, %v, want the recovery point", r, err)
	}
	r, err = b.InLease(t.Context(), l, 1, step(backend.Step{Point: "again"}, nil))
	if err != nil || r.RecoveryPoint != "charged" || steps != 1 {
		t.Fatalf("InLease with a stored sequence = %+v, %v, %d steps run, want the stored record and 1", r, err, steps)
	}
	boom := errors.New("boom")
	if _, err = b.InLease(t.Context(), l, 2, step(backend.Step{}, boom)); err != boom {
		t.Fatalf("InLease with a failing step = %v, want its error", err)
	}
	if _, err = b.InLease(t.Context(), l, 2, step(backend.Step{Point: "p", Undo: true}, nil)); !errors.Is(err, backend.ErrInvalid) {
		t.Fatalf("InLease undoing a recovery point = %v, want ErrInvalid", err)
	}
	stale := l
	stale.ClaimID[0]++
	before := steps
	if _, err = b.InLease(t.Context(), stale, 2, step(backend.Step{Point: "p"}, nil)); !errors.Is(err, backend.ErrLeaseLost) || steps != before {
		t.Fatalf("InLease of another claim = %v, %d steps, want ErrLeaseLost before the step", err, steps-before)
	}
	r, err = b.InLease(t.Context(), l, 2, step(backend.Step{Response: &created, Undo: true}, nil))
	if err != nil || r.Status != backend.Completed || !r.Response.Equal(created) {
		t.Fatalf("InLease with a response = %+v, %v, want completed", r, err)
	}
	before = steps
	r, err = b.InLease(t.Context(), l, 3, step(backend.Step{Point: "late"}, nil))
	if err != nil || r.Status != backend.Completed || steps != before {
		t.Fatalf("InLease of a completed record = %+v, %v, want it as it is", r, err)
	}
	if n := charges(t, db); n != 1 {
		t.Errorf("charges = %d, want 1: a failed and two undone steps leave nothing", n)
	}
}

func TestBind(t *testing.T) {
	t.Parallel()
	b, db := withLedger(t)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	v := b.Bind(tx)
	if err := v.Undo(t.Context()); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("Undo before a claim = %v, want ErrInvalid", err)
	}
	got, err := v.Claim(t.Context(), claimOf("key"))
	if err != nil || !got.Acquired {
		t.Fatalf("Claim = %+v, %v, want acquired", got, err)
	}
	if err := charge(t.Context(), tx, "a"); err != nil {
		t.Fatal(err)
	}
	if err := v.Undo(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := v.Checkpoint(t.Context(), got.Record.Holder(), backend.Checkpoint{Sequence: 1, Point: "p"}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Get(t.Context(), claimOf("key").Key); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("Get outside before the COMMIT = %v, want ErrNotFound", err)
	}
	if r, err := v.Get(t.Context(), claimOf("key").Key); err != nil || r.RecoveryPoint != "p" {
		t.Errorf("Get inside = %+v, %v, want the checkpoint", r, err)
	}
	if err := v.Complete(t.Context(), got.Record.Holder(), backend.Completion{Sequence: 2, Response: created}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if r, err := b.Get(t.Context(), claimOf("key").Key); err != nil || r.Status != backend.Completed {
		t.Errorf("Get after the COMMIT = %+v, %v, want completed", r, err)
	}
	if n := charges(t, db); n != 0 {
		t.Errorf("charges = %d, want 0", n)
	}
	if _, err := v.Claim(t.Context(), claimOf("key")); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("Claim after the COMMIT = %v, want ErrInvalid", err)
	}
	if _, err := b.Bind(nil).Claim(t.Context(), claimOf("key")); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("Bind(nil).Claim = %v, want ErrInvalid", err)
	}
}

// An effect that writes with the pool waits for its own transaction until its
// context ends. The error says so, and not only that some deadline passed.
func TestEffectThatWritesWithThePool(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	db := openFile(t, path)
	run(t, db, "CREATE TABLE ledger (who TEXT, amount INTEGER)")
	b := newBackend(t, db, sqlite.WithBusyBudget(200*time.Millisecond))
	var own error
	_, err := b.Transact(t.Context(), claimOf("key"), func(ctx context.Context, _ *sql.Tx, _ backend.Claimed) (backend.Effect, error) {
		_, own = db.ExecContext(ctx, "INSERT INTO ledger VALUES ('a', 1)")
		return backend.Effect{Response: created}, own
	})
	if own == nil || !errors.Is(err, own) || !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(err.Error(), "not with the pool") {
		t.Errorf("Transact = %v, want ErrUnavailable that says what to do, around %v", err, own)
	}
}

// An effect that returns what its Commit said gets the same answer as one that
// ignores it.
func TestEffectThatReturnsItsCommitsError(t *testing.T) {
	t.Parallel()
	b, db := withLedger(t)
	_, err := b.Transact(t.Context(), claimOf("key"), func(ctx context.Context, tx *sql.Tx, _ backend.Claimed) (backend.Effect, error) {
		if err := charge(ctx, tx, "a"); err != nil {
			return backend.Effect{}, err
		}
		return backend.Effect{Response: created}, tx.Commit()
	})
	if !errors.Is(err, backend.ErrInvalid) || !strings.Contains(err.Error(), "must not end") {
		t.Errorf("Transact = %v, want ErrInvalid that says what to do", err)
	}
	if n := charges(t, db); n != 0 {
		t.Errorf("charges = %d, want 0", n)
	}
}
