package idem

import (
	"bytes"
	"encoding/binary"

	"github.com/idem-go/idem/backend"
)

// Sealer encrypts answers before they are stored, and opens them for replays: an
// authenticated cipher (AES-GCM, say) with a key of the service's own. It is used from
// many goroutines and must not keep or change what it is given.
//
// about is what an answer belongs to: its tenant, actor, key, status and part. It is to be
// authenticated with the answer, as the additional data of a cipher.AEAD is, so that
// an answer that was moved to another record does not open. It is not stored.
type Sealer interface {
	Seal(plain, about []byte) ([]byte, error)
	Open(sealed, about []byte) ([]byte, error)
}

// WithSealer has the header and body of answers sealed before they are stored. What else
// a record has stays as it is: operation, target, payloads, results of steps ([WithCodec]
// can see to those).
//
// An answer that can't be opened, is of another record, or was stored without a sealer is
// reported as ErrSealed; its request does not run again. A sealer keeps the keys that it
// has used for as long as records are kept, and tells by what it wrote which one to
// open with. Where sealing fails in a transaction everything is rolled back
// (ErrUnavailable); under a lease the effect has happened, and the first caller gets the
// answer that retries are told was not kept.
func WithSealer(s Sealer) Option {
	return func(c *config) { c.sealer, c.seals = s, true }
}

// WithUnsealed accepts answers that were stored without a sealer. It is for the time after
// [WithSealer] came, until their retention is over: whoever can write to the store can
// make such answers.
func WithUnsealed() Option { return func(c *config) { c.unsealed = true } }

// sealMark begins the header of a sealed answer. No line of a header begins so, and a
// program without a sealer knows what it can't read.
var sealMark = []byte("\x00idem sealed 1\n")

// seal gives what is stored of an answer that has the size for it.
func (e *Executor) seal(k backend.Key, r Response) (Response, error) {
	if e.cfg.sealer == nil || r.Tombstone != "" && len(r.Header) == 0 {
		return r, nil
	}
	header, err := e.cfg.sealer.Seal(r.Header, about(k, r.Status, "header"))
	if err == nil && r.Tombstone == "" {
		r.Body, err = e.cfg.sealer.Seal(r.Body, about(k, r.Status, "body"))
	}
	if err != nil {
		return Response{}, &backend.Error{Op: "idem: seal", Kind: ErrUnavailable, Err: err}
	}
	r.Header = append(sealMark[:len(sealMark):len(sealMark)], header...)
	return r, nil
}

// keep is fit and seal for an effect that has happened, whatever becomes of its answer.
func (e *Executor) keep(k backend.Key, r Response) Response {
	sealed, err := e.seal(k, e.fit(r))
	if err != nil {
		return Response{Tombstone: backend.NotStored, Status: r.Status}
	}
	return sealed
}

// open gives the answer that was stored. own says that it did not come from the store, or
// that this program has stored it: it may be open already.
func (e *Executor) open(k backend.Key, r Response, own bool) (Response, error) {
	sealed, isSealed := bytes.CutPrefix(r.Header, sealMark)
	if !isSealed && (e.cfg.sealer == nil || e.cfg.unsealed || own) {
		return r, nil
	}
	fault := sealedError("it was stored without a sealer; WithUnsealed accepts that", nil)
	var header, body []byte
	switch {
	case !isSealed:
	case e.cfg.sealer == nil:
		fault = sealedError("it was stored with a sealer, which this program has to be given (WithSealer)", nil)
	default:
		var err error
		header, err = e.cfg.sealer.Open(sealed, about(k, r.Status, "header"))
		if err == nil && r.Tombstone == "" {
			body, err = e.cfg.sealer.Open(r.Body, about(k, r.Status, "body"))
		}
		fault = nil
		if err != nil {
			fault = sealedError("", err)
		}
	}
	if r.Tombstone != "" && fault != nil {
		header, fault = nil, nil // there is no answer anyway
	}
	if fault != nil {
		return Response{}, fault
	}
	r.Header, r.Body = header, body
	return r, nil
}

func sealedError(hint string, err error) error {
	return &backend.Error{Op: "idem: open", Kind: ErrSealed, Err: err, Hint: hint}
}

// about is what a part of an answer belongs to, unambiguously.
func about(k backend.Key, status int, part string) []byte {
	b := make([]byte, 0, 128)
	for _, s := range []string{"idem answer 1", k.Tenant, k.Actor, k.Value, part} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(s)))
		b = append(b, s...)
	}
	return binary.BigEndian.AppendUint64(b, uint64(status))
}
