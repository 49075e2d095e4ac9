package conformance

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/idem-go/idem/backend"
)

func transactCases[Tx any]() []txCase[Tx] {
	return []txCase[Tx]{
		txRule("transact/claimed", "A backend with transactions says so.", func(e *txEnv[Tx]) {
			if !e.describe().Capabilities.Transactions {
				e.Errorf("Describe: transactions = false, want true of a Transactor")
			}
		}),
		txRule("transact/commits", "Effect and completed record are committed together, and seen by nobody before.", transactCommits[Tx]),
		txRule("transact/fails", "An effect that fails is rolled back with its claim, and its error returned as it is.", transactFails[Tx]),
		txRule("transact/panics", "A panic of the effect goes on, and leaves nothing stored and nothing locked.", transactPanics[Tx]),
		txRule("transact/replay", "A completed record is returned as it stands, also to its own claim id, and the effect not run.", transactReplay[Tx]),
		txRule("transact/undo", "Undo keeps the answer and drops the effect's writes.", transactUndo[Tx]), // hard case 13
		txRule("transact/not-acquired", "Mismatch, in progress and a refused takeover leave the record as it stands and the effect not run.", transactNotAcquired[Tx]),
		txRule("transact/takeover", "A lapsed record is taken over with its recovery point; a failure leaves it as it was.", transactTakeover[Tx]),
		txRule("transact/same-id", "A claim id that holds the record already goes on with it.", transactSameID[Tx]),
		txRule("transact/at-once", "Of many transactions of one key at once one runs its effect.", transactAtOnce[Tx]),                      // field reports 6, 7, 9, 10
		txRule("transact/hidden", "A claim of a key that a transaction of the process holds is hidden after its wait.", transactHidden[Tx]), // hard case 11
		txRule("transact/bounded", "The effect's context ends no later than the lease, and its error is the effect's.", transactBounded[Tx]),
		txRule("transact/cancelled", "A context that has ended runs no effect; of one that ends in the effect the answer says what is stored.", transactCancelled[Tx]),
		txRule("transact/invalid", "A claim or a response that breaks the contract is refused, and nothing is stored.", transactInvalid[Tx]),
	}
}

func transactCommits[Tx any](e *txEnv[Tx]) {
	c, other := request("k"), e.open()
	c.Payload = []byte("payload")
	r := e.transact("Transact", c, func(ctx context.Context, tx Tx, held backend.Claimed) (backend.Effect, error) {
		r := held.Record
		if !held.Acquired || r.Status != backend.Started || r.Holder() != (backend.Lease{Key: c.Key, ClaimID: c.ID, Token: r.Token}) || r.Token <= 0 || r.LeaseLeft <= 0 {
			e.Errorf("Transact: the effect got acquired = %v, a %v record, token %d, lease %v, want a started one of this claim",
				held.Acquired, r.Status, r.Token, r.LeaseLeft)
		}
		eff, err := e.effect("k")(ctx, tx, held)
		e.unseen(other, c.Key, backend.Record{})
		return eff, err
	})
	if want := answer(1, "done").Response; !r.Response.Equal(want) || r.Attempt != 1 || len(r.Payload) != 0 || r.LeaseLeft != 0 {
		e.Errorf("Transact: response %+v, attempt %d, %d bytes of payload, lease %v, want %+v, 1, 0, 0", r.Response, r.Attempt, len(r.Payload), r.LeaseLeft, want)
	}
	e.rows("after the COMMIT", "k", 1)
}

func transactFails[Tx any](e *txEnv[Tx]) {
	for range 2 { // the second finds the key free
		_, err := e.tx.Transact(e.Context(), request("k"), func(ctx context.Context, tx Tx, held backend.Claimed) (backend.Effect, error) {
			if _, err := e.effect("k")(ctx, tx, held); err != nil {
				return backend.Effect{}, err
			}
			return backend.Effect{}, errEffect
		})
		if err != errEffect { //nolint:errorlint // the very error is promised
			e.Errorf("Transact(failing effect) = %v, want the effect's error as it is", err)
		}
		e.gone("after a failing effect", request("k").Key)
		e.rows("that failed", "k", 0)
	}
	e.transact("Transact(after a failure)", request("k"), e.effect("k"))
	e.rows("after a failure and a success", "k", 1)
}

func transactPanics[Tx any](e *txEnv[Tx]) {
	e.panics("Transact", func() {
		_, _ = e.tx.Transact(e.Context(), request("k"), func(ctx context.Context, tx Tx, held backend.Claimed) (backend.Effect, error) {
			_, _ = e.effect("k")(ctx, tx, held)
			panic(errEffect)
		})
	})
	e.gone("after a panic", request("k").Key)
	e.rows("that panicked", "k", 0)
	e.acquire("Claim(after a panic)", request("k"))
	e.transact("Transact(after a panic)", request("k2"), e.effect("k2"))
}

