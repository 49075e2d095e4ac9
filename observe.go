package idem

import (
	"time"
)

// EventKind says what happened.
type EventKind string

// The kinds of events. Every call ends with one of Replayed, InProgress,
// Mismatch, LeaseLost, Released or Unknown, or with the completion of a run that
// began with Acquired or Resumed.
const (
	Acquired   EventKind = "acquired"    // a run began on a new record
	Resumed    EventKind = "resumed"     // a run began on a record whose former run died
	Replayed   EventKind = "replayed"    // answered from the record
	InProgress EventKind = "in progress" // refused, somebody else runs it
	Mismatch   EventKind = "mismatch"    // refused, the key belongs to another request
	LeaseLost  EventKind = "lease lost"  // a run lost its record; its answer is void
	Released   EventKind = "released"    // a run failed and gave its key up
	Unknown    EventKind = "unknown"     // a run may have had its effect, not stored
	Swept      EventKind = "swept"       // records were deleted
	GivenUp    EventKind = "given up"    // a completer tries this request no more
)

// Event is one outcome. It carries nothing of a request but its operation, so
// that it can become a metric as it is.
type Event struct {
	Kind      EventKind
	Operation string // empty for Swept
	Attempt   int    // which try of the request; 0 where unknown
	Count     int    // rows, for Swept
	Elapsed   time.Duration
}
