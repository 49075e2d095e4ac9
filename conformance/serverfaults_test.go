package conformance_test

import (
	"context"
	"errors"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
)

// claiming changes what a backend says of itself.
func claiming(change func(c *backend.Capabilities)) func(f *faulty) {
	return func(f *faulty) {
		f.describe = func(d backend.Description) backend.Description {
			change(&d.Capabilities)
			return d
		}
	}
}

// granting makes leases of another length than asked for.
func granting(lease func(ask time.Duration) time.Duration) func(f *faulty) {
	return machined(func(r *rec, m machine.Message, now time.Time) (*rec, machine.Outcome) {
		if c, ok := m.(machine.Claim); ok {
			c.Lease = lease(c.Lease)
			m = c
		}
		return machine.Step(r, m, now)
	})
}

// crashing does something to every record when the server is killed.
func crashing(harm func(r *rec, now time.Time) *rec) func(f *faulty) {
	return func(f *faulty) {
		f.crash = func(s *state, now time.Time) {
			for k, r := range s.records {
				if r = harm(r, now); r == nil {
					delete(s.records, k)
				}
			}
		}
	}
}

// forgetting loses in a failover what no copy has.
func forgetting(s *state) { s.records = s.copied }

// lettingAnybodyComplete opens the fence, from a moment on.
func lettingAnybodyComplete(f *faulty, from func() bool) {
	f.step = func(r *rec, m machine.Message, now time.Time) (*rec, machine.Outcome) {
		if c, ok := m.(machine.Complete); ok && r != nil && from() {
			n := *r
			n.Status, n.ClaimID, n.Token, n.Sequence = backend.Started, c.Lease.ClaimID, c.Lease.Token, 0
			r = &n
		}
		return machine.Step(r, m, now)
	}
}

