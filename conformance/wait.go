package conformance

import (
	"context"
	"time"

	"github.com/idem-go/idem/backend"
)

// waitCases test backends that tell of changes. Others promise nothing here.
var waitCases = []testCase{
	optional("wait/completed", "A wait for a key ends when its run is completed, for all that wait.", func(e *env, w backend.Waiter) {
		e.awaits(w, request("k"), "is completed", func(r backend.Record) { e.ok("Complete", e.complete(r.Holder(), answer(1, "done"))) })
	}),
	optional("wait/released", "A wait for a key ends when its run is released, also past a recovery point.", func(e *env, w backend.Waiter) {
		release := func(r backend.Record) { e.ok("Release", e.release(r.Holder())) }
		e.awaits(w, request("k"), "is released", release)
		e.awaits(w, request("resumable"), "is released at a recovery point", func(r backend.Record) {
			e.ok("Checkpoint", e.checkpoint(r.Holder(), point(1, "p", "s")))
			release(r)
		})
	}),
	optional("wait/lapsed", "A wait for a key ends when the lease of its run ends.", func(e *env, w backend.Waiter) {
		c := hasty("k")
		e.awaits(w, c, "has lapsed", func(r backend.Record) { e.advance(r.Lease) })
	}),
	optional("wait/missed", "A wait for a key that is not held, or not any more, ends at once.", waitMissed),
	optional("wait/context", "A wait for a key that stays held ends with its context and changes nothing.", waitContext),
}

// patience is how long the word of a store may take. One whose clock is moved has no
// lease to wait for.
func (e *env) patience() time.Duration {
	if e.Advance != nil {
		return 3 * time.Second
	}
	return 20 * time.Second
}

// awaits claims a key, lets some wait for it, and ends its run.
func (e *env) awaits(w backend.Waiter, c backend.Claim, what string, end func(r backend.Record)) {
	e.Helper()
	const waiters = 5
	r := e.acquire("Claim", c)
	told := make(chan error, waiters)
	for range waiters {
		go func() { told <- e.await(e.Context(), w, c.Key) }()
	}
	early := time.NewTimer(100 * time.Millisecond) // most of them wait by then
	defer early.Stop()
	select {
	case err := <-told:
		if e.get(c.Key).LeaseLeft > 0 {
			e.Fatalf("Await(held) = %v, want it to wait", err)
		}
		told <- err // a lease that was over so soon
	case <-early.C:
	}
	end(r)
	limit := time.NewTimer(e.patience())
	defer limit.Stop()
	for range waiters {
		select {
		case err := <-told:
			e.ok("Await of a run that "+what, err)
		case <-limit.C:
			e.Fatalf("Await of a run that %s: not told after %v", what, e.patience())
		}
	}
}

// await is Await until the key is really free: it may return for no reason.
func (e *env) await(ctx context.Context, w backend.Waiter, k backend.Key) error {
	for {
		if err := w.Await(ctx, k); err != nil {
			return err
		}
		if r, is := e.find(k); !is || r.LeaseLeft == 0 {
			return nil
		}
	}
}

func waitMissed(e *env, w backend.Waiter) {
	resumable := request("resumable")
	l := e.acquire("Claim", resumable).Holder()
	e.ok("Checkpoint", e.checkpoint(l, point(1, "p", "s")))
	e.ok("Release", e.release(l))
	released := request("released")
	e.ok("Release", e.release(e.acquire("Claim", released).Holder()))
	done := request("done")
	e.completed(done)
	lapsed := hasty("lapsed")
	e.acquire("Claim", lapsed)
	e.lapse(lapsed)
	for _, c := range []backend.Claim{request("none"), resumable, released, done, lapsed} {
		ctx, cancel := context.WithTimeout(e.Context(), e.patience())
		if err := w.Await(ctx, c.Key); err != nil {
			e.Errorf("Await(%s) = %v, want nil at once", c.Key.Value, err)
		}
		cancel()
	}
}

func waitContext(e *env, w backend.Waiter) {
	c := request("k")
	before := e.acquire("Claim", c)
	ctx, cancel := context.WithTimeout(e.Context(), 200*time.Millisecond)
	defer cancel()
	told := make(chan error, 1)
	go func() { told <- e.await(ctx, w, c.Key) }()
	limit := time.NewTimer(e.patience())
	defer limit.Stop()
	select {
	case err := <-told:
		if err == nil || ctx.Err() == nil {
			e.Errorf("Await(held) = %v, want an error when its context ends", err)
		}
	case <-limit.C:
		e.Fatalf("Await still waits %v after its context ended", e.patience())
	}
	e.same("record after Await", e.get(c.Key), before)
}
