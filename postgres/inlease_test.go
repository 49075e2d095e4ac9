package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/idem-go/idem/backend"
)

type step = func(ctx context.Context, tx pgx.Tx) (backend.Step, error)

func stepTo(point string) step {
	return func(ctx context.Context, tx pgx.Tx) (backend.Step, error) {
		_, err := tx.Exec(ctx, `INSERT INTO effects (key) VALUES ($1)`, point)
		return backend.Step{Point: point, State: []byte("state of " + point)}, err
	}
}

func stepToEnd(body string, undo bool) step {
	return func(ctx context.Context, tx pgx.Tx) (backend.Step, error) {
		_, err := tx.Exec(ctx, `INSERT INTO effects (key) VALUES ('end')`)
		r := response(body)
		return backend.Step{Response: &r, Undo: undo}, err
	}
}

func noStep(t testing.TB) step {
	return func(context.Context, pgx.Tx) (backend.Step, error) {
		t.Error("the step was called, want it not to be")
		return backend.Step{}, errors.New("not to be called")
	}
}

// Hard case 21: a step is stored together with its writes, and run once.
func TestInLease(t *testing.T) {
	t.Parallel()
	b, pool := withEffects(t)
	l := acquire(t, b, request("key")).Holder()
	r, err := b.InLease(t.Context(), l, 1, stepTo("charged"))
	if err != nil || r.RecoveryPoint != "charged" || r.Sequence != 1 || string(r.State) != "state of charged" {
		t.Fatalf("InLease = %q, sequence %d, %v, want the recovery point", r.RecoveryPoint, r.Sequence, err)
	}
	if stored := wantRecord(t, b, l.Key, backend.Started, ""); stored.RecoveryPoint != r.RecoveryPoint || !stored.UpdatedAt.Equal(r.UpdatedAt) {
		t.Errorf("InLease returned %+v, want the stored %+v", r, stored)
	}
	for _, seq := range []backend.Sequence{1} {
		r, err = b.InLease(t.Context(), l, seq, noStep(t))
		if err != nil || string(r.State) != "state of charged" {
			t.Errorf("InLease(%d) again = %q, %v, want the stored state", seq, r.State, err)
		}
	}
	r, err = b.InLease(t.Context(), l, 2, stepToEnd("done", false))
	if err != nil || r.Status != backend.Completed || string(r.Response.Body) != "done" {
		t.Fatalf("InLease = %v, %v, want completed", r.Status, err)
	}
	r, err = b.InLease(t.Context(), l, 3, noStep(t))
	if err != nil || r.Status != backend.Completed {
		t.Errorf("InLease of a completed record = %v, %v, want the record", r.Status, err)
	}
	wantRecord(t, b, l.Key, backend.Completed, "done")
	wantEffects(t, pool, 2)
	wantIdle(t, pool)
}

func TestInLeaseUndo(t *testing.T) {
	t.Parallel()
	b, pool := withEffects(t)
	l := acquire(t, b, request("key")).Holder()
	r, err := b.InLease(t.Context(), l, 1, stepToEnd("refused", true))
	if err != nil || r.Status != backend.Completed {
		t.Errorf("InLease = %v, %v, want completed", r.Status, err)
	}
	wantRecord(t, b, l.Key, backend.Completed, "refused")
	wantEffects(t, pool, 0)
}

