// Package backend is the contract between idem and the stores that keep its
// records.
//
// A backend has one job: to be atomic. It acquires a key or returns the record
// as it stands, it applies a write of the claim that holds a record or refuses
// it. It decides no policy, never retries and never calls an effect twice; what
// a finding means (a replay, a mismatch, a request in progress) is decided in
// package idem, in one place for all stores.
//
// The state machine itself is one pure function in the package [machine]. An
// adapter whose store can read, decide and write in one atomic step calls it;
// an adapter that needs other means (a single SQL statement, a script in the
// server) has to behave exactly like it, and the conformance suite compares the
// two.
//
// # Obligations of every adapter
//
//   - Methods are safe for concurrent use, from many goroutines and, where
//     [Capabilities].Shared says so, from many processes.
//   - Bytes are copied both ways: an adapter keeps no slice it was given and
//     returns none that it keeps.
//   - Contexts are obeyed promptly. A context that ends during a write leaves
//     the outcome open, and the error must say so (see below).
//   - The clock is the store's. No adapter reads the time of the calling process
//     to decide anything, unless Capabilities.Clock says that the two are one.
//     What is left of a lease is returned as a duration.
//   - Identity is the claim id together with the token. Every write of a holder
//     compares both, atomically with the write.
//   - Keys are compared byte by byte: no case folding, trimming or normalisation.
//   - Expected findings (somebody else holds the key, it is completed, it belongs
//     to another request) are results, not errors.
//
// # Errors
//
// An adapter returns the sentinels of this package, wrapped in [Error] with the
// driver's error as its cause, so that errors.Is finds the meaning and errors.As
// the detail. The one distinction that safety hangs on is between an operation
// that surely left the store as it was and one that may have been applied:
// [NotApplied] draws it, and every error that is not known to be "not applied"
// means "maybe".
//
//	condition                                             error
//	the record is held by another claim, or gone          ErrLeaseLost
//	same claim, same step, other content                  ErrConflict
//	the argument breaks the contract                      ErrInvalid
//	the value exceeds Capabilities.MaxValue               ErrTooLarge
//	Get finds no record                                   ErrNotFound
//	the store can't be asked, surely nothing was done     ErrUnavailable
//	the caller's transaction has to be run again          ErrRetryTx
//	anything else                                         maybe applied
//
// # What is not promised
//
// A lease is no mutual exclusion: a paused holder runs on after its lease ended.
// What is promised is that of two claims only one completes, and that the late
// writes of the other are refused. Tokens of one key grow, also after its record
// was deleted, until something named in Capabilities.TokensBreakOn happens; that is
// why no write is judged by its token alone.
package backend
