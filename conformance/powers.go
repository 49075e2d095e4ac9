package conformance

import (
	"strings"
	"time"

	"github.com/idem-go/idem/backend"
)

// Power is something that a harness can do to a store beyond opening it. A case
// names the powers it needs; where one is missing it is not run.
type Power string

// The powers, each a field of [Store].
const (
	PowerRestart   Power = "restart"   // kill the server and start it again
	PowerPause     Power = "pause"     // stop the server from answering for a while
	PowerSkewed    Power = "skewed"    // open a handle of a process whose clock is wrong
	PowerPartition Power = "partition" // cut the handles off from the server for a while
	PowerFailover  Power = "failover"  // lose the machine of the server, with what it has not passed on
)

// Store is an empty store and what the harness can do to it.
type Store struct {
	// Open returns a handle on the store. A case opens several; they stand for
	// different processes and share what different processes would share.
	Open func(t T) backend.Backend

	// Advance moves the store's clock. Optional: without it cases wait.
	Advance func(d time.Duration)

	// Restart kills the store's server with SIGKILL, all processes of it, starts it
	// again with what it had stored, and returns when it answers. Handles stay
	// open: they have to find the server again by themselves. Optional.
	Restart func(t T)

	// Pause stops the server with SIGSTOP: connections stand, nothing answers. What
	// was sent meanwhile arrives when resume is called. Resume is called once, also
	// when the case fails. Optional.
	Pause func(t T) (resume func())

	// Skewed is Open in a process whose clock is wrong by so much, ahead or, where it
	// is negative, behind. The store's own clock is right, if it has one. Optional.
	Skewed func(t T, by time.Duration) backend.Backend

	// Partition cuts the handles off from the server: what either side sends is
	// lost, and neither learns of it. After heal, which is called once, also when the
	// case fails, new connections work. Optional.
	Partition func(t T) (heal func())

	// Failover plays the loss of a machine, in two parts. The first cuts the server off
	// from those that copy it, so that what it takes from now on stays on its machine;
	// handles still reach it. promote, which is called once, also when the case
	// fails, kills the server with SIGKILL, lets a copy take its place, and returns when
	// that answers. Handles stay open: they have to find it by themselves. Optional.
	Failover func(t T) (promote func())
}

func (s Store) powers() map[Power]bool {
	return map[Power]bool{
		PowerRestart: s.Restart != nil, PowerPause: s.Pause != nil,
		PowerSkewed: s.Skewed != nil, PowerPartition: s.Partition != nil,
		PowerFailover: s.Failover != nil,
	}
}

// disturbs reports whether a case with these needs gets in the way of others on
// the same server.
func disturbs(needs []Power) bool {
	for _, p := range needs {
		if p != PowerSkewed {
			return true
		}
	}
	return false
}

// list names powers in a sentence.
func list(ps []Power) string {
	names := make([]string, len(ps))
	for i, p := range ps {
		names[i] = string(p)
	}
	return strings.Join(names, ", ")
}