// serverFaults are claims that are not true, and what goes wrong with servers.
var serverFaults = map[string]planted{
	// Claims.
	"claims transactions": {claiming(func(c *backend.Capabilities) { c.Transactions = true }), "capability/transactions", ""},
	"hides transactions":  {func(f *faulty) { f.transact = true }, "capability/transactions", ""},
	"claims to be shared": {func(f *faulty) { f.alone = true }, "capability/shared capability/fresh-reads", "capability fault"},
	"claims to survive a failover": {func(f *faulty) {
		claiming(func(c *backend.Capabilities) { c.DurableFailover = true })(f)
		f.inherit = forgetting
	}, "capability/durable-failover", ""},
	"takes what no copy confirms for not done": {func(f *faulty) {
		f.unsure = func(op string) error { return &backend.Error{Op: "faulty: " + op, Kind: backend.ErrUnavailable} }
	}, "capability/durable-failover", ""},
	"lets a lost owner complete": {func(f *faulty) {
		f.inherit = forgetting
		lettingAnybodyComplete(f, func() bool { return f.promoted })
	}, "capability/durable-failover", ""},
	"claims to survive a failover only": {claiming(func(c *backend.Capabilities) { c.DurableFailover, c.DurableKill = true, false }), "capability/durable-failover", ""},
	"hides that it is shared":           {claiming(func(c *backend.Capabilities) { c.Shared = false }), "capability/shared", ""},
	"claims to be durable":              {crashing(func(*rec, time.Time) *rec { return nil }), "capability/durable-kill fault/kill", ""},
	"claims to expire by itself":        {claiming(func(c *backend.Capabilities) { c.NativeExpiry = true }), "capability/native-expiry", ""},
	"claims the server's clock":         {func(f *faulty) { f.local = true }, "capability/clock", "capability"},
	"hides the server's clock":          {claiming(func(c *backend.Capabilities) { c.Clock = backend.ClockHost }), "capability/clock", ""},
	"claims to be fresh":                {func(f *faulty) { f.stale = true }, "capability/fresh-reads", ""},
	"claims a larger value":             {claiming(func(c *backend.Capabilities) { c.MaxValue++ }), "capability/max-value", ""},
	"claims a smaller value":            {claiming(func(c *backend.Capabilities) { c.MaxValue-- }), "capability/max-value", ""},
	"claims any value":                  {claiming(func(c *backend.Capabilities) { c.MaxValue = 0 }), "capability/max-value", ""},
	"claims a shortest lease":           {claiming(func(c *backend.Capabilities) { c.MinLease = time.Second }), "capability/lease", ""},
	"claims a rounded lease":            {claiming(func(c *backend.Capabilities) { c.LeaseRound = time.Second }), "capability/lease", ""},
	"hides a shortest lease":            {granting(func(d time.Duration) time.Duration { return max(d, time.Second) }), "capability/lease", "fault"},
	"hides that it rounds leases":       {granting(func(d time.Duration) time.Duration { return (d + 99*time.Millisecond).Truncate(100 * time.Millisecond) }), "capability/lease", "fault"},
	"cuts long leases":                  {granting(func(d time.Duration) time.Duration { return min(d, 30*time.Second) }), "capability/lease", ""},
	"hides that leases last longer": {leaving(func(_, after *rec, _ machine.Claim, _ time.Time) {
		after.LockedUntil = after.LockedUntil.Add(time.Microsecond)
	}), "capability/lease-stretch", "capability fault"},
	"claims that leases last longer": {claiming(func(c *backend.Capabilities) { c.LeaseStretch = time.Minute }), "capability/lease-stretch", ""},
	"hides that a kill lengthens leases": {crashing(func(r *rec, _ time.Time) *rec {
		if r.Status == backend.Started {
			r.LockedUntil = r.LockedUntil.Add(time.Second)
		}
		return r
	}), "capability/lease-stretch", "capability fault"},
	"lengthens leases in a kill by more than it claims": {func(f *faulty) {
		claiming(func(c *backend.Capabilities) { c.LeaseStretch = time.Second })(f)
		crashing(func(r *rec, _ time.Time) *rec {
			if r.Status == backend.Started {
				r.LockedUntil = r.LockedUntil.Add(time.Minute)
			}
			return r
		})(f)
	}, "capability/lease-stretch", "capability fault"},
	"names what breaks no token": {claiming(func(c *backend.Capabilities) { c.TokensBreakOn = []string{"bad luck"} }), "capability/tokens", ""},
	"hides what breaks tokens": {func(f *faulty) {
		f.crash = func(s *state, _ time.Time) { s.highest = 0 }
	}, "capability/tokens", ""},
	"takes any size": {func(f *faulty) {
		f.check = func(err error) error {
			if errors.Is(err, backend.ErrTooLarge) {
				return nil
			}
			return err
		}
	}, "capability/max-value", ""},
	"has no room for a tombstone": {machined(func(r *rec, m machine.Message, now time.Time) (*rec, machine.Outcome) {
		if c, ok := m.(machine.Complete); ok && c.Response.Tombstone != "" {
			return r, machine.Outcome{Err: backend.ErrTooLarge}
		}
		return machine.Step(r, m, now)
	}), "capability/max-value", ""},
	"expires by itself, but late": {func(f *faulty) {
		claiming(func(c *backend.Capabilities) { c.NativeExpiry = true })(f)
		f.vanish, f.late = true, time.Hour
	}, "capability/native-expiry", ""},
	"hides that it expires by itself": {func(f *faulty) { f.vanish = true }, "capability/native-expiry", ""},

	// Faults of a server.
	"loses what it completed": {crashing(func(r *rec, _ time.Time) *rec {
		if r.Status == backend.Completed {
			return nil
		}
		return r
	}), "capability/durable-kill fault/kill", ""},
	"forgets recovery points in a kill": {crashing(func(r *rec, _ time.Time) *rec {
		r.RecoveryPoint, r.State = "", nil
		return r
	}), "capability/durable-kill fault/kill", ""},
	"locks keys for ever in a kill": {crashing(func(r *rec, now time.Time) *rec {
		if r.Status == backend.Started {
			r.LockedUntil = now.Add(time.Hour)
		}
		return r
	}), "capability/durable-kill fault/kill", "capability"},
	"lets anybody complete after a kill": {func(f *faulty) {
		killed := false
		f.crash = func(*state, time.Time) { killed = true }
		lettingAnybodyComplete(f, func() bool { return killed })
	}, "fault/kill", ""},
	"waits for ever": {func(f *faulty) {
		f.wait = context.WithoutCancel
	}, "fault/pause fault/partition", ""},
	"takes silence for a no": {func(f *faulty) {
		f.cut = func(ctx context.Context, op string) error {
			return &backend.Error{Op: op, Kind: backend.ErrUnavailable, Err: context.Cause(ctx)}
		}
	}, "fault/pause", ""},
	"takes silence for a lost lease": {func(f *faulty) {
		f.cut = func(ctx context.Context, op string) error {
			return &backend.Error{Op: op, Kind: backend.ErrLeaseLost, Err: context.Cause(ctx)}
		}
	}, "fault/pause fault/partition", ""},
	"takes silence for a yes": {func(f *faulty) {
		f.cut = func(context.Context, string) error { return nil }
	}, "fault/partition", "fault"},
}
