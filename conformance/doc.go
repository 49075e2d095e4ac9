// Package conformance tests whether a backend keeps the contract of package
// backend. An adapter's own test is a few lines:
//
//	func TestConformance(t *testing.T) {
//		conformance.Run(t, func(t *testing.T) conformance.Store {
//			db := newEmptyDatabase(t)
//			return conformance.Store{Open: func(conformance.T) backend.Backend { return mystore.New(db) }}
//		})
//	}
//
// # Cases
//
// Every case has a stable id ("claim/mismatch-in-flight"), one sentence of the
// contract that it checks and that it prints when it fails, and a bound on its
// time. Each gets an empty store of its own, and all of them run in parallel.
// Their order is the one they are declared in; nothing depends on it.
//
// # Time
//
// A lapse or the end of a retention is judged by the store's clock. Where the
// harness can move that clock (Store.Advance) the cases check the exact boundary.
// Where it can't they use short real durations and ask the store itself, again
// and again, until it says that the time is over; what they check then is that it
// wasn't over too soon.
//
// # Transactions
//
// [RunTx] holds the cases for backends that are a backend.Transactor. It comes
// on top of [Run], not instead.
package conformance
