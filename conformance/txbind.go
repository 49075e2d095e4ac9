package conformance

import (
	"context"
	"errors"

	"github.com/idem-go/idem/backend"
)

func bindCases[Tx any]() []txCase[Tx] {
	return []txCase[Tx]{
		txRule("bind/commits", "Claim, Get, Checkpoint and Complete in a caller's transaction are true with its COMMIT, and seen by nobody before.", bindCommits[Tx]),
		txRule("bind/rolls-back", "What is done in a transaction that is rolled back was never there.", bindRollsBack[Tx]),
		txRule("bind/undo", "Undo takes back what came after the last acquired claim, and keeps the claim.", bindUndo[Tx]),
		txRule("bind/not-acquired", "A claim in a transaction shows a record that it can't have as it stands.", bindNotAcquired[Tx]),
		txRule("bind/takeover", "A claim in a transaction takes a lapsed record over with its recovery point.", bindTakeover[Tx]),
		txRule("bind/fence", "A write in a transaction by a holder that lost its lease is ErrLeaseLost.", bindFence[Tx]),
		txRule("bind/sequence", "Writes in a transaction are judged by their sequence like others.", bindSequence[Tx]),
		txRule("bind/invalid", "What breaks the contract is refused, and an ended context claims nothing.", bindInvalid[Tx]),
	}
}

// within runs f in a transaction of the case's own, which commits.
func (e *txEnv[Tx]) within(what string, f func(tx Tx, v backend.TxView)) {
	e.Helper()
	e.ok("COMMIT of "+what, e.tx.InTx(e.Context(), func(tx Tx) error {
		f(tx, e.tx.Bind(tx))
		return nil
	}))
}

// claimIn claims in a transaction a key that is to be had.
func (e *txEnv[Tx]) claimIn(v backend.TxView, c backend.Claim) backend.Record {
	e.Helper()
	got, err := v.Claim(e.Context(), c)
	e.ok("Claim(in a transaction)", err)
	if r := got.Record; !got.Acquired || got.Hidden || r.ClaimID != c.ID || r.LeaseLeft <= 0 {
		e.Fatalf("Claim(in a transaction): acquired = %v, hidden = %v, lease %v, want the key", got.Acquired, got.Hidden, r.LeaseLeft)
	}
	return got.Record
}

func (e *txEnv[Tx]) put(tx Tx, name string) {
	e.Helper()
	e.ok("Put", e.store.Put(e.Context(), tx, name))
}

func bindCommits[Tx any](e *txEnv[Tx]) {
	c, two, other := request("k"), request("two"), e.open()
	var inside, half backend.Record
	e.within("a whole run", func(tx Tx, v backend.TxView) {
		if _, err := v.Get(e.Context(), c.Key); !errors.Is(err, backend.ErrNotFound) {
			e.Errorf("Get(in a transaction, no record) = %v, want ErrNotFound", err)
		}
		l := e.claimIn(v, c).Holder()
		e.put(tx, "k")
		e.ok("Checkpoint(in a transaction)", v.Checkpoint(e.Context(), l, point(1, "p", "s")))
		r, err := v.Get(e.Context(), c.Key)
		e.ok("Get(in a transaction)", err)
		if r.RecoveryPoint != "p" || string(r.State) != "s" || r.Holder() != l {
			e.Errorf("Get(in a transaction): point %q, state %q, of the claim: %v, want \"p\", \"s\", true", r.RecoveryPoint, r.State, r.Holder() == l)
		}
		for range 2 {
			e.ok("Complete(in a transaction)", v.Complete(e.Context(), l, answer(2, "done")))
		}
		inside, err = v.Get(e.Context(), c.Key)
		e.ok("Get(in a transaction, completed)", err)
		half = e.claimIn(v, two)
		e.unseen(other, c.Key, backend.Record{})
		e.unseen(other, two.Key, backend.Record{})
	})
	e.same("Get(after COMMIT)", e.get(c.Key), inside)
	e.same("Get(after COMMIT, claimed only)", e.get(two.Key), half)
	if !inside.Response.Equal(answer(2, "done").Response) {
		e.Errorf("Get(in a transaction): response = %+v, want the one completed with", inside.Response)
	}
	e.rows("after COMMIT", "k", 1)
	e.refuse("Claim(after COMMIT)", rival(c))
	e.ok("Complete(claimed in a transaction)", e.complete(half.Holder(), answer(1, "done")))
}

