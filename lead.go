package idem

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/internal/bound"
)

// acquire claims until the key is acquired, has an answer (no error), or is
// refused. sent is from before the request whose answer it returns.
func (e *Executor) acquire(ctx context.Context, c backend.Claim, wait time.Time) (got backend.Claimed, sent time.Time, err error) {
	for p := firstPause; ; {
		left := max(0, time.Until(wait))
		c.Wait = min(left, c.Lease/4)
		got, sent, err = e.tryClaim(ctx, c)
		if err != nil || got.Acquired {
			return got, sent, err
		}
		err = e.read(c, &got, false)
		if left == 0 || !errors.Is(err, ErrInProgress) {
			return got, sent, err
		}
		if p, err = e.rest(ctx, c.Key, p, left); err != nil {
			return got, sent, unavailable("wait", err)
		}
	}
}

// tryClaim claims, and again with the same claim id where the answer was lost or
// the store could not be asked for a moment. No effect has run, so a store that
// does not answer is unavailable, not unknown.
func (e *Executor) tryClaim(ctx context.Context, c backend.Claim) (got backend.Claimed, sent time.Time, err error) {
	const tries = 4
	maybe := false
	until := time.Now().Add(c.Lease / 4)
	for try := 1; ; try++ {
		sent = time.Now()
		got, err = e.claimOnce(ctx, c)
		if err == nil && got.Acquired && got.Record.LeaseLeft < c.Lease/2 {
			maybe = true
			got, sent, err = e.whole(ctx, c, got)
		}
		if err == nil {
			return got, sent, nil
		}
		maybe = maybe || !backend.NotApplied(err)
		again := !backend.NotApplied(err) || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrRetryTx) || errors.Is(err, ErrLeaseLost)
		if !again || try == tries || time.Now().After(until) || sleep(ctx, backoff(try)) != nil {
			break
		}
	}
	if !maybe {
		return got, sent, err
	}
	// The key may be held by a run that never begins. Its owner lets go of it, so
	// that the next retry need not wait for the lease to end.
	if e.enter() == nil {
		go e.letGo(context.WithoutCancel(ctx), c)
	}
	return got, sent, unavailable("claim", driver(err))
}

// claimOnce bounds one claim in time, also where the caller sets no bound.
func (e *Executor) claimOnce(ctx context.Context, c backend.Claim) (backend.Claimed, error) {
	once := bound.With(ctx, time.Now().Add(c.Wait+c.Lease/4))
	defer once.Cancel(nil)
	return e.b.Claim(once, c)
}

// whole renews a lease that was granted to an earlier try of the same claim and is
// half over.
func (e *Executor) whole(ctx context.Context, c backend.Claim, got backend.Claimed) (backend.Claimed, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Lease/4)
	defer cancel()
	sent := time.Now()
	err := e.b.Renew(ctx, got.Record.Holder(), c.Lease)
	got.Record.LeaseLeft = c.Lease
	return got, sent, err
}

// letGo releases what a claim whose answer was lost may hold, and leaves.
func (e *Executor) letGo(ctx context.Context, c backend.Claim) {
	defer e.running.Done()
	ctx, cancel := context.WithTimeout(ctx, c.Lease/4)
	defer cancel()
	r, err := e.b.Get(ctx, c.Key)
	// What it took over of a run that died before its first recovery point would be gone.
	dead := r.Attempt > 1 && r.RecoveryPoint == ""
	if err == nil && r.Status == backend.Started && r.ClaimID == c.ID && !dead {
		_ = e.b.Release(ctx, r.Holder())
	}
}

// lead runs an effect whose claim was acquired, and ends its record.
func (e *Executor) lead(cl *call, got backend.Claimed, sent time.Time, effect func(context.Context, *Run) (Response, error)) (outcome, error) {
	r, c := got.Record, cl.flight.claim
	start := time.Now()
	run := &cl.run
	run.e, run.claim, run.beat, run.lease = e, &cl.flight.claim, &cl.beat, r.Holder()
	run.operation, run.attempt = r.Operation, r.Attempt
	run.stays = cl.stays && r.Attempt > 1
	run.seq.Store(int64(r.Sequence))
	if r.RecoveryPoint != "" {
		if err := run.resume(r.State, cl.resolves); err != nil {
			_ = e.release(cl, c, r.Holder()) // if it fails the lease ends by itself
			return outcome{}, err
		}
	}
	e.flights.run(&cl.flight)

	cl.runCtx.Init(cl, time.Time{})
	defer cl.runCtx.Cancel(nil)
	e.beat.start(cl, sent, r.LeaseLeft)
	returned := false
	defer func() {
		if !returned { // a panic or runtime.Goexit goes on after this
			e.beat.stop(&cl.beat)
			e.fail(cl, run, nil, start)
		}
	}()
	e.event(cl, began(r.Attempt), c, r.Attempt, start)
	resp, err := effect(&cl.runCtx, run)
	if err == nil && run.stored.Load() == nil {
		err = run.finished()
	}
	returned = true
	end := e.beat.stop(&cl.beat)

	if stored := run.stored.Load(); stored != nil {
		r.Status, r.Response = backend.Completed, *stored
		if run.final { // the answer is committed
			r.Response, err = e.open(c.Key, *stored, true)
		}
		return outcome{record: r, ran: true, given: run.final}, err
	}
	if err != nil {
		if errors.Is(context.Cause(&cl.runCtx), ErrLeaseLost) && !errors.Is(err, ErrLeaseLost) {
			err = &backend.Error{Op: "idem: run", Kind: ErrLeaseLost, Err: err}
		}
		e.fail(cl, run, err, start)
		return outcome{}, err
	}
	r.Response, err = e.complete(cl, run, e.keep(c.Key, resp), end, start)
	if err != nil {
		return outcome{}, err
	}
	r.Status = backend.Completed
	return outcome{record: r, ran: true}, nil
}

