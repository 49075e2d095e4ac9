// Package postgres keeps idempotency records in a PostgreSQL table, through a
// pgx pool of the caller's.
//
// It is the one adapter that is shared between machines and can commit a record
// together with the caller's own writes: it implements
// [backend.Transactor] for pgx.Tx.
//
// # Setting up
//
// [Migrate] creates the table; [Schema] returns the same SQL for people who use a
// migration tool. At run time the role needs SELECT, INSERT, UPDATE and DELETE on
// the table and nothing else. [New] does no I/O; [Backend.Describe] looks at the
// server and reports what is wrong with it.
//
// # What it costs
//
// Where nobody contends a claim, a renewal, a checkpoint, a completion and a replay
// are one statement and one round trip each. A replay locks no row and writes no
// WAL. [Backend.Transact] adds two round trips to those of the effect: BEGIN
// travels with the claim, COMMIT with the completion. A claim that takes over a
// lapsed record needs one more.
//
// # Sessions and poolers
//
// Nothing depends on the session: settings are local to a transaction and put
// back within it, there are no session locks and no LISTEN. All statements carry
// explicit types and work in every pgx.QueryExecMode, so that the pool decides. Behind
// PgBouncer in transaction mode, before its version 1.21, that has to be a mode
// without named statements: default_query_exec_mode=exec (or cache_describe, or
// simple_protocol) in the connection string.
//
// A Transact holds one connection while its effect runs, and a claim holds one
// while it waits for a transaction that has the key (Claim.Wait). With
// effects that take further connections from the same pool, give it at least
// twice as many as effects run at once.
//
// # Limits
//
// Durability is the server's. synchronous_commit=off is overruled for the
// transactions of this package; fsync=off and an unlogged table are reported as
// unsafe. After a failover to an asynchronous standby, records of the last moments
// are gone, whatever was acknowledged.
//
// The clock is the server's wall clock. A step of it, or a failover to a machine
// whose clock differs, makes leases longer or shorter; completing is guarded by
// claim id and token and not by time.
//
// Reads go to the server the pool is connected to, which has to be the primary:
// target_session_attrs=read-write.
package postgres
