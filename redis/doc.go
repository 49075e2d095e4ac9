// Package redis keeps idempotency records in Redis, through a go-redis client of
// the caller's: a single server, Sentinel or Cluster.
//
// It is fast, and the weakest of the stores: replication is asynchronous, so
// that a failover can lose the last acknowledged writes, a claim or a completion
// among them, and two runs of one key can then both complete. [WithReplicas] makes
// that unlikely and not impossible. Where an effect must not happen twice, have
// it commit together with its record, in PostgreSQL or SQLite.
//
// # What the server needs
//
// Redis 7.0 or newer, with maxmemory-policy noeviction and an append-only file
// that is synced always:
//
//	maxmemory-policy noeviction
//	appendonly yes
//	appendfsync always
//
// Any other policy throws claims away when memory is short. Without appendfsync
// always a crash takes back what was acknowledged. [Backend.Describe] reports
// both, and a replica that it was connected to.
//
// The user needs the commands EVAL, EVALSHA, TIME, HMGET, HGETALL, HSET, HDEL,
// DEL, PERSIST and PEXPIREAT; for Sweep also SCAN, PTTL and SCRIPT LOAD, for
// Describe INFO and CONFIG GET, with WithReplicas WAIT.
//
// The clock is the server's wall clock. A step of it, or a failover to a machine whose
// clock differs, makes leases longer or shorter; completing is guarded by claim
// id and token and not by time.
//
// # Records
//
// A record is one hash, so that Cluster needs no hash tags, and every step of it
// is one script and one round trip. Its key is the prefix, tenant and actor, each
// after its length, and the key ("idem:4:acme:5:alice:order-17"): at most 840
// bytes with the longest prefix. The fields can be read with HGETALL; times and
// durations are microseconds.
//
// The server deletes a record by itself when its retention is over, and a started
// one without a recovery point when it was abandoned. A started record with a
// recovery point has no expiry: what it did must not be forgotten before
// somebody has looked. When it is abandoned, [Backend.Sweep] makes it a tombstone,
// which stays. Sweep finds such records by walking all keys of the prefix (SCAN)
// and costs accordingly, some four seconds per million keys: hourly is often
// enough.
//
// # Full memory
//
// A full server (maxmemory, noeviction) refuses new claims with
// [backend.ErrUnavailable]. Renewals, checkpoints, completions and releases are
// let through, so that what has begun can end, and replays are answered.
//
// # Contexts and retries
//
// go-redis repeats commands whose reply was lost, but not the scripts of this
// package: the core does that, and knows what a repetition means. (Were one
// repeated all the same, the claim id would tell.) Nor does go-redis stop reading
// when a context is cancelled: a call of this package returns at once, and the
// connection stays busy until the reply comes or ReadTimeout ends.
//
// # Errors
//
//	condition                                          error
//	no connection: refused, pool exhausted, closed     backend.ErrUnavailable
//	refused before the script ran: full, loading,      backend.ErrUnavailable
//	  replica, cluster down, moved, no replicas
//	the key belongs to something else                  backend.ErrUnavailable
//	a response or state over [MaxValue]                backend.ErrTooLarge, not sent
//	the reply was lost, the context ended, fewer       outcome unknown
//	  replicas than asked for confirmed
package redis
