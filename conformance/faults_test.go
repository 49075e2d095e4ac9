package conformance_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
)

type rec = backend.Record

// seeing makes the machine take messages of type M, and the record they arrive at,
// for others than they are.
func seeing[M machine.Message](change func(r *rec, m *M, now time.Time)) func(f *faulty) {
	return machined(func(r *rec, m machine.Message, now time.Time) (*rec, machine.Outcome) {
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
	})
}

// leaving makes the machine leave another record behind when a message of type M
// changes one.
func leaving[M machine.Message](change func(before, after *rec, m M, now time.Time)) func(f *faulty) {
	return machined(func(r *rec, m machine.Message, now time.Time) (*rec, machine.Outcome) {
		after, out := machine.Step(r, m, now)
		c, ok := m.(M)
		if !ok || !out.Changed || after == nil {
			return after, out
		}
		if r == nil {
			r = &rec{}
		}
		n := *after
		change(r, &n, c, now)
		left := out.Claimed.Record.LeaseLeft
		if out.Claimed.Acquired {
			out.Claimed.Record = n
			out.Claimed.Record.LeaseLeft = left
		}
		return &n, out
	})
}

func machined(step stepFunc) func(f *faulty) { return func(f *faulty) { f.step = step } }

// identified makes keys one that are none.
func identified(id func(k backend.Key) backend.Key) func(f *faulty) {
	return func(f *faulty) { f.identity = id }
}

func storing(keep func(r *rec)) func(f *faulty) {
	return func(f *faulty) {
		f.keep = func(r rec) rec {
			r = r.Clone()
			keep(&r)
			return r
		}
	}
}

// planted is a fault that breaks one rule. caught are cases that have to find it,
// groups are those whose other cases may.
type planted struct {
	fault          func(f *faulty)
	caught, groups string
}