// lose ends the run of a lease that can't be relied on any more, unless its record is
// completed. Duplicates ask the store from now on.
func (cl *call) lose() {
	if cl.run.stored.Load() != nil {
		return
	}
	cl.runCtx.Cancel(ErrLeaseLost)
	cl.e.flights.land(&cl.flight, backend.Record{}, nil)
}

// fail ends a run whose effect failed or panicked.
func (e *Executor) fail(ctx context.Context, run *Run, err error, start time.Time) {
	if run.stored.Load() != nil {
		return
	}
	kind := Released
	if run.keeps(err) {
		kind = Unknown
		if errors.Is(err, ErrLeaseLost) {
			kind = LeaseLost
		}
	} else if errors.Is(e.release(ctx, *run.claim, run.lease), ErrLeaseLost) {
		kind = LeaseLost
	}
	e.event(ctx, kind, *run.claim, run.attempt, start)
}

// release gives a claim up, whatever became of the caller. If it fails the lease
// runs out.
func (e *Executor) release(ctx context.Context, c backend.Claim, l backend.Lease) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Lease/4)
	defer cancel()
	return e.b.Release(ctx, l)
}

// complete stores the answer of an effect that ran. It has until the lease ends at
// end, and some time even if that is over: nobody may have taken over.
func (e *Executor) complete(ctx context.Context, run *Run, resp Response, end, start time.Time) (Response, error) {
	c := *run.claim
	end = someTime(end, c.Lease)
	done := run.completion(resp)
	for try := 1; ; try++ {
		err := e.completeOnce(ctx, run.lease, done, end)
		if try == 1 {
			end = someTime(end, c.Lease)
		}
		switch {
		case err == nil:
			return done.Response, nil
		case errors.Is(err, ErrTooLarge) && done.Response.Tombstone == "":
			done.Response = tombstone(done.Response, e.cfg.maxResponse)
			continue
		case errors.Is(err, ErrTooLarge) && len(done.Response.Header) > 0:
			done.Response.Header = nil
			continue
		case errors.Is(err, ErrLeaseLost):
			e.event(ctx, LeaseLost, c, run.attempt, start)
			return Response{}, err
		case backend.NotApplied(err) && !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrRetryTx):
			e.event(ctx, Unknown, c, run.attempt, start)
			return Response{}, unknown("complete", err)
		}
		time.Sleep(min(backoff(try), time.Until(end)))
		if !time.Now().Before(end) {
			return e.look(ctx, run, done.Response, err, start)
		}
	}
}

// someTime is until when a write is tried that has time until end: a while even if that
// is over. A write asks for it once more after its first try, in which its process may
// have been stopped: what the store says of a takeover is better than an unknown outcome.
func someTime(end time.Time, lease time.Duration) time.Time {
	if soonest := time.Now().Add(lease / 4); end.Before(soonest) {
		return soonest
	}
	return end
}

// completeOnce goes on when the caller has gone. It takes a third of the time that
// is left, so that a connection on which nothing comes back does not use it up.
func (e *Executor) completeOnce(ctx context.Context, l backend.Lease, done backend.Completion, end time.Time) error {
	once := bound.Detached(ctx, time.Now().Add(max(time.Until(end)/3, 10*time.Millisecond)))
	defer once.Cancel(nil)
	return e.b.Complete(once, l, done)
}

// look finds out whether a completion whose answer was lost was stored.
func (e *Executor) look(ctx context.Context, run *Run, resp Response, cause error, start time.Time) (Response, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), run.claim.Lease/4)
	defer cancel()
	r, err := e.b.Get(ctx, run.claim.Key)
	if err == nil && r.Status == backend.Completed && r.ClaimID == run.claim.ID && r.Response.Equal(resp) {
		return resp, nil
	}
	e.event(ctx, Unknown, *run.claim, run.attempt, start)
	return Response{}, unknown("complete", cause)
}

// driver is the driver's part of an error, without what it meant for one try.
func driver(err error) error {
	var b *backend.Error
	if errors.As(err, &b) {
		return b.Err
	}
	return err
}

// backoff is the pause after a try that failed: up to 20 ms, doubled with every
// try, up to 500 ms.
func backoff(try int) time.Duration {
	return jitter(min(10*time.Millisecond<<min(try, 10), 500*time.Millisecond))
}

// jitter spreads pauses, so that callers that failed together don't return together.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
