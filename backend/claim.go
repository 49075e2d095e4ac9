package backend

import "time"

// Claim asks for the right to run a request.
type Claim struct {
	Key       Key
	ID        ClaimID
	Operation string
	Target    Target

	// Fingerprints of this request in every version the caller can compute, the
	// newest first. The first is stored; a record is compared with the one that
	// has its version.
	Fingerprints []Fingerprint

	Lease     time.Duration // how long the claim holds without a renewal
	Retention time.Duration // how long the completed record is kept
	// Remember is how long after its retention a completed record is remembered without
	// its answer. A claim in that time is not acquired and finds the tombstone Expired.
	// 0: the key is free when the retention is over.
	// A store that can't remember refuses what is above 0 with ErrInvalid.
	Remember time.Duration
	Abandon  time.Duration // how long a started record is kept after its last activity

	// Wait bounds the time this call may wait for a transaction that holds the key
	// and has not committed. Adapters round it up to what their store needs to see
	// through an ordinary commit.
	Wait time.Duration

	// RefuseTakeover leaves a lapsed record that has no recovery point as it is,
	// and not acquired.
	RefuseTakeover bool

	// Revive takes over an abandoned record, too, with its recovery point and state: on
	// behalf of a person who found out what became of it.
	Revive bool

	// Payload is stored with a new record for whoever finishes it later. May be nil.
	Payload []byte
}

// Part names what differs between a request and the record of its key.
type Part string

// The parts that are compared. Same means that nothing differs, Unknown that the
// record's fingerprint has a version the claim carries none of.
const (
	Same    Part = ""
	Method  Part = "method"
	Path    Part = "path"
	Content Part = "content"
	Unknown Part = "unknown fingerprint version"
)

// Compare says in what the claim's request differs from the record's.
func (c Claim) Compare(r Record) Part {
	switch {
	case c.Target.Method != r.Target.Method:
		return Method
	case c.Target.Path != r.Target.Path:
		return Path
	}
	for _, f := range c.Fingerprints {
		if f.Version != r.Fingerprint.Version {
			continue
		}
		if f.Sum != r.Fingerprint.Sum {
			return Content
		}
		return Same
	}
	return Unknown
}

// Claimed is the answer to a claim: either the key is acquired, or here is the
// record as it stands.
type Claimed struct {
	Acquired bool

	// Hidden: a transaction that has not committed holds the key, so that there is
	// no record to show. Only the key of Record is set.
	Hidden bool

	// Record after the claim. Record.LeaseLeft counts from the store's answer.
	Record Record
}

// Lease is what a holder shows with every write.
type Lease struct {
	Key     Key
	ClaimID ClaimID
	Token   Token
}

// Checkpoint is a recovery point and the state to resume from.
type Checkpoint struct {
	Sequence Sequence
	Point    string // at most 255 bytes, not empty
	State    []byte
}

// Completion is the end of a run.
type Completion struct {
	Sequence Sequence
	Response Response
}

// Effect is what the effect of a Transact leaves behind: the response to store
// and whether the effect's own writes are to be undone.
type Effect struct {
	Response Response
	Undo     bool
}

// Step is what a step of InLease leaves behind: a recovery point, or with
// Response set the completion.
type Step struct {
	Point    string
	State    []byte
	Response *Response
	Undo     bool // undo the step's own writes; only together with Response
}
