package sqlite

import "time"

// SetClock makes the backend judge leases and retention by a clock of the test's.
func (b *Backend) SetClock(now func() time.Time) { b.now = now }