var faults = map[string]planted{
	// Claims.
	"takes over early": {seeing(func(r *rec, m *machine.Claim, _ time.Time) {
		if r.ClaimID != m.ID {
			r.LockedUntil = time.Time{}
		}
	}), "table/in-progress claim/not-before-lapse lease/renew-extends", "claim key lease lifecycle table"},
	"never takes over": {seeing(func(r *rec, m *machine.Claim, now time.Time) {
		if r.ClaimID != m.ID && r.ClaimID != (backend.ClaimID{}) && r.Status == backend.Started {
			r.LockedUntil = now.Add(time.Hour)
		}
	}), "table/takeover claim/not-before-lapse lease/renew-extends", "claim complete fence key lease lifecycle table"},
	"compares nothing": {seeing(func(r *rec, m *machine.Claim, _ time.Time) { r.Target, r.Fingerprint = m.Target, m.Fingerprints[0] }), "table/mismatch table/mismatch-same-id", "table complete"},
	"compares only what completed": {seeing(func(r *rec, m *machine.Claim, _ time.Time) {
		if r.Status == backend.Started {
			r.Target, r.Fingerprint = m.Target, m.Fingerprints[0]
		}
	}), "table/mismatch table/mismatch-same-id table/takeover", ""},
	"compares the target only": {seeing(func(r *rec, m *machine.Claim, _ time.Time) { r.Fingerprint = m.Fingerprints[0] }), "table/mismatch table/mismatch-same-id", "table complete"},
	"compares the newest version only": {seeing(func(r *rec, m *machine.Claim, _ time.Time) {
		m.Fingerprints = m.Fingerprints[:1]
	}), "table/takeover", ""},
	"compares the operation": {seeing(func(r *rec, m *machine.Claim, _ time.Time) {
		if r.Operation != m.Operation {
			m.Target.Path += "?"
		}
	}), "table/takeover claim/retention-over", ""},
	"locks its own caller out": {seeing(func(r *rec, m *machine.Claim, now time.Time) {
		if r.ClaimID == m.ID {
			m.ID[0]++
		}
	}), "table/same-id-alive table/same-id-lapsed", ""},
	"gives a lapsed claim of its own a new token": {seeing(func(r *rec, m *machine.Claim, now time.Time) {
		if machine.LeaseLeft(*r, now) == 0 {
			r.ClaimID = backend.ClaimID{}
		}
	}), "table/same-id-lapsed", "complete sweep table"},
	"runs a completed claim id again": {seeing(func(r *rec, m *machine.Claim, now time.Time) {
		if r.ClaimID == m.ID {
			r.Status = backend.Started
		}
	}), "table/mismatch-same-id table/replay", ""},
	"takes over against RefuseTakeover": {seeing(func(_ *rec, m *machine.Claim, _ time.Time) { m.RefuseTakeover = false }), "table/takeover-refused", ""},
	"resumes nothing with RefuseTakeover": {seeing(func(r *rec, m *machine.Claim, _ time.Time) {
		if m.RefuseTakeover && r.ClaimID != m.ID && r.Status == backend.Started {
			r.RecoveryPoint = ""
		}
	}), "table/in-progress table/takeover-released table/takeover-at-point", ""},
	"resumes from the start":           {leaving(func(_, after *rec, _ machine.Claim, _ time.Time) { after.RecoveryPoint, after.State = "", nil }), "table/takeover table/takeover-at-point sweep/revive", "lease lifecycle table"},
	"keeps the sequence at a takeover": {leaving(func(before, after *rec, _ machine.Claim, _ time.Time) { after.Sequence = before.Sequence }), "table/takeover", "claim complete fence lifecycle sweep table"},
	"counts no attempts":               {leaving(func(_, after *rec, _ machine.Claim, _ time.Time) { after.Attempt = 1 }), "table/takeover table/takeover-released lease/release-resumed lifecycle/whole", "lease lifecycle table"},
	"stores the payload of a takeover": {leaving(func(_, after *rec, m machine.Claim, _ time.Time) { after.Payload = m.Payload }), "table/same-id-lapsed table/takeover", "table"},
	"keeps the durations of the first claim": {leaving(func(before, after *rec, _ machine.Claim, _ time.Time) {
		if before.Retention > 0 {
			after.Retention, after.Abandon = before.Retention, before.Abandon
		}
	}), "table/retention-over table/takeover claim/retention-over", "claim table"},
	"lets an expired record replay": {seeing(func(r *rec, m *machine.Claim, _ time.Time) { r.Retention *= 2 }), "table/retention-over claim/retention-over", "claim complete fence key sweep table"},
	"compares with an expired record": {seeing(func(r *rec, m *machine.Claim, now time.Time) {
		if machine.Expired(*r, now) && m.Compare(*r) != backend.Same {
			r.Retention *= 100
		}
	}), "table/retention-over claim/retention-over", ""},
	"claims in two steps": {func(f *faulty) { f.gap = func() { time.Sleep(5 * time.Millisecond) } }, "claim/race-fresh", "claim fence sweep"},

	// Tokens and owners.
	"restarts tokens":               {func(f *faulty) { f.floor = false }, "fence/token-grows", ""},
	"keeps the token":               {leaving(func(before, after *rec, _ machine.Claim, _ time.Time) { after.Token = max(before.Token, 1) }), "table/retention-over table/takeover fence/token-grows", "fence table"},
	"compares the token only":       {seeingLease(func(r *rec, l *backend.Lease) { l.ClaimID = r.ClaimID }), "table/other-claim-id table/released errors/typed", "errors table"},
	"compares the claim id only":    {seeingLease(func(r *rec, l *backend.Lease) { l.Token = r.Token }), "table/lower-token table/higher-token table/completed-other-token", ""},
	"renews for a stale owner":      {seeing(func(r *rec, m *machine.Renew, _ time.Time) { m.Lease = r.Holder() }), "table/other-claim-id table/lower-token fence/zombie errors/typed", "errors fence table"},
	"checkpoints for a stale owner": {seeing(func(r *rec, m *machine.Checkpoint, _ time.Time) { m.Lease = r.Holder() }), "table/other-claim-id table/lower-token fence/zombie errors/typed", "errors fence table"},
	"completes for a stale owner":   {seeing(func(r *rec, m *machine.Complete, _ time.Time) { m.Lease = r.Holder() }), "table/other-claim-id table/lower-token fence/zombie errors/typed", "errors fence table"},
	"releases for a stale owner":    {seeing(func(r *rec, m *machine.Release, _ time.Time) { m.Lease = r.Holder() }), "table/other-claim-id table/lower-token fence/zombie errors/typed", "errors fence table"},
	"refuses lapsed owners": {seeing(func(r *rec, m *machine.Complete, now time.Time) {
		if r.Status == backend.Started && machine.LeaseLeft(*r, now) == 0 {
			m.Lease.Token--
		}
	}), "table/complete", "fence sweep table"},

	// Leases.
	"shortens a lease": {machined(func(r *rec, m machine.Message, now time.Time) (*rec, machine.Outcome) {
		after, out := machine.Step(r, m, now)
		if c, ok := m.(machine.Renew); ok && out.Err == nil && after.Status == backend.Started {
			n := *after
			n.LockedUntil = now.Add(c.TTL)
			return &n, machine.Outcome{Changed: true}
		}
		return after, out
	}), "table/renew-shorter", ""},
	"renews half": {seeing(func(r *rec, m *machine.Renew, _ time.Time) { m.TTL /= 2 }), "lease/renew-extends", ""},
	"checkpoints extend the lease": {leaving(func(_, after *rec, _ machine.Checkpoint, _ time.Time) {
		after.LockedUntil = after.LockedUntil.Add(time.Second)
	}), "table/checkpoint", "complete lease lifecycle sweep table"},
	"tells the whole lease": {func(f *faulty) {
		f.show = func(r rec) rec {
			r = r.Clone()
			if machine.LeaseLeft(r, f.now()) > 0 {
				r.LeaseLeft = r.Lease
			}
			return r
		}
	}, "lease/left-falls", ""},
	"deletes at a point on release": {seeing(func(r *rec, _ *machine.Release, _ time.Time) {
		if r.Status == backend.Started {
			r.RecoveryPoint = ""
		}
	}), "table/release-at-point", "lease lifecycle table"},
	"deletes what a resumed run releases": {seeing(func(r *rec, _ *machine.Release, _ time.Time) {
		if r.Status == backend.Started && r.Sequence == 0 {
			r.RecoveryPoint = ""
		}
	}), "lease/release-resumed", ""},
	"keeps what is released": {seeing(func(r *rec, _ *machine.Release, _ time.Time) {
		if r.RecoveryPoint == "" {
			r.RecoveryPoint = "-"
		}
	}), "table/new table/release fence/token-grows", ""},
	"keeps the lease of what is released":    {leaving(func(before, after *rec, _ machine.Release, _ time.Time) { after.LockedUntil = before.LockedUntil }), "table/takeover-released table/release-at-point lease/release-resumed fence/token-grows", "fence lease lifecycle table"},
	"keeps the claim id of what is released": {leaving(func(before, after *rec, _ machine.Release, _ time.Time) { after.ClaimID = before.ClaimID }), "table/takeover-released table/release-at-point table/released", ""},
	"releases what is completed": {seeing(func(r *rec, m *machine.Release, _ time.Time) {
		if r.Status == backend.Completed {
			r.Status = backend.Started
		}
	}), "table/completed-writes sweep/tombstone", ""},

	"refuses a release sent again": {machined(func(r *rec, m machine.Message, now time.Time) (*rec, machine.Outcome) {
		if _, ok := m.(machine.Release); ok && (r == nil || r.ClaimID == backend.ClaimID{}) {
			return r, machine.Outcome{Err: backend.ErrLeaseLost}
		}
		return machine.Step(r, m, now)
	}), "table/released-again table/none-release", ""},
	"renews what is not there": {machined(func(r *rec, m machine.Message, now time.Time) (*rec, machine.Outcome) {
		if _, ok := m.(machine.Renew); ok && r == nil {
			return nil, machine.Outcome{}
		}
		return machine.Step(r, m, now)
	}), "table/none", ""},
	"counts a renewal as a write": {leaving(func(_, after *rec, _ machine.Renew, _ time.Time) { after.Sequence++ }), "table/renew sweep/live", ""},

	// Checkpoints and completions.
	"takes late checkpoints": {seeing(func(r *rec, m *machine.Checkpoint, _ time.Time) {
		if r.Status == backend.Started && m.Sequence < r.Sequence {
			r.Sequence = 0
		}
	}), "table/checkpoint-lower checkpoint/gap", ""},
	"overwrites checkpoints": {seeing(func(r *rec, m *machine.Checkpoint, _ time.Time) {
		if r.Status == backend.Started && m.Sequence == r.Sequence {
			r.Sequence--
		}
	}), "table/checkpoint-equal-other", ""},
	"refuses a checkpoint sent again": {seeing(func(r *rec, m *machine.Checkpoint, _ time.Time) { r.RecoveryPoint += "-" }), "table/checkpoint-equal checkpoint/retry", ""},
	"wants sequences without gaps": {seeing(func(r *rec, m *machine.Checkpoint, _ time.Time) {
		if m.Sequence > r.Sequence+20 {
			m.Sequence = r.Sequence
		}
	}), "checkpoint/gap", ""},
	"checkpoints what is completed": {seeing(func(r *rec, m *machine.Checkpoint, _ time.Time) { r.Status = backend.Started }), "table/completed-writes sweep/tombstone", ""},
	"tells nil from empty": {machined(func(r *rec, m machine.Message, now time.Time) (*rec, machine.Outcome) {
		if c, ok := m.(machine.Checkpoint); ok && r != nil && c.Sequence == r.Sequence && (c.State == nil) != (r.State == nil) {
			return r, machine.Outcome{Err: backend.ErrConflict}
		}
		return machine.Step(r, m, now)
	}), "checkpoint/retry", "errors"},
	"completes twice": {seeing(func(r *rec, m *machine.Complete, _ time.Time) {
		if r.Status == backend.Completed && m.Sequence >= r.Sequence {
			r.Status, r.Sequence = backend.Started, m.Sequence-1
		}
	}), "table/completed-again table/completed-other sweep/tombstone errors/typed", "errors sweep table"},
	"refuses a completion sent again": {seeing(func(r *rec, m *machine.Complete, _ time.Time) {
		if r.Status == backend.Completed {
			r.Response.Status++
		}
	}), "table/completed-again complete/empty", "complete table"},
	"takes late completions":                               {seeing(func(r *rec, m *machine.Complete, _ time.Time) { r.Sequence = 0 }), "table/complete-lower table/complete-equal", ""},
	"forgets the fingerprint on completion":                {leaving(func(_, after *rec, _ machine.Complete, _ time.Time) { after.Fingerprint = backend.Fingerprint{} }), "table/complete table/replay", "table complete"},
	"knows a completed fingerprint where it was completed": {func(f *faulty) { f.warm = true }, "complete/cold", "lifecycle"},
	"keeps the state on completion": {leaving(func(before, after *rec, _ machine.Complete, _ time.Time) {
		after.State, after.Payload = before.State, before.Payload
	}), "table/complete", ""},
	"counts the retention from the claim": {leaving(func(before, after *rec, _ machine.Complete, _ time.Time) { after.CompletedAt = before.CreatedAt }), "complete/retention lifecycle/times", ""},
	"forgets when":                        {leaving(func(_, after *rec, _ machine.Claim, _ time.Time) { after.CreatedAt = time.Time{} }), "lifecycle/times", ""},
	"refuses late completions": {machined(func(r *rec, m machine.Message, now time.Time) (*rec, machine.Outcome) {
		if c, ok := m.(machine.Complete); ok && r != nil && r.Holder() == c.Lease && c.Sequence < r.Sequence {
			return r, machine.Outcome{Err: backend.ErrConflict}
		}
		return machine.Step(r, m, now)
	}), "table/complete-lower table/completed-lower", ""},

	// Bytes and keys.
	"drops the header": {storing(func(r *rec) { r.Response.Header = nil }), "table/complete table/completed-again complete/bytes complete/tombstone", "complete lifecycle table"},
	"ends at a NUL":    {storing(func(r *rec) { r.Response.Body, _, _ = bytes.Cut(r.Response.Body, []byte{0}) }), "complete/bytes", ""},
	"cuts long states": {storing(func(r *rec) { r.State = r.State[:min(len(r.State), 1<<16)] }), "checkpoint/bytes", ""},
	"mends UTF-8":      {storing(func(r *rec) { r.State = bytes.ToValidUTF8(r.State, nil) }), "checkpoint/bytes", ""},
	"stores no empty answer": {seeing(func(r *rec, m *machine.Complete, _ time.Time) {
		if r.Status == backend.Started && m.Response.Size() == 0 && m.Response.Tombstone == "" {
			m.Sequence = 0
		}
	}), "complete/empty", ""},
	"loses tombstones":         {storing(func(r *rec) { r.Response.Tombstone = "" }), "complete/tombstone sweep/tombstone sweep/tombstone-completed sweep/revive", ""},
	"aliases what it is given": {func(f *faulty) { f.keep = func(r rec) rec { return r } }, "lifecycle/bytes-copied", ""},
	"aliases what it returns":  {func(f *faulty) { f.show = func(r rec) rec { return r } }, "lifecycle/bytes-copied", ""},
	"trims keys":               {identified(func(k backend.Key) backend.Key { k.Value = strings.TrimSpace(k.Value); return k }), "key/bytes", ""},
	"lower-cases keys":         {identified(func(k backend.Key) backend.Key { k.Value = strings.ToLower(k.Value); return k }), "key/bytes", ""},
	"cuts long keys":           {identified(func(k backend.Key) backend.Key { k.Value = k.Value[max(0, len(k.Value)-254):]; return k }), "key/longest", ""},
	"joins the scope":          {identified(func(k backend.Key) backend.Key { return backend.Key{Value: k.Tenant + ":" + k.Actor + ":" + k.Value} }), "key/separators", ""},
	"forgets the actor":        {identified(func(k backend.Key) backend.Key { k.Actor = ""; return k }), "key/scope key/separators", ""},
	"evicts":                   {func(f *faulty) { f.capacity = 20 }, "key/bytes lifecycle/many-keys", "key lifecycle sweep table"},

	// Clocks, sweeps, errors.
	"uses another clock": {func(f *faulty) {
		now := f.now
		f.now = func() time.Time { return epoch.Add(now().Sub(epoch) / 2) } // a slow one
	}, "claim/not-before-lapse claim/retention-over lease/renew-extends", "claim complete fence get lease lifecycle sweep table"},
	"sweeps the living":    {seeing(func(r *rec, _ *machine.Sweep, _ time.Time) { r.LockedUntil = time.Time{} }), "sweep/live", ""},
	"sweeps the resumable": {seeing(func(r *rec, _ *machine.Sweep, _ time.Time) { r.RecoveryPoint = "" }), "sweep/live sweep/activity sweep/tombstone sweep/revive", ""},
	"sweeps the retained": {machined(func(r *rec, m machine.Message, now time.Time) (*rec, machine.Outcome) {
		after, out := machine.Step(r, m, now)
		switch m.(type) {
		case machine.Complete:
			if out.Changed {
				after.ExpiresAt = r.ExpiresAt
			}
		case machine.Sweep:
			if out.Changed && r.Status == backend.Completed && r.Response.Tombstone == "" {
				return nil, out
			}
		}
		return after, out
	}), "complete/retention", "complete sweep"},
	"sweeps by the age of the claim": {seeing(func(r *rec, _ *machine.Sweep, _ time.Time) { r.UpdatedAt = r.CreatedAt }), "sweep/activity", ""},
	"sweeps tombstones": {seeing(func(r *rec, _ *machine.Sweep, _ time.Time) {
		if r.Response.Tombstone == backend.Abandoned {
			r.Response.Tombstone = backend.Streamed
		}
	}), "sweep/tombstone-completed", ""},
	"never revives":         {seeing(func(_ *rec, c *machine.Claim, _ time.Time) { c.Revive = false }), "sweep/revive", ""},
	"revives for everybody": {seeing(func(_ *rec, c *machine.Claim, _ time.Time) { c.Revive = true }), "sweep/tombstone sweep/tombstone-completed", ""},
	"revives without what was saved": {leaving(func(_, after *rec, c machine.Claim, _ time.Time) {
		if c.Revive {
			after.RecoveryPoint, after.State = "", nil
		}
	}), "sweep/revive", ""},
	"sweeps for ever":       {leaving(func(_, after *rec, _ machine.Sweep, now time.Time) { after.ExpiresAt = now }), "sweep/tombstone sweep/tombstone-completed sweep/not-starved", ""},
	"never sweeps":          {seeing(func(r *rec, _ *machine.Sweep, _ time.Time) { r.ExpiresAt = time.Time{} }), "sweep/retention sweep/abandoned sweep/exact sweep/limit", "fence get sweep"},
	"sweeps over its limit": {func(f *faulty) { f.sweep = func(limit int, c []backend.Key) (int, int) { return limit + 1, len(c) } }, "sweep/limit sweep/exact sweep/not-starved", ""},
	"counts no swept ones":  {func(f *faulty) { f.sweep = func(limit int, _ []backend.Key) (int, int) { return limit, 0 } }, "sweep/limit sweep/exact", ""},
	"counts what is not there": {func(f *faulty) {
		f.sweep = func(limit int, c []backend.Key) (int, int) { return limit, max(1, len(c)) }
	}, "sweep/nothing sweep/tombstone-completed errors/invalid-key", "errors sweep"},
	"ignores ended contexts": {func(f *faulty) { f.done = func(context.Context, string) error { return nil } }, "errors/cancelled", ""},
	"checks nothing":         {func(f *faulty) { f.check = func(error) error { return nil } }, "errors/invalid-key errors/invalid-claim", "errors"},
	"reads what was":         {func(f *faulty) { f.stale = true }, "get/fresh lifecycle/whole", ""},
	"writes on reads":        {func(f *faulty) { f.read = func(r *rec) { r.UpdatedAt = f.now() } }, "get/reads-only", "get sweep"},
	"returns bare errors":    {func(f *faulty) { f.fail = func(_ backend.Key, kind error, _ string) error { return kind } }, "errors/typed", ""},
	"tells keys in errors": {func(f *faulty) {
		f.fail = func(k backend.Key, kind error, op string) error {
			return &backend.Error{Op: op, Kind: kind, Err: fmt.Errorf("key %s", k.Value)}
		}
	}, "errors/typed", ""},
	"finds what is missing": {func(f *faulty) {
		fail := f.fail
		f.fail = func(k backend.Key, kind error, op string) error {
			if errors.Is(kind, backend.ErrNotFound) {
				return nil
			}
			return fail(k, kind, op)
		}
	}, "get/missing", "errors fence get sweep table"},
	"has no name": {func(f *faulty) {
		f.describe = func(d backend.Description) backend.Description { d.Name = ""; return d }
	}, "lifecycle/describe", ""},
}

// seeingLease is seeing for all writes of a holder.
func seeingLease(change func(r *rec, l *backend.Lease)) func(f *faulty) {
	return machined(func(r *rec, m machine.Message, now time.Time) (*rec, machine.Outcome) {
		if r != nil {
			switch c := m.(type) {
			case machine.Renew:
				change(r, &c.Lease)
				m = c
			case machine.Checkpoint:
				change(r, &c.Lease)
				m = c
			case machine.Complete:
				change(r, &c.Lease)
				m = c
			case machine.Release:
				change(r, &c.Lease)
				m = c
			}
		}
		return machine.Step(r, m, now)
	})
}