func bindRollsBack[Tx any](e *txEnv[Tx]) {
	fresh, held := request("fresh"), e.acquire("Claim", request("held"))
	err := e.tx.InTx(e.Context(), func(tx Tx) error {
		v := e.tx.Bind(tx)
		l := e.claimIn(v, fresh).Holder()
		e.put(tx, "fresh")
		e.ok("Complete(in a transaction)", v.Complete(e.Context(), l, answer(1, "done")))
		e.ok("Checkpoint(in a transaction)", v.Checkpoint(e.Context(), held.Holder(), point(1, "p", "s")))
		return errEffect
	})
	if !errors.Is(err, errEffect) {
		e.Errorf("InTx(failing) = %v, want the error of its function", err)
	}
	e.gone("after ROLLBACK", fresh.Key)
	e.rows("after ROLLBACK", "fresh", 0)
	e.same("Get(after ROLLBACK)", e.get(held.Key), held)
	e.acquire("Claim(after ROLLBACK)", fresh)
}

func bindUndo[Tx any](e *txEnv[Tx]) {
	e.completed(request("replayed"))
	e.within("an undone run", func(tx Tx, v backend.TxView) {
		e.invalid("Undo(nothing claimed)", v.Undo(e.Context()))
		e.put(tx, "before")
		r := e.claimIn(v, request("k"))
		e.put(tx, "after")
		e.ok("Checkpoint(in a transaction)", v.Checkpoint(e.Context(), r.Holder(), point(1, "p", "s")))
		if got, err := v.Claim(e.Context(), request("replayed")); err != nil || got.Acquired {
			e.Errorf("Claim(in a transaction, completed): acquired = %v, %v, want a replay", got.Acquired, err)
		}
		e.ok("Undo", v.Undo(e.Context()))
		got, err := v.Get(e.Context(), r.Key)
		e.ok("Get(after Undo)", err)
		e.same("Get(after Undo)", got, r)
		e.put(tx, "answer")
		e.ok("Undo(again)", v.Undo(e.Context()))
		e.ok("Complete(after Undo)", v.Complete(e.Context(), r.Holder(), answer(1, "refused")))
	})
	e.rows("before the claim", "before", 1)
	e.rows("after the claim, undone", "after", 0)
	e.rows("after the first Undo, undone", "answer", 0)
	if r := e.get(request("k").Key); string(r.Response.Body) != "refused" {
		e.Errorf("Get(after COMMIT): %v with body %q, want completed with \"refused\"", r.Status, r.Response.Body)
	}
}

func bindNotAcquired[Tx any](e *txEnv[Tx]) {
	e.acquire("Claim", request("running"))
	e.completed(request("completed"))
	other := request("running")
	other.Target.Path = "/other"
	for call, c := range map[string]backend.Claim{
		"Claim(in a transaction, in progress)": request("running"),
		"Claim(in a transaction, completed)":   request("completed"),
		"Claim(in a transaction, mismatch)":    other,
	} {
		want := e.get(c.Key)
		e.within("a duplicate", func(_ Tx, v backend.TxView) {
			got, err := v.Claim(e.Context(), c)
			e.ok(call, err)
			if got.Acquired || got.Hidden {
				e.Errorf("%s: acquired = %v, hidden = %v, want the record as it stands", call, got.Acquired, got.Hidden)
			}
			e.same(call, got.Record, want)
		})
		e.same(call+": record after", e.get(c.Key), want)
	}
}

