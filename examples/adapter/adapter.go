//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

// Package adapter is a complete backend that is read in one sitting, the example
// of docs/adapters.md: every record is a file of JSON in one directory.
//
// It keeps its promises for any number of processes of one host, on a local file
// system, on systems with flock. What it acknowledged survives a kill at any
// point, and a loss of power as far as the disk keeps what it synced. A killed
// process holds up nobody: its lock goes with it. One that is stopped in the middle of
// a step holds up a 256th of the keys until it goes on or is killed.
//
// Every call syncs the directory and a sweep reads every file. Use sqlite for more than an example.
package adapter

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
)

// maxValue is what a file could exceed. A record is read whole at every step.
const maxValue = 4 << 20

// Backend keeps records in a directory.
type Backend struct {
	dir string
	now func() time.Time // tests have clocks of their own
}

var _ backend.Backend = (*Backend)(nil)

// New returns a backend on a directory that exists and that nobody else writes to. It
// does no I/O: Describe looks at the directory.
func New(dir string) *Backend { return &Backend{dir: dir, now: time.Now} }

// nameOf gives the file of a key. The quotes keep the parts apart, whatever is in them.
func nameOf(k backend.Key) string {
	return fmt.Sprintf("%x.json", sha256.Sum256(fmt.Appendf(nil, "%q %q %q", k.Tenant, k.Actor, k.Value)))
}

// step is the one atomic step: under the record's lock it reads, lets the machine
// decide, and stores what the machine says.
func (b *Backend) step(ctx context.Context, op, name string, m machine.Message) (machine.Outcome, error) {
	unlock, err := b.lock(ctx, name)
	if err != nil {
		return machine.Outcome{}, notDone(op, err)
	}
	defer unlock()
	before, err := b.read(name)
	if err != nil {
		return machine.Outcome{}, notDone(op, err)
	}
	after, out := machine.Step(before, m, b.now())
	if out.Changed {
		if err := b.store(op, name, after); err != nil {
			return machine.Outcome{}, err
		}
	}
	// Also where nothing changed: a killed process may have stored without syncing,
	// and no answer may rest on what can still be lost.
	if err := syncDir(b.dir); err != nil {
		return machine.Outcome{}, maybeDone(op, err)
	}
	if out.Err != nil {
		return machine.Outcome{}, &backend.Error{Op: "adapter: " + op, Kind: out.Err}
	}
	return out, nil
}

// notDone is the error of a call that has not changed anything.
func notDone(op string, err error) error {
	return &backend.Error{Op: "adapter: " + op, Kind: backend.ErrUnavailable, Err: err}
}

// maybeDone is the error of a call that may have changed the record. It has no Kind.
func maybeDone(op string, err error) error {
	return &backend.Error{Op: "adapter: " + op, Err: err}
}

// Claim implements backend.Backend. Nobody holds a key without showing it, so that
// there is nothing to wait for.
func (b *Backend) Claim(ctx context.Context, c backend.Claim) (backend.Claimed, error) {
	if err := c.Validate(); err != nil {
		return backend.Claimed{}, err
	}
	out, err := b.step(ctx, "claim", nameOf(c.Key), machine.Claim{Claim: c})
	return out.Claimed, err
}

// Renew implements backend.Backend.
func (b *Backend) Renew(ctx context.Context, l backend.Lease, ttl time.Duration) error {
	return b.hold(ctx, "renew", l, l.ValidateRenewal(ttl), machine.Renew{Lease: l, TTL: ttl})
}

// Checkpoint implements backend.Backend.
func (b *Backend) Checkpoint(ctx context.Context, l backend.Lease, c backend.Checkpoint) error {
	return b.hold(ctx, "checkpoint", l, c.Validate(l, maxValue), machine.Checkpoint{Lease: l, Checkpoint: c})
}

// Complete implements backend.Backend.
func (b *Backend) Complete(ctx context.Context, l backend.Lease, c backend.Completion) error {
	return b.hold(ctx, "complete", l, c.Validate(l, maxValue), machine.Complete{Lease: l, Completion: c})
}

// Release implements backend.Backend.
func (b *Backend) Release(ctx context.Context, l backend.Lease) error {
	return b.hold(ctx, "release", l, l.Validate(), machine.Release{Lease: l})
}

// hold takes a holder's step, unless its arguments are invalid.
func (b *Backend) hold(ctx context.Context, op string, l backend.Lease, invalid error, m machine.Message) error {
	if invalid != nil {
		return invalid
	}
	_, err := b.step(ctx, op, nameOf(l.Key), m)
	return err
}

// Get implements backend.Backend. It takes no lock: a rename shows the old file or
// the new one, and never a part.
func (b *Backend) Get(ctx context.Context, k backend.Key) (backend.Record, error) {
	const op = "get"
	if err := k.Validate(); err != nil {
		return backend.Record{}, err
	}
	if err := backend.ContextDone(ctx, "adapter: "+op); err != nil {
		return backend.Record{}, err
	}
	r, err := b.read(nameOf(k))
	if err == nil {
		err = syncDir(b.dir) // see step
	}
	switch {
	case err != nil:
		return backend.Record{}, notDone(op, err)
	case r == nil:
		return backend.Record{}, &backend.Error{Op: "adapter: " + op, Kind: backend.ErrNotFound}
	}
	r.LeaseLeft = machine.LeaseLeft(*r, b.now())
	return *r, nil
}

// Sweep implements backend.Backend. It looks at every record, and steps only
// where that look says that there is something to do.
func (b *Backend) Sweep(ctx context.Context, limit int) (n int, err error) {
	const op = "sweep"
	if err := backend.ValidateSweep(limit); err != nil {
		return 0, err
	}
	if err := backend.ContextDone(ctx, "adapter: "+op); err != nil {
		return 0, err
	}
	files, err := os.ReadDir(b.dir)
	if err != nil {
		return 0, notDone(op, err)
	}
	for _, f := range files {
		if n == limit || filepath.Ext(f.Name()) != ".json" {
			continue
		}
		r, err := b.read(f.Name())
		if err != nil {
			return n, notDone(op, err)
		}
		if _, due := machine.Step(r, machine.Sweep{}, b.now()); !due.Changed {
			continue
		}
		out, err := b.step(ctx, op, f.Name(), machine.Sweep{})
		if err != nil {
			return n, err
		}
		if out.Changed {
			n++
		}
	}
	return n, nil
}

// Describe implements backend.Backend.
func (b *Backend) Describe(ctx context.Context) (backend.Description, error) {
	const op = "describe"
	d := backend.Description{
		Name:   "adapter",
		Server: runtime.GOOS,
		Capabilities: backend.Capabilities{
			DurableKill:   true,
			Shared:        true, // by processes of one host
			Clock:         backend.ClockHost,
			FreshReads:    true,
			MaxValue:      maxValue,
			TokensBreakOn: []string{"clock step", "restore"}, // a removed file leaves no token behind to exceed
		},
	}
	if err := backend.ContextDone(ctx, "adapter: "+op); err != nil {
		return backend.Description{}, err
	}
	info, err := os.Stat(b.dir)
	if err != nil {
		return backend.Description{}, notDone(op, err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		d.Findings = append(d.Findings, backend.Finding{
			ID: "adapter/mode", Severity: backend.Warning,
			Text: "other users of this host can look into the directory", Advice: "chmod 0700",
		})
	}
	return d, nil
}
