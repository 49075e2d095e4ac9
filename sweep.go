package idem

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// sweepBatch is how many rows one statement of a sweep may change.
const sweepBatch = 1000

// Sweep deletes the records that are over and the started ones that
// were abandoned, takes the answers of those that are only remembered ([WithRemember]),
// and returns how many it changed. Any number of processes may
// sweep at once. Stores that expire records by themselves need it, too, for runs that
// nobody finished, and Redis for what is remembered.
func (e *Executor) Sweep(ctx context.Context) (int, error) {
	began := time.Now()
	total := 0
	for {
		n, err := e.b.Sweep(ctx, sweepBatch)
		total += n
		if err != nil || n < sweepBatch {
			if total > 0 {
				e.cfg.observe(ctx, Event{Kind: Swept, Count: total, Elapsed: time.Since(began)})
			}
			return total, err
		}
	}
}

// RunSweeper sweeps about every interval until ctx ends, and returns its cause. A
// sweep that fails is tried again after the next interval. Run it in a goroutine
// of its own; several processes need not agree on who does it.
func (e *Executor) RunSweeper(ctx context.Context, interval time.Duration) error {
	if interval <= 0 {
		return invalid("the sweeper's interval is %v", interval)
	}
	for {
		if err := sleep(ctx, interval*9/10+rand.N(interval/5+1)); err != nil {
			return err
		}
		if _, err := e.Sweep(ctx); err != nil && ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), err)
		}
	}
}
