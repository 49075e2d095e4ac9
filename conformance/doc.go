// Package conformance tests whether a backend keeps the contract of package
// backend. An adapter's own test is a few lines ([Run], and [RunTx] where the
// store has transactions); [Check] and [CheckTx] do the same without package
// testing, for a command that tries the very server to be deployed on.
//
// # Cases
//
// Every case has a stable id ("table/replay"), one sentence of the contract that
// it checks and that it prints when it fails, and a bound on its time. Each gets an
// empty store of its own, and all of them run in parallel, but for those that
// disturb a server: these come before, one at a time. Nothing depends on the order.
//
// The cases "table/…" are the state machine of package machine, a case for each
// row: every message of the row arrives at a record in every state of it, and
// outcome and record after are compared in all their fields. The others check what
// no single row says:
//
//	claim, lease, fence    races, exact boundaries, tokens over the lives of a key
//	checkpoint, complete   bytes, gaps, empty values, retention
//	key                    scope, separators, length, byte by byte
//	get, sweep             fresh reads; what is kept, what goes, limits, races
//	errors                 arguments, contexts, sizes, types and texts
//	lifecycle              whole lives, copies of bytes, many keys, times
//	list                   what a backend.Lister finds
//	wait                   how a backend.Waiter tells of changes
//	capability             what Describe claims: no more and, where it shows, no less
//	fault                  the server is killed, stands still, is cut off
//	history                random calls of many handles at once, see below
//	transact               [RunTx]: effect and record are one
//	inlease                [RunTx]: steps under the fence
//	bind                   [RunTx]: the record within a caller's own transaction
//
// # Histories
//
// The cases "history/…" let several handles make random calls on a few keys at once,
// stale holders and doubled ones among them, and then look for an order of the calls
// of each key in which package machine returns what they returned. A call whose
// reply was lost counts as both, applied and not; one that was cut off may still be
// applied at any later time. In "history/takeover" a lapse may come at any time, so
// that it can't see a takeover that comes too early: "claim/not-before-lapse" does.
//
// A checker that comes to no end within its bound has shown nothing, and the case
// fails. A case that passes says in how many histories nothing was refuted. One that
// fails prints the calls of the key. All of them, and the kills of "fault/kill", print the
// seed of their choices, which [Seed] or the environment variable IDEM_TEST_SEED
// sets; how calls meet in the store no seed repeats.
//
// # Time
//
// A lapse or the end of a retention is judged by the store's clock. Where the
// harness can move that clock (Store.Advance) the cases check the exact boundary.
// Where it can't they use short real durations and ask the store itself, again
// and again, until it says that the time is over; what they check then is that it
// wasn't over too soon.
//
// # Powers
//
// To show what a server does when it is killed, paused or cut off, or whose clock it
// goes by, the harness has to be able to do that: the optional fields of [Store]. They
// want a server of the test's own, so that an adapter runs the suite twice: Without
// these groups on any server, and Only with them on one it may kill. [Skew] is
// Store.Skewed for drivers that can't be told a time.
//
// A claim that would need a power to be shown is [NotShown] where the power is
// missing. What a backend doesn't promise needs none: a store that says it loses
// everything in a kill is believed. A failover is played wherever the harness can
// (Store.Failover), so that the report tells what the limit looks like.
//
// # What is not run
//
// A case that lacks something, or whose store calls T.Skipf, is "not run": skipped
// with its reason by Run and RunTx, [NotRun] in a Report. It proves nothing, so it
// fails where the environment variable IDEM_TEST_REQUIRE is "all", or a list with
// "conformance" in it. Set it wherever nobody reads the output of tests. [Require] does
// the same for powers, [Xfail] is for what is known to be broken.
//
// # Reports
//
// [Check] returns a [Report]; with [Each] a run under package testing makes one, too. Its words
// are "verified", "refuted", "not refuted in 200 histories" for a case that can only search for
// a failure, "not run" and "not shown". It says of each claim what was measured of it,
// and what by that claim is not guaranteed. Markdown holds verdicts and bounds, so that
// a report can be kept with the code and compared; JSON holds all that was said.
//
// # The suite itself
//
// The tests of this package run it on backends with one fault each. Every fault is
// caught by the cases named for it and every case catches a fault. A case that is
// added comes with a fault that no other case catches as directly.
package conformance
