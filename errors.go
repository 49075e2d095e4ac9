package idem

import (
	"errors"
	"fmt"
	"time"

	"github.com/idem-go/idem/backend"
)

// What a call can report. Test with errors.Is; the driver's error stays
// reachable with errors.As. No error carries a key, a scope or a body.
var (
	// ErrInProgress: another run of this request holds the key. Retry with the same
	// key. Its type is *InProgressError.
	ErrInProgress = errors.New("idem: a request with this key is in progress")
	// ErrMismatch: the key belongs to another request. Never retry. Its type is
	// *MismatchError.
	ErrMismatch = errors.New("idem: the key was used for another request")
	// ErrTombstone: the request was completed, but its answer was not kept, or not for
	// so long. It does not run again. Its type is *TombstoneError.
	ErrTombstone = errors.New("idem: completed, the answer was not kept")
	// ErrUnknownOutcome: the effect may have happened and the store can't tell yet.
	// Retry with the same key.
	ErrUnknownOutcome = errors.New("unknown outcome")
	// ErrNeedsResolution: what a run did is unknown and no retry can find out. A
	// person has to look and record the outcome.
	ErrNeedsResolution = errors.New("idem: the outcome has to be resolved by a person")
	// ErrSealed: the request was completed and does not run again, but its answer can't be
	// opened here (WithSealer).
	ErrSealed = errors.New("idem: completed, the stored answer can't be opened")
	// ErrRecoveryPoint: the record has recovery points that this code can't resume
	// from. The effect did not run.
	ErrRecoveryPoint = errors.New("idem: the record has a recovery point that this call does not know")
	// ErrFindings: the server breaks a promise. Its type is *FindingsError.
	ErrFindings = errors.New("idem: the backend is not safe as it is configured")

	ErrLeaseLost   = backend.ErrLeaseLost   // another claim holds the record; the answer of this run is void
	ErrConflict    = backend.ErrConflict    // this claim already stored another answer
	ErrInvalid     = backend.ErrInvalid     // the call can't succeed as it is
	ErrTooLarge    = backend.ErrTooLarge    // the value exceeds what the store takes
	ErrNotFound    = backend.ErrNotFound    // there is no such record
	ErrUnavailable = backend.ErrUnavailable // the store can't be asked; surely nothing was done
	ErrRetryTx     = backend.ErrRetryTx     // the caller's transaction must be run again as a whole
)

// InProgressError says how long to wait before the next try.
type InProgressError struct {
	// RetryAfter is what is left of the holder's lease, at most the ceiling of
	// WithRetryAfter: most runs end long before their lease.
	RetryAfter time.Duration
}

func (e *InProgressError) Error() string {
	return fmt.Sprintf("%v; retry with the same key in %v", ErrInProgress, e.RetryAfter)
}

// Is matches ErrInProgress.
func (e *InProgressError) Is(target error) bool { return target == ErrInProgress }

// MismatchError says in what the request differs from the one that the key
// belongs to, never how.
type MismatchError struct {
	Part backend.Part
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("%v (its %s differs); use a new key for a new request", ErrMismatch, e.Part)
}

// Is matches ErrMismatch.
func (e *MismatchError) Is(target error) bool { return target == ErrMismatch }

// TombstoneError says why a completed request has no answer to replay.
type TombstoneError struct {
	// Response has the reason, and of the answer what was small enough to keep: its
	// status and header. Of a result that expired only the status is left.
	Response Response
}

func (e *TombstoneError) Error() string {
	if e.Response.Tombstone == backend.Expired {
		return fmt.Sprintf("%v: the result expired; it will not run again", ErrTombstone)
	}
	return fmt.Sprintf("%v (%s); it will not run again", ErrTombstone, e.Response.Tombstone)
}

// Is matches ErrTombstone.
func (e *TombstoneError) Is(target error) bool { return target == ErrTombstone }

// FindingsError lists what is unsafe about a server.
type FindingsError struct {
	Findings []backend.Finding
}

func (e *FindingsError) Error() string {
	s := ErrFindings.Error()
	for _, f := range e.Findings {
		s += fmt.Sprintf("\n%s: %s; %s", f.ID, f.Text, f.Advice)
	}
	return s
}

// Is matches ErrFindings.
func (e *FindingsError) Is(target error) bool { return target == ErrFindings }

func invalid(format string, args ...any) error {
	return &backend.Error{Op: "idem", Kind: ErrInvalid, Hint: fmt.Sprintf(format, args...)}
}

func unavailable(op string, err error) error {
	return &backend.Error{Op: "idem: " + op, Kind: ErrUnavailable, Err: err}
}

// unknown reports an outcome nobody knows. Of the cause only the driver's error
// is kept: its meaning ("surely not done") was true for one try, not for all.
func unknown(op string, cause error) error {
	var e *backend.Error
	if errors.As(cause, &e) {
		cause = e.Err
	}
	return &backend.Error{
		Op: "idem: " + op, Kind: ErrUnknownOutcome, Err: cause,
		Hint: "the effect may have happened; retry with the same key",
	}
}