func TestInLeaseRefuses(t *testing.T) {
	t.Parallel()
	b, pool := withEffects(t)
	c := request("key")
	l := acquire(t, b, c).Holder()
	other, older, gone := l, l, l
	other.ClaimID = newID()
	older.Token--
	gone.Key.Value = "gone"
	for name, lease := range map[string]backend.Lease{"another claim": other, "an older token": older, "no record": gone} {
		if _, err := b.InLease(t.Context(), lease, 1, noStep(t)); !errors.Is(err, backend.ErrLeaseLost) {
			t.Errorf("InLease of %s = %v, want ErrLeaseLost", name, err)
		}
	}
	for name, tt := range map[string]struct {
		seq  backend.Sequence
		step step
		want error
	}{
		"sequence 0":                {0, noStep(t), backend.ErrInvalid},
		"undone without a response": {1, func(context.Context, pgx.Tx) (backend.Step, error) { return backend.Step{Point: "p", Undo: true}, nil }, backend.ErrInvalid},
		"without a name":            {1, stepTo(""), backend.ErrInvalid},
		"its own error":             {1, func(context.Context, pgx.Tx) (backend.Step, error) { return backend.Step{}, errEffect }, errEffect},
		"a failure nobody has reported": {1, func(ctx context.Context, tx pgx.Tx) (backend.Step, error) {
			_, _ = tx.Exec(ctx, `SELECT 1/0`)
			return backend.Step{Point: "p"}, nil
		}, backend.ErrInvalid},
	} {
		if _, err := b.InLease(t.Context(), l, tt.seq, tt.step); !errors.Is(err, tt.want) {
			t.Errorf("InLease with %s = %v, want %v", name, err, tt.want)
		}
	}
	r := wantRecord(t, b, l.Key, backend.Started, "")
	if r.Sequence != 0 || r.RecoveryPoint != "" {
		t.Errorf("record = sequence %d at %q, want it untouched", r.Sequence, r.RecoveryPoint)
	}
	wantEffects(t, pool, 0)
	wantIdle(t, pool)
}

// The row lock is the lease: a step outlives its lease, and nobody takes over.
func TestInLeaseHoldsTheRecord(t *testing.T) {
	t.Parallel()
	b, pool := withEffects(t)
	c := request("key")
	c.Lease = 2 * time.Second
	l := acquire(t, b, c).Holder()
	_, err := b.InLease(t.Context(), l, 1, func(ctx context.Context, tx pgx.Tx) (backend.Step, error) {
		if _, err := tx.Exec(context.WithoutCancel(ctx), `SELECT pg_sleep(2.2)`); err != nil {
			return backend.Step{}, err
		}
		if got, err := b.Claim(t.Context(), request("key")); err != nil || !got.Hidden {
			t.Errorf("Claim during the step = %+v, %v, want hidden", got, err)
		}
		// Hard case 23: nobody can renew now, and nobody needs to.
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := b.Renew(short, l, time.Minute); err == nil {
			t.Error("Renew during the step = nil, want an error")
		}
		return stepTo("slow")(context.WithoutCancel(ctx), tx)
	})
	if err != nil {
		t.Errorf("InLease = %v, want nil", err)
	}
	if r := wantRecord(t, b, c.Key, backend.Started, ""); r.RecoveryPoint != "slow" {
		t.Errorf("recovery point = %q, want the step's", r.RecoveryPoint)
	}
	wantEffects(t, pool, 1)
}

func TestInLeaseEndedByItsStep(t *testing.T) {
	t.Parallel()
	b, pool := withEffects(t)
	for name, fail := range map[string]error{"committed": nil, "committed, then failed": errEffect} {
		l := acquire(t, b, request(name)).Holder()
		_, err := b.InLease(t.Context(), l, 1, func(ctx context.Context, tx pgx.Tx) (backend.Step, error) {
			s, err := stepTo("charged")(ctx, tx)
			if err == nil {
				_, err = tx.Exec(ctx, `COMMIT`)
			}
			return s, errors.Join(err, fail)
		})
		if !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("InLease(%s) = %v, want ErrInvalid", name, err)
		}
		r, err := b.Get(t.Context(), l.Key)
		if err != nil || fail == nil && r.RecoveryPoint != "charged" || fail != nil && r.Response.Tombstone != backend.NotStored {
			t.Errorf("Get(%s) = %v at %q, tombstone %q, %v, want that its writes are not run again", name, r.Status, r.RecoveryPoint, r.Response.Tombstone, err)
		}
	}
	wantEffects(t, pool, 2)
	wantIdle(t, pool)
}
