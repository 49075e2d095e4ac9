package conformance

import (
	"context"
	"errors"

	"github.com/idem-go/idem/backend"
)

func inLeaseCases[Tx any]() []txCase[Tx] {
	return []txCase[Tx]{
		txRule("inlease/commits", "A step's writes and its recovery point are committed together, and seen by nobody before.", inLeaseCommits[Tx]),
		txRule("inlease/again", "A step whose sequence is stored is not run again, and the record returned as it is.", inLeaseAgain[Tx]), // hard case 21
		txRule("inlease/at-once", "A step sent several times at once runs once.", inLeaseAtOnce[Tx]),
		txRule("inlease/stale", "A holder that lost its lease gets ErrLeaseLost before the step runs.", inLeaseStale[Tx]),
		txRule("inlease/or-takeover", "Of a step and a takeover the record and the step's writes tell one story.", inLeaseOrTakeover[Tx]),
		txRule("inlease/completes", "A step with a response completes the record; Undo keeps the answer and drops the writes.", inLeaseCompletes[Tx]),
		txRule("inlease/fails", "A step that fails or panics is rolled back, leaves the record as it was and nothing locked.", inLeaseFails[Tx]),
		txRule("inlease/invalid", "What breaks the contract is refused, and nothing is stored; an ended context runs no step.", inLeaseInvalid[Tx]),
	}
}

func inLeaseCommits[Tx any](e *txEnv[Tx]) {
	want, other := e.acquire("Claim", request("k")), e.open()
	got, err := e.tx.InLease(e.Context(), want.Holder(), 1, func(ctx context.Context, tx Tx) (backend.Step, error) {
		s, err := e.step("k", backend.Step{Point: "charged", State: []byte("state")})(ctx, tx)
		e.unseen(other, want.Key, want)
		return s, err
	})
	e.ok("InLease", err)
	want.Sequence, want.RecoveryPoint, want.State, want.UpdatedAt = 1, "charged", []byte("state"), got.UpdatedAt
	e.same("InLease: record returned", got, want)
	e.same("Get(after InLease)", e.get(want.Key), want)
	e.rows("after the COMMIT", "k", 1)
	if got.LeaseLeft <= 0 {
		e.Errorf("InLease: rest of the lease = %v, want more than 0", got.LeaseLeft)
	}
}

func inLeaseAgain[Tx any](e *txEnv[Tx]) {
	l := e.acquire("Claim", request("k")).Holder()
	again := func(call string, seq backend.Sequence) {
		e.Helper()
		e.still(call, l.Key, nil, func() error {
			r, err := e.tx.InLease(e.Context(), l, seq, e.neverStep(call))
			if err == nil {
				e.same(call+": record returned", r, e.get(l.Key))
			}
			return err
		})
	}
	_, err := e.tx.InLease(e.Context(), l, 2, e.step("k", backend.Step{Point: "p", State: []byte("s")}))
	e.ok("InLease(2)", err)
	again("InLease(2, again)", 2)
	again("InLease(1, late)", 1)
	e.ok("Complete", e.complete(l, answer(3, "done")))
	again("InLease(4, completed)", 4)
	e.rows("of a step sent again", "k", 1)
}

func inLeaseAtOnce[Tx any](e *txEnv[Tx]) {
	l := e.acquire("Claim", request("k")).Holder()
	handles := []TxHandle[Tx]{e.tx, e.store.Open(e), e.store.Open(e)}
	for _, err := range race(6, func(i int) error {
		for {
			_, err := handles[i%len(handles)].InLease(e.Context(), l, 1, e.step("k", backend.Step{Point: "p"}))
			if !errors.Is(err, backend.ErrRetryTx) {
				return err
			}
		}
	}) {
		e.ok("InLease(at once)", err)
	}
	e.rows("of a step sent at once", "k", 1)
}

func inLeaseStale[Tx any](e *txEnv[Tx]) {
	refused := func(who string, l backend.Lease) {
		e.Helper()
		call := "InLease(" + who + ")"
		e.still(call, l.Key, backend.ErrLeaseLost, func() error {
			_, err := e.tx.InLease(e.Context(), l, 9, e.neverStep(call))
			return err
		})
	}
	c := hasty("k")
	old := e.acquire("Claim", c).Holder()
	e.lapse(c)
	next := e.acquire("Claim(lapsed)", rival(c)).Holder()
	refused("taken over", old)
	l := next
	l.ClaimID = newID()
	refused("other claim id", l)
	l = next
	l.Token--
	refused("other token", l)
	e.ok("Complete", e.complete(next, answer(1, "done")))
	refused("taken over and completed", old)
	refused("no record", noHolder(e.env, request("none")))
	refused("released", releasedAtPoint(e.env, request("released")))
}