func transactReplay[Tx any](e *txEnv[Tx]) {
	c := request("k")
	e.transact("Transact", c, e.effect("k"))
	e.refuseTx("Transact(completed)", rival(c))
	e.refuseTx("Transact(completed, same claim id)", c)
	e.rows("after two replays", "k", 1)
	done := request("leased")
	e.completed(done)
	e.refuseTx("Transact(completed by Complete)", rival(done))
	e.refuse("Claim(completed by Transact)", rival(c))
}

func transactUndo[Tx any](e *txEnv[Tx]) {
	refusal := backend.Response{Status: 422, Body: []byte("no")}
	r := e.transact("Transact(undo)", request("k"), func(ctx context.Context, tx Tx, held backend.Claimed) (backend.Effect, error) {
		_, err := e.effect("k")(ctx, tx, held)
		return backend.Effect{Response: refusal, Undo: true}, err
	})
	if !r.Response.Equal(refusal) {
		e.Errorf("Transact(undo): response = %+v, want %+v", r.Response, refusal)
	}
	e.rows("that was undone", "k", 0)
	e.refuseTx("Transact(after an undo)", request("k"))
}

func transactNotAcquired[Tx any](e *txEnv[Tx]) {
	h := hasty("lapsed")
	e.acquire("Claim", h)
	e.acquire("Claim", request("running"))
	e.completed(request("completed"))
	e.lapse(h)
	for _, key := range []string{"running", "lapsed", "completed"} {
		n := request(key)
		n.Target.Path = "/other"
		e.refuseTx("Transact(other path, "+key+")", n)
		n = request(key)
		n.Fingerprints = []backend.Fingerprint{fingerprint("v1", "altered")}
		e.refuseTx("Transact(other content, "+key+")", n)
	}
	if r := e.refuseTx("Transact(in progress)", request("running")); r.LeaseLeft <= 0 {
		e.Errorf("Transact(in progress): rest of the lease = %v, want more than 0", r.LeaseLeft)
	}
	n := request("lapsed")
	n.RefuseTakeover = true
	e.refuseTx("Transact(lapsed, RefuseTakeover)", n)
}

func transactTakeover[Tx any](e *txEnv[Tx]) {
	c := hasty("k")
	first := e.acquire("Claim", c)
	e.ok("Checkpoint", e.checkpoint(first.Holder(), point(4, "charged", "state")))
	e.lapse(c)
	e.still("Transact(lapsed, failing effect)", c.Key, errEffect, func() error {
		_, err := e.tx.Transact(e.Context(), rival(c), e.failing("k", errEffect))
		return err
	})
	r := e.transact("Transact(lapsed)", rival(c), func(ctx context.Context, tx Tx, held backend.Claimed) (backend.Effect, error) {
		if r := held.Record; r.RecoveryPoint != "charged" || string(r.State) != "state" || r.Attempt != 2 || r.Token <= first.Token {
			e.Errorf("Transact(lapsed): the effect got point %q, state %q, attempt %d, token %d, want \"charged\", \"state\", 2, more than %d",
				r.RecoveryPoint, r.State, r.Attempt, r.Token, first.Token)
		}
		return e.effect("k")(ctx, tx, held)
	})
	if r.RecoveryPoint != "charged" || len(r.State) != 0 {
		e.Errorf("Transact(lapsed): completed at %q with %d bytes of state, want \"charged\", 0", r.RecoveryPoint, len(r.State))
	}
	e.rows("after a failure and a takeover", "k", 1)
	lost(e.env, "taken over by Transact", first.Holder())
}

func transactSameID[Tx any](e *txEnv[Tx]) {
	c := request("k")
	first := e.acquire("Claim", c)
	e.ok("Checkpoint", e.checkpoint(first.Holder(), point(4, "charged", "state")))
	r := e.transact("Transact(same claim id)", c, e.effect("k"))
	if r.Token != first.Token || r.Attempt != 1 {
		e.Errorf("Transact(same claim id): token %d, attempt %d, want %d, 1", r.Token, r.Attempt, first.Token)
	}
	e.rows("of the same claim id", "k", 1)
}

func transactAtOnce[Tx any](e *txEnv[Tx]) {
	const callers = 9
	handles := []TxHandle[Tx]{e.tx, e.store.Open(e), e.store.Open(e)}
	type reply struct {
		got backend.Claimed
		err error
	}
	winners := 0
	for _, r := range race(callers, func(i int) reply {
		c := request("k")
		c.Wait = 5 * time.Second
		for {
			got, err := handles[i%len(handles)].Transact(e.Context(), c, e.effect("k"))
			if !errors.Is(err, backend.ErrRetryTx) {
				return reply{got, err}
			}
		}
	}) {
		e.ok("Transact(at once)", r.err)
		switch {
		case r.got.Acquired:
			winners++
		case !r.got.Hidden && r.got.Record.Status == backend.Completed && string(r.got.Record.Response.Body) != "done":
			e.Errorf("Transact(at once): replays %q, want the winner's response", r.got.Record.Response.Body)
		}
	}
	if winners != 1 {
		e.Errorf("%d of %d transactions at once acquired the key, want 1", winners, callers)
	}
	e.rows("of many transactions", "k", 1)
}

