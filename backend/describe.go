package backend

import "time"

// Clock says whose clock judges leases and retention.
type Clock string

// The zero Clock is invalid.
const (
	ClockServer  Clock = "server"  // the store's own, wherever the caller runs
	ClockHost    Clock = "host"    // the machine's; all callers share the machine
	ClockProcess Clock = "process" // the calling process's; nothing is shared
)

// Capabilities are what a backend claims to do on the server it is connected to.
// They are data, and the conformance suite tests them in both directions.
type Capabilities struct {
	Transactions    bool  // implements Transactor: effect and record commit together
	DurableKill     bool  // what was acknowledged survives the kill of the store's process
	DurableFailover bool  // and the loss of the machine it ran on
	Shared          bool  // several processes can use one store
	NativeExpiry    bool  // the store deletes by itself what is over
	Clock           Clock // whose time it is
	FreshReads      bool  // Get sees every acknowledged write

	MaxValue     int64         // bytes of a response or a state; 0: none known
	MinLease     time.Duration // shorter leases are rounded up to it
	LeaseRound   time.Duration // leases are multiples of it
	LeaseStretch time.Duration // how much later than granted a lease may end; 0: not at all

	// TokensBreakOn names what can make tokens repeat: "failover", "clock step",
	// "restore", "process end".
	TokensBreakOn []string
}

// Severity of a finding.
type Severity string

// Findings that are Unsafe break a promise of the library; Warnings cost
// something else.
const (
	Unsafe  Severity = "unsafe"
	Warning Severity = "warning"
)

// Finding is something about this server that its operator should know.
type Finding struct {
	ID       string // stable, "postgres/synchronous_commit"
	Severity Severity
	Text     string // what is so
	Advice   string // what to do about it
}

// Description is what a backend says of itself and of its server.
type Description struct {
	Name         string // "postgres"
	Server       string // the server's version, as it says it
	Schema       int    // version of the schema found, 0 where there is none
	Capabilities Capabilities
	Findings     []Finding
}
