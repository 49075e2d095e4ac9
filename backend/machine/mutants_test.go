package machine_test

import (
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
)

// seeing is a machine that takes messages of type M, and the record they arrive
// at, for others than they are.
func seeing[M machine.Message](change func(r *backend.Record, m *M, now time.Time)) stepFunc {
	return func(r *backend.Record, m machine.Message, now time.Time) (*backend.Record, machine.Outcome) {
		c, ok := m.(M)
		if !ok || r == nil {
			return machine.Step(r, m, now)
		}
		n := *r
		change(&n, &c, now)
		after, out := machine.Step(&n, c, now)
		if !out.Changed {
			after = r
		}
		return after, out
	}
}

// leaving is a machine that leaves another record behind than it should when a
// message of type M changes one.
func leaving[M machine.Message](change func(before, after *backend.Record, now time.Time)) stepFunc {
	return func(r *backend.Record, m machine.Message, now time.Time) (*backend.Record, machine.Outcome) {
		after, out := machine.Step(r, m, now)
		if _, ok := m.(M); !ok || !out.Changed || r == nil || after == nil {
			return after, out
		}
		n := *after
		change(r, &n, now)
		return &n, out
	}
}

var broken = map[string]stepFunc{
	"takes over early": seeing(func(r *backend.Record, m *machine.Claim, _ time.Time) {
		if r.ClaimID != m.ID {
			r.LockedUntil = time.Time{}
		}
	}),
	"never takes over": seeing(func(r *backend.Record, m *machine.Claim, now time.Time) {
		if r.ClaimID != m.ID {
			r.LockedUntil = now.Add(time.Second)
		}
	}),
	"doesn't compare":          seeing(func(r *backend.Record, m *machine.Claim, _ time.Time) { r.Fingerprint = m.Fingerprints[0] }),
	"ends the retention early": seeing(func(r *backend.Record, _ *machine.Claim, _ time.Time) { r.Retention = time.Second }),
	"frees what is remembered": seeing(func(r *backend.Record, _ *machine.Claim, _ time.Time) { r.Remember = 0 }),
	"remembers for too long":   seeing(func(r *backend.Record, _ *machine.Claim, _ time.Time) { r.Remember += time.Second }),
	"replays what is remembered": seeing(func(r *backend.Record, _ *machine.Claim, _ time.Time) {
		r.Retention, r.Remember = r.Retention+r.Remember, 0
	}),
	"sweeps what is remembered": seeing(func(r *backend.Record, _ *machine.Sweep, _ time.Time) { r.Remember = 0 }),
	"keeps the response of what is remembered": leaving[machine.Sweep](func(before, after *backend.Record, _ time.Time) {
		if after.Response.Tombstone == backend.Expired {
			after.Response = before.Response
		}
	}),
	"forgets the status of what is remembered": leaving[machine.Sweep](func(_, after *backend.Record, _ time.Time) {
		if after.Response.Tombstone == backend.Expired {
			after.Response.Status = 0
		}
	}),
	"compares with what was forgotten": seeing(func(r *backend.Record, _ *machine.Complete, _ time.Time) {
		if r.Response.Tombstone == backend.Expired {
			r.Response.Tombstone = backend.Streamed
		}
	}),
	"forgets the recovery point": seeing(func(r *backend.Record, _ *machine.Claim, _ time.Time) { r.RecoveryPoint = "" }),
	"locks its own caller out": seeing(func(r *backend.Record, m *machine.Claim, _ time.Time) {
		if r.ClaimID == m.ID {
			r.ClaimID = backend.ClaimID{9}
		}
	}),
	"lets the abandoned expire": seeing(func(r *backend.Record, _ *machine.Claim, _ time.Time) {
		if r.Response.Tombstone == backend.Abandoned {
			r.Response.Tombstone = backend.Streamed
		}
	}),
	"completes for anybody": seeing(func(r *backend.Record, m *machine.Complete, _ time.Time) {
		if r.Status == backend.Started {
			m.Lease = r.Holder()
		}
	}),
	"completes twice": seeing(func(r *backend.Record, m *machine.Complete, _ time.Time) {
		r.Status, r.Sequence, m.Lease = backend.Started, 0, r.Holder()
	}),
	"compares the claim id only": seeing(func(r *backend.Record, m *machine.Complete, _ time.Time) {
		if r.ClaimID == m.Lease.ClaimID {
			m.Lease.Token = r.Token
		}
	}),
	"takes late checkpoints": seeing(func(r *backend.Record, m *machine.Checkpoint, _ time.Time) {
		if m.Sequence < r.Sequence {
			m.Sequence = r.Sequence + 1
		}
	}),
	"refuses lapsed holders": seeing(func(r *backend.Record, m *machine.Complete, now time.Time) {
		if machine.LeaseLeft(*r, now) == 0 {
			m.Lease.Token--
		}
	}),
	"releases past a point": seeing(func(r *backend.Record, _ *machine.Release, _ time.Time) { r.RecoveryPoint = "" }),
	"sweeps the resumable":  seeing(func(r *backend.Record, _ *machine.Sweep, _ time.Time) { r.RecoveryPoint = "" }),
	"sweeps the living": seeing(func(r *backend.Record, _ *machine.Sweep, _ time.Time) {
		r.LockedUntil, r.Abandon = time.Time{}, 0
	}),
	"sweeps for ever":            leaving[machine.Sweep](func(_, after *backend.Record, now time.Time) { after.ExpiresAt = now }),
	"drops checkpoints":          leaving[machine.Checkpoint](func(before, after *backend.Record, _ time.Time) { *after = *before }),
	"shortens leases":            leaving[machine.Renew](func(_, after *backend.Record, now time.Time) { after.LockedUntil = now }),
	"keeps the lease on release": leaving[machine.Release](func(before, after *backend.Record, _ time.Time) { after.LockedUntil = before.LockedUntil }),
	"loses the response":         leaving[machine.Complete](func(_, after *backend.Record, _ time.Time) { after.Response = backend.Response{} }),
	"restarts tokens": func(r *backend.Record, m machine.Message, now time.Time) (*backend.Record, machine.Outcome) {
		if c, ok := m.(machine.Claim); ok {
			c.Floor = 0
			m = c
		}
		return machine.Step(r, m, now)
	},
}

// The small-scope test sees what it is there to see.
func TestSmallScopeFindsBrokenMachines(t *testing.T) {
	t.Parallel()
	for name, step := range broken {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			states := 0
			for _, limit := range scopes {
				x := explore(step, limit)
				states += len(x.seen)
				if x.broken != "" {
					t.Logf("found after %d states: %.100s", states, x.broken)
					return
				}
			}
			t.Errorf("not found in %d states", states)
		})
	}
}
