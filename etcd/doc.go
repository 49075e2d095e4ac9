// Package etcd keeps idempotency records in etcd, through a client of the caller's.
//
// It is the adapter with the safest claims among those that are shared between
// machines: a majority of the members stores every acknowledged write, and every
// write names the revision that it was decided on. It is no [backend.Transactor]: an
// effect can't be committed together with its record.
//
// # What it costs
//
// In round trips: a replay 1; a claim 3 (read, etcd lease, Txn); a claim that finds a
// run in progress 2; a checkpoint, a completion and a release 1, or 2 in a process
// that doesn't hold the claim; a renewal 2, without a new revision; Get 1, or 2 while
// the record is locked. A sweep takes 2 for each 500 started records. A duplicate that waits
// (idem.WithWait) takes 1 and a watch, see [Backend.Await].
//
// Every claim leaves an etcd lease behind that ends by itself. Every change is a
// revision that takes up space until it is compacted: run etcd with
// --auto-compaction-retention, and defragment now and then.
//
// # Leases
//
// A lease is an etcd lease, bound to a key beside the record. Record, recovery point and
// state stay when it ends. etcd counts in whole seconds, has a minimum of one and a
// half election timeouts (2 s by default) and takes up to a second to end what is over.
// Record.Lease is what was granted. After a restart or a change of the leader every
// lease begins anew: until the next one a crashed run may keep its key for twice its
// lease and the time without leader (measured on three members with a leader killed
// after half of a lease of 6 s: it ended after 9.7 s). They never end early, but for
// servers before 3.4.31 and 3.5.13, see [Backend.Describe].
//
// # Retention
//
// Completed records are bound to an etcd lease of their retention, which those of an
// hour or an eighth of the retention share, or 10,000 of them; etcd deletes them, without a
// sweep. They are kept at least the retention, and up to a quarter of it or two
// hours longer (whichever is less, and 2 s at least), and as leases of that length
// after a change of leader: a record that is due then is kept for another retention.
// As long as it is there it is replayed.
//
// Runs that nobody finishes are counted from the first sweep after their lease ended;
// see [Backend.Sweep]. Without sweeps they stay for ever.
//
// # Time
//
// Nothing is decided by a clock of this process, and etcd has none to ask for. The
// times in records are those of the processes that wrote them, for people.
//
// # Tokens
//
// A token is the revision of its claim's Txn. Revisions grow over all keys, also where a
// record is deleted. Restoring a snapshot takes them back, unless it is done with
// --bump-revision; identity is the claim id, too.
//
// # Errors
//
// What the server refuses by itself is ErrUnavailable. A lost connection, a deadline and
// a change of leader during a Txn leave its outcome open. The client repeats a Txn
// that was answered by a deadline or a cancellation while the caller's context is
// alive; the second one then finds the first. Set the client's MaxUnaryRetries to 1 to have
// errors sooner.
//
// A server that has used up its quota (alarm NOSPACE) refuses claims and completions and
// answers replays.
package etcd
