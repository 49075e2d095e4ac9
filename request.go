package idem

import (
	"crypto/rand"
	"time"

	"github.com/idem-go/idem/backend"
)

// Scope says whose key it is. Both parts are required and are part of the key's
// identity: in a service with one tenant give it a constant name.
type Scope struct {
	Tenant string
	Actor  string
}

// Request is one intent as it arrived. Texts are UTF-8 without control
// characters, compared byte by byte.
type Request struct {
	Scope Scope

	// Key as the client chose it, 8 to 255 bytes by default (WithKeyLength).
	Key string

	// Operation is the route pattern or the name of the job: a bounded set, fit for
	// a metric's label. It is not compared where there is a target, so that routes can
	// be renamed.
	Operation string

	// Method and Path are the target of an HTTP request: method, escaped path and
	// query. A key used for another target is a mismatch. Where both are empty, as for
	// jobs, the operation stands for the path: two jobs don't answer for each other.
	Method, Path string

	// Content is fingerprinted; it is not stored.
	Content Content

	// Wait is how long a duplicate of this request waits for the first run to end. Nil:
	// as WithWait says.
	Wait *time.Duration

	// Fingerprinters compare this request and its record instead of those of
	// WithFingerprinter: the current one, and then those that are accepted. Nil: the
	// executor's.
	Fingerprinters []*Fingerprinter

	// Payload is stored with the record for whoever finishes the request later, at
	// most 1 MiB. Nil for none.
	Payload []byte
}

// claim validates the request and makes the claim for it, with an id of its own.
func (e *Executor) claim(r Request) (backend.Claim, error) {
	if n := len(r.Key); n < e.cfg.minKey || n > e.cfg.maxKey {
		return backend.Claim{}, invalid("the key has %d bytes, it must have %d to %d", n, e.cfg.minKey, e.cfg.maxKey)
	}
	c := backend.Claim{
		Key:       backend.Key{Tenant: r.Scope.Tenant, Actor: r.Scope.Actor, Value: r.Key},
		Operation: r.Operation,
		Target:    backend.Target{Method: r.Method, Path: r.Path},
		Lease:     e.cfg.lease,
		Retention: e.cfg.retention,
		Remember:  e.cfg.remember,
		Abandon:   e.cfg.abandon,
		Payload:   r.Payload,

		RefuseTakeover: e.cfg.refuseTakeover(r.Operation),
	}
	if c.Target == (backend.Target{}) {
		c.Target.Path = r.Operation
	}
	_, _ = rand.Read(c.ID[:]) // never fails, see crypto/rand
	if r.Wait != nil && *r.Wait < 0 {
		return backend.Claim{}, invalid("wait is negative")
	}
	fingerprinters := r.Fingerprinters
	if len(fingerprinters) == 0 {
		fingerprinters = e.cfg.fingerprinters
	}
	c.Fingerprints = make([]backend.Fingerprint, len(fingerprinters))
	for i, f := range fingerprinters {
		if f == nil {
			return backend.Claim{}, invalid("a fingerprinter is nil")
		}
		c.Fingerprints[i] = f.Sum(r.Content)
	}
	return c, c.Validate()
}