func inLeaseOrTakeover[Tx any](e *txEnv[Tx]) {
	const rounds = 10
	var cs []backend.Claim
	var ls []backend.Lease
	for i := range rounds {
		cs = append(cs, hasty(string(rune('a'+i))))
		ls = append(ls, e.acquire("Claim", cs[i]).Holder())
	}
	for _, c := range cs {
		e.lapse(c)
	}
	other := e.open()
	type reply struct {
		claimed backend.Claimed
		err     error
	}
	replies := race(2*rounds, func(i int) reply {
		if i%2 == 0 {
			_, err := e.tx.InLease(e.Context(), ls[i/2], 1, e.step(cs[i/2].Key.Value, backend.Step{Point: "charged"}))
			return reply{err: err}
		}
		got, err := other.Claim(e.Context(), rival(cs[i/2]))
		return reply{got, err}
	})
	for i := range rounds {
		ran, taken := replies[2*i].err, replies[2*i+1]
		e.ok("Claim(lapsed, against a step)", taken.err)
		r := e.get(cs[i].Key)
		stored := r.RecoveryPoint == "charged"
		e.rows("of a step against a takeover", cs[i].Key.Value, map[bool]int{false: 0, true: 1}[stored])
		switch {
		case ran == nil && (!stored || taken.claimed.Acquired && taken.claimed.Record.RecoveryPoint != "charged"):
			e.Errorf("InLease = nil, but the record is at %q and was taken over at %q, want \"charged\"", r.RecoveryPoint, taken.claimed.Record.RecoveryPoint)
		case errors.Is(ran, backend.ErrLeaseLost) && (stored || !taken.claimed.Acquired):
			e.Errorf("InLease = ErrLeaseLost, but the record is at %q and taken over = %v", r.RecoveryPoint, taken.claimed.Acquired)
		case ran != nil && !errors.Is(ran, backend.ErrLeaseLost):
			e.Logf("InLease(lapsed, against a takeover) = %v", ran) // a slow machine, and a bound by the short lease
		}
	}
}

func inLeaseCompletes[Tx any](e *txEnv[Tx]) {
	for _, undo := range []bool{false, true} {
		k := map[bool]string{false: "kept", true: "undone"}[undo]
		l := e.acquire("Claim", request(k)).Holder()
		e.ok("Checkpoint", e.checkpoint(l, point(1, "p", "state")))
		want := e.get(l.Key)
		resp := answer(2, "done").Response
		got, err := e.tx.InLease(e.Context(), l, 2, e.step(k, backend.Step{Response: &resp, Undo: undo}))
		e.ok("InLease(response)", err)
		want.Status, want.Sequence, want.Response, want.State = backend.Completed, 2, resp, nil
		want.LockedUntil, want.UpdatedAt, want.CompletedAt, want.ExpiresAt = got.LockedUntil, got.UpdatedAt, got.CompletedAt, got.ExpiresAt
		e.same("InLease(response): record returned", got, want)
		e.same("Get(completed by InLease)", e.get(l.Key), want)
		e.rows(k, k, map[bool]int{false: 1, true: 0}[undo])
		e.refuse("Claim(completed by InLease)", request(k))
	}
}

func inLeaseFails[Tx any](e *txEnv[Tx]) {
	l := e.acquire("Claim", request("k")).Holder()
	e.ok("Checkpoint", e.checkpoint(l, point(1, "p", "s")))
	fails := func(ctx context.Context, tx Tx) (backend.Step, error) {
		if err := e.store.Put(ctx, tx, "k"); err != nil {
			return backend.Step{}, err
		}
		return backend.Step{Point: "q"}, errEffect
	}
	e.still("InLease(failing step)", l.Key, errEffect, func() error {
		_, err := e.tx.InLease(e.Context(), l, 2, fails)
		if err != errEffect { //nolint:errorlint // the very error is promised
			e.Errorf("InLease(failing step) = %v, want the step's error as it is", err)
		}
		return err
	})
	e.still("InLease(panicking step)", l.Key, nil, func() error {
		e.panics("InLease", func() {
			_, _ = e.tx.InLease(e.Context(), l, 2, func(ctx context.Context, tx Tx) (backend.Step, error) {
				_, err := fails(ctx, tx)
				panic(err)
			})
		})
		return nil
	})
	e.rows("of steps that failed", "k", 0)
	_, err := e.tx.InLease(e.Context(), l, 2, e.step("k", backend.Step{Point: "q"}))
	e.ok("InLease(after failures)", err)
	e.rows("of a step after failures", "k", 1)
}

func inLeaseInvalid[Tx any](e *txEnv[Tx]) {
	l := e.acquire("Claim", request("k")).Holder()
	for call, tt := range map[string]struct {
		seq  backend.Sequence
		step step[Tx]
	}{
		"InLease(sequence 0)":              {0, e.neverStep("InLease(sequence 0)")},
		"InLease(no point)":                {1, e.step("k", backend.Step{})},
		"InLease(undone without response)": {1, e.step("k", backend.Step{Point: "p", Undo: true})},
	} {
		e.still(call, l.Key, backend.ErrInvalid, func() error {
			_, err := e.tx.InLease(e.Context(), l, tt.seq, tt.step)
			return err
		})
	}
	ctx, cancel := context.WithCancel(e.Context())
	cancel()
	_, err := e.tx.InLease(ctx, l, 1, e.neverStep("InLease(cancelled context)"))
	e.cancelled("InLease", err)
	zero := l
	zero.ClaimID = backend.ClaimID{}
	_, err = e.tx.InLease(e.Context(), zero, 1, e.neverStep("InLease(zero claim id)"))
	e.invalid("InLease(zero claim id)", err)
	e.rows("of refused steps", "k", 0)
}
