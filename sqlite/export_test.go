package sqlite

import "time"

// SetClock makes the backend judge leases and retention by a clock of the test's.
func (b *Backend) SetClock(now func() time.Time) { b.now = now }

// Pending is the number of writes that wait for a transaction.
func (b *Backend) Pending() int {
	b.queue.mu.Lock()
	defer b.queue.mu.Unlock()
	return len(b.queue.pending)
}

// Flushing reports whether a write is pending or under way.
func (b *Backend) Flushing() bool {
	b.queue.mu.Lock()
	defer b.queue.mu.Unlock()
	return b.queue.flushing
}
