package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/postgres"
)

// twoPhases is an effect of two transactions, the second with the answer.
func (p *payments) twoPhases(b *postgres.Backend) func(context.Context, *idem.Run) (string, error) {
	return func(ctx context.Context, run *idem.Run) (string, error) {
		first, err := idem.PhaseTx(ctx, run, b, "first", p.inTx)
		if err != nil {
			return "", err
		}
		if _, err := idem.CompleteTx(ctx, run, b, p.inTx); err != nil {
			return first, err
		}
		return "", errors.New("what comes after the answer does not count")
	}
}

// PG-12: the answer of the COMMIT of a phase, or of the last one, is lost. The run finds
// out what became of it and goes on: each happened once.
func TestPhaseTxFindsOutAboutItsCommit(t *testing.T) {
	t.Parallel()
	for _, phase := range []int{0, 1} {
		for _, arrives := range []bool{true, false} {
			t.Run(fmt.Sprintf("phase %d, arrives %v", phase+1, arrives), func(t *testing.T) {
				t.Parallel()
				b, proxy, _, pool := faulty(t)
				e := executor(t, b, idem.WithPhases("1"))
				p := &payments{}
				cut := proxy.Add(testenv.Rule{On: testenv.ToServer, Match: commits, Do: cutWhere(arrives), Skip: phase})
				res, err := idem.Do(t.Context(), e.Executor, intent("key-0001"), p.twoPhases(b))
				<-cut.Fired()
				runs := int32(2)
				if !arrives {
					runs = 3 // the one that was rolled back, and again
				}
				answer := fmt.Sprint("payment ", runs) // of the last phase
				wantResult(t, "Do", res, err, answer, false, 1)
				p.wantRuns(t, runs)
				wantEffects(t, pool, 2)
				res, err = idem.Do(t.Context(), e.Executor, intent("key-0001"), p.twoPhases(b))
				wantResult(t, "Do of a retry", res, err, answer, true, 1)
				p.wantRuns(t, runs)
			})
		}
	}
}

// A phase's transaction that conflicts with another is run again, and nothing of the
// first try stays.
func TestPhaseTxIsRunAgain(t *testing.T) {
	t.Parallel()
	b, pool, _ := migrated(t)
	effectsTable(t, pool)
	e := executor(t, b, idem.WithPhases("1"))
	p := &payments{}
	res, err := idem.Do(t.Context(), e.Executor, intent("key-0001"), func(ctx context.Context, run *idem.Run) (string, error) {
		return idem.PhaseTx(ctx, run, b, "first", func(ctx context.Context, tx pgx.Tx) (string, error) {
			v, err := p.inTx(ctx, tx)
			if p.runs.Load() < 3 && err == nil {
				_, err = tx.Exec(ctx, `DO $$ BEGIN RAISE SQLSTATE '40001'; END $$`)
			}
			return v, err
		})
	})
	wantResult(t, "Do", res, err, "payment 3", false, 1)
	wantEffects(t, pool, 1)
}

// A phase that fails is rolled back and returned as it is, the phases before it stay, and
// the record is free at once.
func TestPhaseTxFails(t *testing.T) {
	t.Parallel()
	b, pool, _ := migrated(t)
	effectsTable(t, pool)
	e := executor(t, b, idem.WithPhases("1"))
	p := &payments{}
	errNo := errors.New("no")
	var fails atomic.Bool
	fails.Store(true)
	effect := func(ctx context.Context, run *idem.Run) (string, error) {
		first, err := idem.PhaseTx(ctx, run, b, "first", p.inTx)
		if err != nil {
			return "", err
		}
		_, err = idem.PhaseTx(ctx, run, b, "second", func(ctx context.Context, tx pgx.Tx) (string, error) {
			v, err := p.inTx(ctx, tx)
			if fails.Load() {
				err = errNo
			}
			return v, err
		})
		return first, err
	}
	_, err := idem.Do(t.Context(), e.Executor, intent("key-0001"), effect)
	if !errors.Is(err, errNo) {
		t.Errorf("Do = %v, want the phase's error", err)
	}
	wantEffects(t, pool, 1)
	fails.Store(false)
	res, err := idem.Do(t.Context(), e.Executor, intent("key-0001"), effect)
	wantResult(t, "Do again", res, err, "payment 1", false, 2)
	p.wantRuns(t, 3)
	wantEffects(t, pool, 2)
}

// An answer that refuses undoes the last phase's writes, and those of no other.
func TestCompleteTxRejects(t *testing.T) {
	t.Parallel()
	b, pool, _ := migrated(t)
	effectsTable(t, pool)
	e := executor(t, b, idem.WithPhases("1"))
	p := &payments{}
	effect := func(ctx context.Context, run *idem.Run) (string, error) {
		if _, err := idem.PhaseTx(ctx, run, b, "first", p.inTx); err != nil {
			return "", err
		}
		return idem.CompleteTx(ctx, run, b, func(ctx context.Context, tx pgx.Tx) (string, error) {
			if _, err := p.inTx(ctx, tx); err != nil {
				return "", err
			}
			return "", idem.Reject("refused")
		})
	}
	res, err := idem.Do(t.Context(), e.Executor, intent("key-0001"), effect)
	wantResult(t, "Do", res, err, "refused", false, 1)
	res, err = idem.Do(t.Context(), e.Executor, intent("key-0001"), effect)
	wantResult(t, "Do again", res, err, "refused", true, 1)
	p.wantRuns(t, 2)
	wantEffects(t, pool, 1)
}

// The backend of a phase is the run's own: another one keeps no record of it.
func TestPhaseTxOnAnotherBackend(t *testing.T) {
	t.Parallel()
	b, pool, _ := migrated(t)
	e := executor(t, b, idem.WithPhases("1"))
	other := newBackend(t, pool)
	_, err := idem.Do(t.Context(), e.Executor, intent("key-0001"), func(ctx context.Context, run *idem.Run) (string, error) {
		return idem.PhaseTx(ctx, run, other, "first", (&payments{}).inTx)
	})
	if !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("Do = %v, want ErrInvalid", err)
	}
}
