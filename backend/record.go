package backend

import (
	"bytes"
	"slices"
	"time"
)

// Key is the identity of a record: the key a client chose, within the scope of
// its tenant and actor. Parts are never joined with a separator that could occur
// in them.
type Key struct {
	Tenant string
	Actor  string
	Value  string
}

// ClaimID identifies one claim of a record: 128 random bits, made before the
// first try and kept for every retry of the same call. The zero ClaimID belongs to
// nobody.
type ClaimID [16]byte

// Token is the fencing token: a number that grows with every claim of a key.
type Token int64

// Sequence numbers the writes of one claim, from 1. A claim starts at 0.
type Sequence int64

// Target is what the request was addressed to. Both parts are compared byte by
// byte.
type Target struct {
	Method string // HTTP method, empty for jobs
	Path   string // escaped path and query, or the name of the job
}

// Fingerprint is the digest of a canonical request. Digests of different
// versions can't be compared.
type Fingerprint struct {
	Version string // algorithm and options, at most 64 bytes
	Sum     [32]byte
}

// Status says how far a record is.
type Status uint8

// The zero Status is invalid.
const (
	Started   Status = 1
	Completed Status = 2
)

func (s Status) String() string {
	switch s {
	case Started:
		return "started"
	case Completed:
		return "completed"
	default:
		return "invalid"
	}
}

// Tombstone says why a completed record has no response to replay. The empty
// Tombstone means that it has one.
type Tombstone string

// Reasons of tombstones.
const (
	TooLarge  Tombstone = "too large"  // the response exceeded the limit
	Streamed  Tombstone = "streamed"   // the response was sent while it was made
	NotStored Tombstone = "not stored" // the response could not be encoded
	Abandoned Tombstone = "abandoned"  // nobody finished the run; what it did is unknown
	Expired   Tombstone = "expired"    // the retention is over and with it the response, or another tombstone
)

// Response is what a completed record replays. Backends store its parts exactly
// and look into none of them.
type Response struct {
	Tombstone Tombstone
	Status    int
	Header    []byte
	Body      []byte
}

// Equal reports whether two responses are the same, byte by byte. A nil slice
// equals an empty one.
func (r Response) Equal(o Response) bool {
	return r.Tombstone == o.Tombstone && r.Status == o.Status &&
		bytes.Equal(r.Header, o.Header) && bytes.Equal(r.Body, o.Body)
}

// Size is the number of bytes that count against Capabilities.MaxValue.
func (r Response) Size() int { return len(r.Header) + len(r.Body) }

// Record is what a backend stores per key. The times are the store's and for
// people: no caller compares them with a clock of its own.
type Record struct {
	Key         Key
	Operation   string // a label, never compared
	Target      Target
	Fingerprint Fingerprint
	Status      Status

	ClaimID  ClaimID // zero after a release
	Token    Token
	Sequence Sequence
	Attempt  int // tries since the record exists, from 1

	RecoveryPoint string
	State         []byte
	Payload       []byte
	Response      Response

	Lease     time.Duration // granted by the last claim
	Retention time.Duration // from the completion on
	Remember  time.Duration // from the end of the retention on
	Abandon   time.Duration // from the last activity of a started record on

	LockedUntil time.Time
	CreatedAt   time.Time
	UpdatedAt   time.Time
	CompletedAt time.Time
	ExpiresAt   time.Time // when a sweep looks at the record; zero: never

	// LeaseLeft is what was left of the lease when the store answered, 0 if it
	// lapsed or the record is completed. Not stored.
	LeaseLeft time.Duration
}

// Clone returns a copy that shares no bytes with r.
func (r Record) Clone() Record {
	r.State = slices.Clone(r.State)
	r.Payload = slices.Clone(r.Payload)
	r.Response.Header = slices.Clone(r.Response.Header)
	r.Response.Body = slices.Clone(r.Response.Body)
	return r
}

// Holder returns the lease that the record's present claim holds.
func (r Record) Holder() Lease { return Lease{Key: r.Key, ClaimID: r.ClaimID, Token: r.Token} }
