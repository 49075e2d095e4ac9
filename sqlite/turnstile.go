package sqlite

import (
	"context"
	"os"
	"time"
)

// turnstile is where processes queue for the file's lock. SQLite gives the lock
// to whoever polls at the right moment, and a process that writes again and again is
// always there first. Who has passed the turnstile is the only one that polls, and the
// process that just wrote has to get in line behind it.
//
// It is a lock on a file of its own beside the database, and best effort: without
// it, or behind a process that is stopped in it, writers poll as they would.
type turnstile struct {
	file     *os.File
	patience time.Duration
}

// newTurnstile opens the file of the database at path, for all who can open the
// database. Nobody waits at it for longer than a part of the busy budget.
func newTurnstile(path string, budget time.Duration) turnstile {
	info, err := os.Stat(path)
	if err != nil {
		return turnstile{}
	}
	f, err := os.OpenFile(path+"-idem", os.O_RDONLY|os.O_CREATE, info.Mode().Perm())
	if err != nil {
		return turnstile{}
	}
	return turnstile{f, budget / 8} // closed by the collector, with its Backend
}

// pass waits for its turn and holds it until leave is called.
func (t turnstile) pass(ctx context.Context) (leave func()) {
	none := func() {}
	if t.file == nil {
		return none
	}
	for start := time.Now(); time.Since(start) < t.patience; {
		switch locked, err := tryLock(t.file); {
		case err != nil:
			return none
		case locked:
			return func() { unlock(t.file) }
		case !pause(ctx):
			return none
		}
	}
	return none
}
