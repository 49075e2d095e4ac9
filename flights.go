package idem

import (
	"sync"

	"github.com/idem-go/idem/backend"
)

// flights are the calls of this process by key. Duplicates of a running request
// are compared with it and wait for it here, in memory: a mismatch never waits,
// and waiting holds no connection that the owner needs.
type flights struct {
	mu sync.Mutex
	m  map[backend.Key]*flight
}

// flight is one call that leads, and those that wait for it. Its fields belong to
// flights.mu until landed is closed.
type flight struct {
	claim backend.Claim
	runs  bool // the leader has the key and its effect began

	// For those that wait, made by the first of them.
	running chan struct{} // closed when runs is set
	landed  chan struct{} // closed when the leader is through

	// Set before landed is closed: the completed record if the leader learned it,
	// or an error its duplicates share: unknown, or in progress in another process.
	// Neither: ask the store.
	record *backend.Record
	err    error
}

// join makes the call with this flight the leader of its key, or returns the flight
// that leads, to wait for.
func (f *flights) join(own *flight) (fl *flight, leads bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fl, ok := f.m[own.claim.Key]
	if !ok {
		if f.m == nil {
			f.m = make(map[backend.Key]*flight)
		}
		f.m[own.claim.Key] = own
		return own, true
	}
	if fl.landed == nil {
		fl.running, fl.landed = make(chan struct{}), make(chan struct{})
		if fl.runs {
			close(fl.running)
		}
	}
	return fl, false
}

// run tells those that wait that the effect begins. Until then they wait for the
// leader's claim as they would for one of their own.
func (f *flights) run(fl *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !fl.runs && fl.running != nil {
		close(fl.running)
	}
	fl.runs = true
}

// land wakes those that wait. Only the first call counts: a leader that lost its
// lease lands at once, although its effect still runs.
func (f *flights) land(fl *flight, record backend.Record, err error) {
	if !f.remove(fl) || fl.landed == nil {
		return
	}
	// Nobody joins any more, and those that wait don't look yet.
	if record.Status == backend.Completed {
		// The leader's caller owns the bytes of its answer, and may use them for
		// another one before all duplicates have read theirs.
		fl.record = new(record.Clone())
	}
	fl.err = err
	close(fl.landed)
}

func (f *flights) remove(fl *flight) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.m[fl.claim.Key] != fl {
		return false
	}
	delete(f.m, fl.claim.Key)
	return true
}

// compare says in what a duplicate differs from the request in flight.
func (fl *flight) compare(c backend.Claim) backend.Part {
	return c.Compare(backend.Record{Target: fl.claim.Target, Fingerprint: fl.claim.Fingerprints[0]})
}
