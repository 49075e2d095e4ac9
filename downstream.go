package idem

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// Key is the downstream key of a step: what a foreign system gets as its own
// idempotency key. It is the same for every attempt of the request, and another one
// for every step, request and user. Its form is that of a UUID, 36 characters, which
// gateways take.
//
// It is the SHA-256 of six texts, each behind its length in bytes as 8 bytes,
// big-endian: "idem downstream 1", then tenant, actor, key, operation and step. The
// operation is that of the record's first run. Of the digest the first 16 bytes are
// kept, and six bits of them set to make a UUID of version 8 (RFC 9562, section 5.8).
// Who doesn't know the client's key can't guess it.
func (r *Run) Key(step string) string {
	k := r.claim.Key
	return DownstreamKey(Scope{Tenant: k.Tenant, Actor: k.Actor}, k.Value, r.operation, step)
}

// DownstreamKey is [Run.Key] of a request's step, for who has to find it at the far side.
// The operation is the one that the record names.
func DownstreamKey(scope Scope, key, operation, step string) string {
	h := sha256.New()
	for _, s := range []string{"idem downstream 1", scope.Tenant, scope.Actor, key, operation, step} {
		_ = binary.Write(h, binary.BigEndian, uint64(len(s)))
		_, _ = h.Write([]byte(s))
	}
	id := h.Sum(nil)[:16]
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	s := hex.EncodeToString(id)
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}
