package idem

import "time"

// Policy is what an executor demands of requests and promises to them, as it was
// configured: what its service publishes to those who retry.
type Policy struct {
	MinKey, MaxKey int // bytes

	Lease      time.Duration // how long a run that died keeps its key at most
	Retention  time.Duration // how long a completed record answers retries
	Remember   time.Duration // how long it is known after that that a request was carried out
	RetryAfter time.Duration // the longest wait that is asked of a duplicate
	Wait       time.Duration // how long Do lets a duplicate wait for the first run
	TxWait     time.Duration // how long DoTx does

	MaxResponse int      // bytes of an answer that are kept
	Fingerprint []string // what is compared of a request, beside method and path
}

// Policy returns the executor's.
func (e *Executor) Policy() Policy {
	c := e.cfg
	return Policy{
		MinKey: c.minKey, MaxKey: c.maxKey,
		Lease: c.lease, Retention: c.retention, Remember: c.remember, RetryAfter: c.retryAfter,
		Wait: c.waitOr(nil, 0), TxWait: c.waitOr(nil, DefaultTxWait),
		MaxResponse: c.maxResponse, Fingerprint: c.fingerprinters[0].Parts(),
	}
}
