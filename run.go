package idem

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/idem-go/idem/backend"
)

// Run is what an effect under a lease knows of itself.
type Run struct {
	e         *Executor
	claim     *backend.Claim
	beat      *beat
	lease     backend.Lease
	operation string // as the record's first run was called
	attempt   int
	seq       atomic.Int64
	stored    atomic.Pointer[Response]
	final     bool // stored is the answer, not a tombstone
	stays     bool // the record, if the run fails: it is somebody else's request
	steps     steps
}

// Token is the fencing token: it grows with every run of the key. Give it to
// stores that can refuse a smaller one than they have seen.
func (r *Run) Token() int64 { return int64(r.lease.Token) }

// Attempt says which try of the request this is, from 1.
func (r *Run) Attempt() int { return r.attempt }

// Version is the version of the code that began the record, as it was given to
// [WithPhases]: code that changed its steps can go on with older records as they
// were begun.
func (r *Run) Version() string {
	r.steps.mu.Lock()
	defer r.steps.mu.Unlock()
	if v := r.steps.journal.Version; v != "" {
		return v
	}
	return r.e.cfg.version()
}

// Stream completes the record before the effect ends, with a tombstone that keeps
// the status and header of answer. It is for answers that leave while they are
// made: whatever happens after it, the request never runs again, and its retries
// get a TombstoneError. An error means that nothing may leave.
func (r *Run) Stream(ctx context.Context, answer Response) error {
	answer.Tombstone, answer.Body = backend.Streamed, nil
	if err := r.finished(); err != nil {
		return err
	}
	now := time.Now()
	stored, err := r.e.complete(ctx, r, r.e.keep(r.claim.Key, answer), now, now)
	if err != nil {
		return err
	}
	r.stored.Store(&stored)
	return nil
}

// Answer is what the run has stored as the answer of its request already, by
// [CompleteTx] or Stream, if anything. Whoever answers the caller must not say
// anything else.
func (r *Run) Answer() (Response, bool) {
	if stored := r.stored.Load(); stored != nil {
		resp, err := r.e.open(r.claim.Key, *stored, true)
		if err != nil {
			return Response{Tombstone: backend.NotStored, Status: stored.Status}, true
		}
		return resp, true
	}
	return Response{}, false
}

func (r *Run) next() backend.Sequence { return backend.Sequence(r.seq.Add(1)) }

func (r *Run) completion(resp Response) backend.Completion {
	return backend.Completion{Sequence: r.next(), Response: resp}
}
