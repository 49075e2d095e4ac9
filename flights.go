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

// flight is one call that leads, and those that wait for it.
type flight struct {
	claim   backend.Claim
	once    sync.Once
	running chan struct{} // closed when the leader has the key and its effect begins
	landed  chan struct{} // closed when the leader is through

	// Set before landed is closed: the completed record if the leader learned it,
	// or an error its duplicates share: unknown, or in progress in another process.
	// Neither: ask the store.
	record *backend.Record
	err    error
}

// join makes the caller the leader of its key, or returns the flight that leads.
func (f *flights) join(c backend.Claim) (fl *flight, leads bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl, ok := f.m[c.Key]; ok {
		return fl, false
	}
	if f.m == nil {
		f.m = make(map[backend.Key]*flight)
	}
	fl = &flight{claim: c, running: make(chan struct{}), landed: make(chan struct{})}
	f.m[c.Key] = fl
	return fl, true
}

// run tells those that wait that the effect begins. Until then they wait for the
// leader's claim as they would for one of their own.
func (fl *flight) run() { fl.once.Do(func() { close(fl.running) }) }

// land wakes those that wait. Only the first call counts: a leader that lost its
// lease lands at once, although its effect still runs.
func (f *flights) land(fl *flight, record *backend.Record, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.m[fl.claim.Key] != fl {
		return
	}
	delete(f.m, fl.claim.Key)
	fl.record, fl.err = record, err
	close(fl.landed)
}

// compare says in what a duplicate differs from the request in flight.
func (fl *flight) compare(c backend.Claim) backend.Part {
	return c.Compare(backend.Record{Target: fl.claim.Target, Fingerprint: fl.claim.Fingerprints[0]})
}
