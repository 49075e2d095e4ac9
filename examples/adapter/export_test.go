//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package adapter

import "time"

// SetClock makes the backend judge leases and retention by another clock.
func (b *Backend) SetClock(now func() time.Time) { b.now = now }
