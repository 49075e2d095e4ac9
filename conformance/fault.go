package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/idem-go/idem/backend"
)

var faultCases = []testCase{
	needing([]Power{PowerRestart}, "fault/kill", "A kill of the server among many writes loses none that was acknowledged, lets no key complete twice and leaves every key usable after its lease.", faultKill),
	needing([]Power{PowerPause}, "fault/pause", "Calls to a server that stands still end with their context, and none that is not applied arrives later.", func(e *env) { e.outage(e.Pause, 400*time.Millisecond) }),
	needing([]Power{PowerPartition}, "fault/partition", "Calls to a server that is cut off end with their context, and none that is not applied has arrived.", func(e *env) { e.outage(e.Partition, 400*time.Millisecond) }),
}

// stage is how far a run has come.
type stage int

const (
	noRecord stage = iota
	atClaim
	atCheckpoint
	atCompletion
)

func stageOf(r backend.Record, is bool) stage {
	switch {
	case !is:
		return noRecord
	case r.Status == backend.Completed:
		return atCompletion
	case r.RecoveryPoint != "":
		return atCheckpoint
	}
	return atClaim
}

// inFlight is a run that a kill may have met.
type inFlight struct {
	claim backend.Claim
	lease backend.Lease
	last  stage // where its client leaves it
	acked stage // acknowledged
	tried stage // sent
}

// run makes the calls of a life until one fails.
func (f *inFlight) run(ctx context.Context, b backend.Backend) error {
	f.tried = atClaim
	got, err := b.Claim(ctx, f.claim)
	if err != nil {
		return err
	}
	f.lease = got.Record.Holder()
	for _, next := range []struct {
		stage stage
		do    func() error
	}{
		{atCheckpoint, func() error { return b.Checkpoint(ctx, f.lease, point(1, "p", f.claim.Key.Value)) }},
		{atCompletion, func() error { return b.Complete(ctx, f.lease, answer(2, f.claim.Key.Value)) }},
	} {
		f.acked = f.tried
		if f.acked == f.last {
			return nil
		}
		f.tried = next.stage
		if err := next.do(); err != nil {
			return err
		}
	}
	f.acked = atCompletion
	return nil
}

const (
	killed  = 2  // times
	workers = 24 // that have a call in flight when it happens
	ends    = 3  // runs of a worker before it: one that ends at each stage
)

func faultKill(e *env) {
	if !e.describe().Capabilities.DurableKill {
		e.Skipf("the backend claims nothing for a kill")
	}
	seed := e.seed()
	for round := range killed {
		for i, f := range e.killAmong(round, rand.New(rand.NewPCG(seed, uint64(round)))) {
			e.afterKill(f, i%3 == 0)
		}
	}
	e.tried("%d kills with %d keys in flight", killed, workers)
}

// killAmong kills the server while all workers go from key to key, and returns
// the runs that it may have met and some before. How many runs a worker makes
// before, and where they end, is random.
func (e *env) killAmong(round int, random *rand.Rand) []inFlight {
	e.Helper()
	var before, first [workers]int
	for w := range workers {
		before[w], first[w] = ends+random.IntN(ends), random.IntN(ends)
	}
	handles := []backend.Backend{e.b, e.open(), e.open()}
	var warming sync.WaitGroup
	warming.Add(workers)
	busy, kill := make(chan struct{}), make(chan struct{})
	go func() {
		warming.Wait()
		close(busy)
	}()
	met := make(chan [][]inFlight, 1)
	go func() {
		met <- race(workers, func(w int) (last []inFlight) {
			warm := sync.OnceFunc(warming.Done)
			defer warm()
			for n, more := 0, 5; more > 0; n++ {
				f := inFlight{claim: hasty(fmt.Sprintf("key-%d-%d-%d", round, w, n)), last: atClaim + stage((first[w]+n)%ends)}
				err := f.run(e.Context(), handles[w%len(handles)])
				select {
				case <-kill:
					more--
				default:
					last = last[max(0, len(last)-ends+1):]
				}
				last = append(last, f)
				if n+1 == before[w] {
					warm()
				}
				if err != nil {
					return last
				}
			}
			return last
		})
	}()
	select {
	case <-busy:
	case <-e.Context().Done():
		e.Errorf("the workers made fewer than %d runs each in the time of the case", ends)
	}
	close(kill)
	e.Restart(e.T)
	return slices.Concat(<-met...)
}

// afterKill looks what is left of a run, lets somebody end it and sees that
// nobody else can.
func (e *env) afterKill(f inFlight, returns bool) {
	e.Helper()
	r, is := e.insist(f.claim.Key)
	if got := stageOf(r, is); got < f.acked || got > f.tried {
		e.Errorf("after a kill a record is at stage %d, want from %d (acknowledged) to %d (sent)", got, f.acked, f.tried)
		return
	}
	body := f.claim.Key.Value
	switch {
	case returns: // the client comes back with what it was doing
		got := e.persistClaim(f.claim)
		if r := got.Record; !got.Acquired && r.Status != backend.Completed || r.ClaimID != f.claim.ID {
			e.Errorf("Claim(after a kill, same id): acquired = %v, a %v record, want its own", got.Acquired, r.Status)
			return
		}
		e.ok("Complete(after a kill)", e.persist(func(ctx context.Context) error { return e.b.Complete(ctx, got.Record.Holder(), answer(2, body)) }))
	case r.Status != backend.Completed: // it doesn't, and somebody else goes on
		n, old := rival(f.claim), body
		body = "rival's"
		var got backend.Claimed
		e.advance(f.claim.Lease)
		e.until("the key is usable after its lease", func() bool {
			got = e.persistClaim(n)
			return got.Acquired
		})
		e.ok("Complete(after a kill, rival)", e.persist(func(ctx context.Context) error { return e.b.Complete(ctx, got.Record.Holder(), answer(2, body)) }))
		if f.lease.Token == 0 {
			break
		}
		if err := e.persist(func(ctx context.Context) error { return e.b.Complete(ctx, f.lease, answer(2, old)) }); !errors.Is(err, backend.ErrLeaseLost) {
			e.Errorf("Complete(after a kill, taken over) = %v, want ErrLeaseLost", err)
		}
	}
	if got := e.persistClaim(rival(f.claim)); got.Acquired || string(got.Record.Response.Body) != body {
		e.Errorf("Claim(after a kill, completed): acquired = %v, want a replay of the one completion", got.Acquired)
	}
}

// persist makes a call until it has an answer: after a fault a handle has to learn
// first that its connections are gone.
func (e *env) persist(do func(ctx context.Context) error) error {
	e.Helper()
	var err error
	e.until("the store answers", func() bool {
		ctx, cancel := context.WithTimeout(e.Context(), 2*time.Second)
		defer cancel()
		err = do(ctx)
		return err == nil || backend.NotApplied(err) && !errors.Is(err, backend.ErrUnavailable)
	})
	return err
}

func (e *env) persistClaim(c backend.Claim) (got backend.Claimed) {
	e.Helper()
	e.ok("Claim", e.persist(func(ctx context.Context) (err error) {
		got, err = e.b.Claim(ctx, c)
		return err
	}))
	return got
}

// insist is find that persists.
func (e *env) insist(k backend.Key) (r backend.Record, is bool) {
	e.Helper()
	err := e.persist(func(ctx context.Context) (err error) {
		r, err = e.b.Get(ctx, k)
		return err
	})
	if errors.Is(err, backend.ErrNotFound) {
		return r, false
	}
	e.ok("Get", err)
	return r, true
}
