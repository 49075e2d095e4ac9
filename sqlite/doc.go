// Package sqlite keeps the records in a SQLite file: the store to begin with,
// for a service that runs on one machine and wants no server. It is built on
// [modernc.org/sqlite], which needs no C compiler.
//
//	db, err := sqlite.Open("/var/lib/app/app.db")
//	err = sqlite.Migrate(ctx, db)
//	b, err := sqlite.New(db)
//
// The record lives in the caller's own database, so that [Backend.Transact] can
// commit it together with the caller's writes: either both are there after a
// crash, or neither.
//
// # What SQLite means for you
//
//   - One writer at a time per file, whatever the key. An effect that runs in
//     Transact or InLease holds up every other write of the file, and is therefore
//     bounded: its context ends after a third of the lease or the busy budget
//     ([WithBusyBudget]), whichever is shorter. Replays never wait for a writer.
//   - Within a process writers queue up first come, first served, and claims and
//     completions that arrive together share one transaction and one fsync.
//     Processes take turns, by a lock on an empty file beside the database,
//     "-idem" appended to its name; where the system or the directory has none to
//     offer, SQLite's own lock decides, which is not fair. A writer that does not get
//     the file within the busy budget ends with [backend.ErrUnavailable], surely
//     without having written.
//   - All processes must run on one host: the log of a database on a network file
//     system is not shared ([WAL]). Describe reports such a file where it can.
//   - The clock is the host's. Nothing is read from the database's now().
//   - What was acknowledged survives kill -9 in every mode, and a loss of power
//     with synchronous=FULL, which New insists on unless told otherwise
//     ([AllowNormalSync]).
//   - Never open the database's file, or its -shm file, other than through SQLite
//     while the process uses it: closing it drops the locks ([howtocorrupt] 2.2).
//     Back up with VACUUM INTO.
//
// # Transactions and the effect
//
// T is *sql.Tx. The effect gets the transaction and must use nothing else: the
// methods of the same Backend, called with the effect's context, return
// [backend.ErrInvalid] at once, since they would wait for the very transaction
// they are called from. [Backend.Bind] is the way to other records. The effect's
// Commit and Rollback end with an error and with nothing stored. Commit is
// refused by the connection's commit hook, which belongs to this package while an
// effect runs and is cleared afterwards; do not register one of your own on the
// same pool. The hook also stops what SQLite does to a transaction after some
// errors (disk full, I/O, a statement interrupted by its context): it rolls it
// back and would commit each later statement on its own.
//
// # Errors
//
//	condition                                     error
//	the file stays locked beyond the budget       backend.ErrUnavailable
//	the pool is closed, the file can't be opened  backend.ErrUnavailable
//	the table is missing or too old               backend.ErrUnavailable; says how to migrate
//	disk full or I/O error before the COMMIT      backend.ErrUnavailable
//	disk full or I/O error at the COMMIT          outcome unknown
//	the context ended after the write had begun   outcome unknown
//	a transaction of the caller's own that read   backend.ErrRetryTx; make the claim its first
//	  before another one wrote (code 517)           statement
//
// Errors of the driver stay reachable as *sqlite.Error of modernc.org/sqlite.
//
// [WAL]: https://sqlite.org/wal.html
// [howtocorrupt]: https://sqlite.org/howtocorrupt.html
package sqlite