func bindTakeover[Tx any](e *txEnv[Tx]) {
	c := hasty("k")
	old := e.acquire("Claim", c)
	e.ok("Checkpoint", e.checkpoint(old.Holder(), point(1, "p", "s")))
	e.lapse(c)
	e.within("a takeover", func(_ Tx, v backend.TxView) {
		r := e.claimIn(v, rival(c))
		if r.RecoveryPoint != "p" || string(r.State) != "s" || r.Attempt != 2 || r.Token <= old.Token {
			e.Errorf("Claim(in a transaction, lapsed): point %q, state %q, attempt %d, token %d, want \"p\", \"s\", 2, more than %d",
				r.RecoveryPoint, r.State, r.Attempt, r.Token, old.Token)
		}
	})
	lost(e.env, "taken over in a transaction", old.Holder())
}

func bindFence[Tx any](e *txEnv[Tx]) {
	c := hasty("k")
	old := e.acquire("Claim", c).Holder()
	e.lapse(c)
	next := e.acquire("Claim(lapsed)", rival(c)).Holder()
	other, wrong := next, next
	other.ClaimID, wrong.Token = newID(), next.Token-1
	for who, l := range map[string]backend.Lease{"taken over": old, "other claim id": other, "other token": wrong, "no record": noHolder(e.env, request("none"))} {
		for call, write := range map[string]func(v backend.TxView) error{
			"Checkpoint": func(v backend.TxView) error { return v.Checkpoint(e.Context(), l, point(1, "late", "")) },
			"Complete":   func(v backend.TxView) error { return v.Complete(e.Context(), l, answer(1, "late")) },
		} {
			e.still(call+"(in a transaction, "+who+")", l.Key, backend.ErrLeaseLost, func() error {
				return e.tx.InTx(e.Context(), func(tx Tx) error { return write(e.tx.Bind(tx)) })
			})
		}
	}
}

func bindSequence[Tx any](e *txEnv[Tx]) {
	l := e.acquire("Claim", request("k")).Holder()
	e.ok("Checkpoint", e.checkpoint(l, point(2, "p", "s")))
	for call, tt := range map[string]struct {
		write func(v backend.TxView) error
		want  error
	}{
		"Checkpoint(1)":        {func(v backend.TxView) error { return v.Checkpoint(e.Context(), l, point(1, "late", "")) }, nil},
		"Checkpoint(2)":        {func(v backend.TxView) error { return v.Checkpoint(e.Context(), l, point(2, "p", "s")) }, nil},
		"Checkpoint(2, other)": {func(v backend.TxView) error { return v.Checkpoint(e.Context(), l, point(2, "q", "s")) }, backend.ErrConflict},
		"Complete(1)":          {func(v backend.TxView) error { return v.Complete(e.Context(), l, answer(1, "late")) }, nil},
		"Complete(2)":          {func(v backend.TxView) error { return v.Complete(e.Context(), l, answer(2, "late")) }, backend.ErrConflict},
	} {
		e.still(call+" (in a transaction)", l.Key, tt.want, func() error {
			return e.tx.InTx(e.Context(), func(tx Tx) error { return tt.write(e.tx.Bind(tx)) })
		})
	}
}

func bindInvalid[Tx any](e *txEnv[Tx]) {
	ctx, cancel := context.WithCancel(e.Context())
	cancel()
	l := e.acquire("Claim", request("k")).Holder()
	bad := request("bad")
	bad.Fingerprints = nil
	e.within("refused calls", func(_ Tx, v backend.TxView) {
		_, err := v.Claim(e.Context(), bad)
		e.invalid("Claim(in a transaction)", err)
		_, err = v.Get(e.Context(), backend.Key{})
		e.invalid("Get(in a transaction)", err)
		e.invalid("Checkpoint(in a transaction)", v.Checkpoint(e.Context(), l, point(0, "p", "")))
		e.invalid("Complete(in a transaction)", v.Complete(e.Context(), l, answer(0, "done")))
		_, err = v.Claim(ctx, request("fresh"))
		e.cancelled("Claim(in a transaction)", err)
	})
	e.gone("after a cancelled Claim", request("fresh").Key)
}
