package backend

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limits that hold for every backend, in bytes.
const (
	MaxKeyPart   = 255  // tenant, actor, key, operation and recovery point
	MaxMethod    = 32   // Target.Method
	MaxPath      = 8192 // Target.Path
	MaxVersion   = 64   // Fingerprint.Version
	MaxVersions  = 8    // len(Claim.Fingerprints)
	MaxPayload   = 1 << 20
	MaxStatus    = 1<<31 - 1 // Response.Status, a number and not bytes
	MinDuration  = time.Millisecond
	MaxDuration  = 10 * 366 * 24 * time.Hour
	MaxSweepRows = 100_000
)

func invalid(format string, args ...any) error {
	return &Error{Op: "idem", Kind: ErrInvalid, Hint: fmt.Sprintf(format, args...)}
}

func text(name, s string, limit int, empty bool) error {
	switch {
	case s == "" && !empty:
		return invalid("%s is empty", name)
	case len(s) > limit:
		return invalid("%s has %d bytes, the limit is %d", name, len(s), limit)
	case !utf8.ValidString(s):
		return invalid("%s is not valid UTF-8", name)
	case strings.ContainsFunc(s, unicode.IsControl):
		return invalid("%s contains a control character", name)
	}
	return nil
}

// Validate reports whether the key can be stored anywhere: every part 1 to 255
// bytes of UTF-8 without control characters. A policy for keys that clients may
// choose is the core's.
func (k Key) Validate() error {
	if err := text("tenant", k.Tenant, MaxKeyPart, false); err != nil {
		return err
	}
	if err := text("actor", k.Actor, MaxKeyPart, false); err != nil {
		return err
	}
	return text("key", k.Value, MaxKeyPart, false)
}

func duration(name string, d time.Duration) error {
	if d < MinDuration || d > MaxDuration {
		return invalid("%s is %v, it must be between %v and %v", name, d, MinDuration, MaxDuration)
	}
	return nil
}

// Validate reports whether the claim keeps the contract. Adapters call it first.
func (c Claim) Validate() error {
	if err := c.Key.Validate(); err != nil {
		return err
	}
	for _, p := range []struct {
		name, s string
		limit   int
		empty   bool
	}{
		{"operation", c.Operation, MaxKeyPart, false},
		{"method", c.Target.Method, MaxMethod, true},
		{"path", c.Target.Path, MaxPath, true},
	} {
		if err := text(p.name, p.s, p.limit, p.empty); err != nil {
			return err
		}
	}
	for name, d := range map[string]time.Duration{"lease": c.Lease, "retention": c.Retention, "abandon": c.Abandon} {
		if err := duration(name, d); err != nil {
			return err
		}
	}
	switch {
	case c.ID == ClaimID{}:
		return invalid("the claim id is zero")
	case c.Remember < 0 || c.Remember > MaxDuration:
		return invalid("remember is %v, it must be between 0 and %v", c.Remember, MaxDuration)
	case c.Lease > c.Retention:
		return invalid("the lease (%v) is longer than the retention (%v)", c.Lease, c.Retention)
	case c.Abandon < c.Retention:
		return invalid("abandon (%v) is shorter than the retention (%v)", c.Abandon, c.Retention)
	case c.Wait < 0:
		return invalid("wait is negative")
	case len(c.Payload) > MaxPayload:
		return invalid("the payload has %d bytes, the limit is %d", len(c.Payload), MaxPayload)
	case len(c.Fingerprints) == 0 || len(c.Fingerprints) > MaxVersions:
		return invalid("the claim carries %d fingerprints, it needs 1 to %d", len(c.Fingerprints), MaxVersions)
	}
	for _, f := range c.Fingerprints {
		if err := text("fingerprint version", f.Version, MaxVersion, false); err != nil {
			return err
		}
	}
	return nil
}

// Validate reports whether the lease names a claim at all.
func (l Lease) Validate() error {
	if l.ClaimID == (ClaimID{}) {
		return invalid("the claim id is zero")
	}
	return l.Key.Validate()
}

// ValidateRenewal reports whether the lease can be renewed to ttl.
func (l Lease) ValidateRenewal(ttl time.Duration) error {
	if err := l.Validate(); err != nil {
		return err
	}
	return duration("lease", ttl)
}

// ValidateSweep reports whether a sweep may take limit rows at once.
func ValidateSweep(limit int) error {
	if limit < 1 || limit > MaxSweepRows {
		return invalid("sweep of %d rows, it must be 1 to %d", limit, MaxSweepRows)
	}
	return nil
}

// Validate reports whether the lease's holder can store the checkpoint, where
// values of at most limit bytes can be stored (0: no limit).
func (c Checkpoint) Validate(l Lease, limit int64) error {
	if err := l.Validate(); err != nil {
		return err
	}
	if c.Sequence < 1 {
		return invalid("sequence %d, the first is 1", c.Sequence)
	}
	if limit > 0 && int64(len(c.State)) > limit {
		return &Error{Op: "idem", Kind: ErrTooLarge, Hint: fmt.Sprintf("the state has %d bytes, the limit is %d", len(c.State), limit)}
	}
	return text("recovery point", c.Point, MaxKeyPart, false)
}

// Validate reports whether the lease's holder can store the completion, where
// values of at most limit bytes can be stored (0: no limit).
func (c Completion) Validate(l Lease, limit int64) error {
	if err := l.Validate(); err != nil {
		return err
	}
	if c.Sequence < 1 {
		return invalid("sequence %d, the first is 1", c.Sequence)
	}
	if c.Response.Status < 0 || c.Response.Status > MaxStatus {
		return invalid("status %d, it must be 0 to %d", c.Response.Status, MaxStatus)
	}
	if limit > 0 && int64(c.Response.Size()) > limit {
		return &Error{Op: "idem", Kind: ErrTooLarge, Hint: fmt.Sprintf("the response has %d bytes, the limit is %d", c.Response.Size(), limit)}
	}
	return text("tombstone", string(c.Response.Tombstone), MaxKeyPart, true)
}