func transactHidden[Tx any](e *txEnv[Tx]) {
	c := request("k")
	e.transact("Transact", c, func(ctx context.Context, tx Tx, held backend.Claimed) (backend.Effect, error) {
		got, err := e.b.Claim(e.Context(), rival(c))
		e.hidden("Claim(in a transaction)", got, err, c.Key)
		got, err = e.tx.Transact(e.Context(), rival(c), e.never("Transact(in a transaction)"))
		e.hidden("Transact(in a transaction)", got, err, c.Key)
		n := rival(c)
		n.Target.Path = "/other"
		got, err = e.b.Claim(e.Context(), n)
		e.hidden("Claim(in a transaction, other path)", got, err, c.Key)
		return e.effect("k")(ctx, tx, held)
	})
	e.refuse("Claim(after the transaction)", rival(c))
	e.rows("with others waiting", "k", 1)
}

func (e *env) hidden(call string, got backend.Claimed, err error, k backend.Key) {
	e.Helper()
	e.ok(call, err)
	if got.Acquired || !got.Hidden || got.Record.Key != k || got.Record.Status != 0 {
		e.Errorf("%s: acquired = %v, hidden = %v, %v record, want false, true and nothing but the key", call, got.Acquired, got.Hidden, got.Record.Status)
	}
}

func transactBounded[Tx any](e *txEnv[Tx]) {
	c := hasty("k")
	var cause error
	_, err := e.tx.Transact(e.Context(), c, func(ctx context.Context, tx Tx, held backend.Claimed) (backend.Effect, error) {
		end, ok := ctx.Deadline()
		if left := time.Until(end); !ok || left > c.Lease {
			e.Errorf("Transact: the effect's context ends in %v (has an end: %v), want within the lease of %v", left, ok, c.Lease)
			cause = errEffect
			return backend.Effect{}, cause
		}
		_, _ = e.effect("k")(ctx, tx, held) // may be too slow for the bound
		<-ctx.Done()
		cause = context.Cause(ctx)
		return backend.Effect{}, cause
	})
	if err == nil || !errors.Is(err, cause) {
		e.Errorf("Transact(effect over its bound) = %v, want the cause of its context, %v", err, cause)
	}
	e.rows("over its bound", "k", 0)
	e.transact("Transact(after an effect over its bound)", request("k"), e.effect("k"))
}

func transactCancelled[Tx any](e *txEnv[Tx]) {
	ctx, cancel := context.WithCancel(e.Context())
	defer cancel()
	_, err := e.tx.Transact(ctx, request("k"), func(ctx context.Context, tx Tx, held backend.Claimed) (backend.Effect, error) {
		eff, err := e.effect("k")(ctx, tx, held)
		cancel()
		<-ctx.Done()
		return eff, err
	})
	switch {
	case err == nil:
		e.rows("that outlived its caller", "k", 1)
		e.refuse("Claim", request("k"))
	case backend.NotApplied(err):
		e.rows("that ended with its caller", "k", 0)
		e.gone("after an effect that ended with its caller", request("k").Key)
	default:
		e.Errorf("Transact(context ends in the effect) = %v, want nil or NotApplied: no COMMIT was under way", err)
	}
	_, err = e.tx.Transact(ctx, request("k2"), e.never("Transact(cancelled context)"))
	e.cancelled("Transact", err)
	e.gone("after a cancelled Transact", request("k2").Key)
}

func transactInvalid[Tx any](e *txEnv[Tx]) {
	bad := request("bad")
	bad.Lease = 0
	_, err := e.tx.Transact(e.Context(), bad, e.never("Transact(no lease)"))
	e.invalid("Transact(no lease)", err)
	responses := map[error]backend.Response{
		backend.ErrInvalid: {Tombstone: backend.Tombstone(strings.Repeat("x", 256))},
	}
	if limit := e.describe().Capabilities.MaxValue; limit > 0 && limit <= 64<<20 {
		responses[backend.ErrTooLarge] = backend.Response{Body: make([]byte, limit+1)}
	}
	for want, r := range responses {
		_, err := e.tx.Transact(e.Context(), request("k"), func(ctx context.Context, tx Tx, held backend.Claimed) (backend.Effect, error) {
			_, err := e.effect("k")(ctx, tx, held)
			return backend.Effect{Response: r}, err
		})
		if !errors.Is(err, want) {
			e.Errorf("Transact(bad response) = %v, want %v", err, want)
		}
		e.gone("after a bad response", request("k").Key)
		e.rows("with a bad response", "k", 0)
	}
}
