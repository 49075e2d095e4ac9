package idem

import (
	"context"
	"time"

	"github.com/idem-go/idem/backend"
)

// read is decide for what the store has answered: it opens the answer of the record, after
// the request was compared with it.
func (e *Executor) read(c backend.Claim, got *backend.Claimed, own bool) error {
	if r := &got.Record; !got.Hidden && r.Status == backend.Completed && c.Compare(*r) == backend.Same {
		resp, err := e.open(c.Key, r.Response, own)
		if err != nil {
			return err
		}
		r.Response = resp
	}
	return e.decide(c, *got)
}

// decide says what it means for a caller that its claim was not acquired. nil
// means that the record has the answer. The order is the promise: another request
// is found out before anything about the record is told.
func (e *Executor) decide(c backend.Claim, got backend.Claimed) error {
	r := got.Record
	if got.Hidden {
		return &InProgressError{RetryAfter: min(c.Lease, e.cfg.retryAfter)}
	}
	switch part := c.Compare(r); part {
	case backend.Same:
	case backend.Unknown:
		return unknownVersion(r.Fingerprint)
	default:
		return &MismatchError{Part: part}
	}
	switch {
	case r.Status == backend.Completed && r.Response.Tombstone == backend.Abandoned:
		return ErrNeedsResolution
	case r.Status == backend.Completed && r.Response.Tombstone != "":
		return &TombstoneError{Response: r.Response}
	case r.Status == backend.Completed:
		return nil
	case c.RefuseTakeover && r.RecoveryPoint == "" && r.LeaseLeft <= 0:
		return ErrNeedsResolution
	}
	return &InProgressError{RetryAfter: min(max(r.LeaseLeft, backend.MinDuration), e.cfg.retryAfter)}
}

func unknownVersion(f backend.Fingerprint) error {
	return &backend.Error{
		Op: "idem: claim", Kind: ErrUnavailable,
		Hint: "the record's fingerprint has version " + f.Version + ", which this program can't compute; accept it with WithFingerprinter",
	}
}

// event tells the observer what a call that was not acquired ended with.
func (e *Executor) event(ctx context.Context, kind EventKind, c backend.Claim, attempt int, began time.Time) {
	e.cfg.observe(ctx, Event{Kind: kind, Operation: c.Operation, Attempt: attempt, Elapsed: time.Since(began)})
}

func began(attempt int) EventKind {
	if attempt > 1 {
		return Resumed
	}
	return Acquired
}
