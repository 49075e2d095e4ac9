package conformance

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/idem-go/idem/backend"
)

var errorCases = []testCase{
	rule("errors/invalid-key", "A key with a part that is empty, too long, not UTF-8 or holds a control character is ErrInvalid for every method.", errorsInvalidKey),
	rule("errors/invalid-claim", "A claim that breaks the contract is ErrInvalid and makes no record.", errorsInvalidClaim),
	rule("errors/invalid-write", "A write that breaks the contract is ErrInvalid and changes nothing.", errorsInvalidWrite),
	rule("errors/cancelled", "A context that has ended gives an error that is NotApplied, for every method, and nothing changes.", errorsCancelled),
	rule("errors/typed", "Errors are *backend.Error and carry no part of a key, a request or a response.", errorsTyped),
}

// every calls every method that takes a key or a lease.
func every(ctx context.Context, e *env, c backend.Claim, l backend.Lease) map[string]error {
	l.Key = c.Key
	_, claimed := e.b.Claim(ctx, c)
	_, got := e.b.Get(ctx, c.Key)
	return map[string]error{
		"Claim": claimed, "Get": got,
		"Renew":      e.b.Renew(ctx, l, time.Hour),
		"Checkpoint": e.b.Checkpoint(ctx, l, point(1, "p", "s")),
		"Complete":   e.b.Complete(ctx, l, answer(1, "done")),
		"Release":    e.b.Release(ctx, l),
	}
}

func errorsInvalidKey(e *env) {
	for what, part := range map[string]string{
		"empty": "", "256 bytes": strings.Repeat("k", 256), "NUL": "a\x00b", "newline": "a\n", "DEL": "a\x7f",
		"C1": "a\u0085", "invalid UTF-8": "a\xffb", "cut rune": "\xe2\x82", "surrogate": "\xed\xa0\x80",
	} {
		for name, set := range map[string]func(*backend.Key){
			"tenant": func(k *backend.Key) { k.Tenant = part },
			"actor":  func(k *backend.Key) { k.Actor = part },
			"key":    func(k *backend.Key) { k.Value = part },
		} {
			c := request("k")
			set(&c.Key)
			for call, err := range every(e.Context(), e, c, backend.Lease{ClaimID: c.ID, Token: 1}) {
				e.invalid(call+"("+name+" "+what+")", err)
			}
		}
	}
	e.sweepNone("a store of refused keys")
}

func (e *env) invalid(call string, err error) {
	e.Helper()
	if !errors.Is(err, backend.ErrInvalid) || !backend.NotApplied(err) {
		e.Errorf("%s = %v, want ErrInvalid", call, err)
	}
}

func errorsInvalidClaim(e *env) {
	long := strings.Repeat("x", backend.MaxPath+1)
	for what, spoil := range map[string]func(*backend.Claim){
		"zero claim id":           func(c *backend.Claim) { c.ID = backend.ClaimID{} },
		"no operation":            func(c *backend.Claim) { c.Operation = "" },
		"long operation":          func(c *backend.Claim) { c.Operation = long },
		"NUL in operation":        func(c *backend.Claim) { c.Operation = "a\x00" },
		"long method":             func(c *backend.Claim) { c.Target.Method = long },
		"NUL in method":           func(c *backend.Claim) { c.Target.Method = "\x00" },
		"long path":               func(c *backend.Claim) { c.Target.Path = long },
		"invalid UTF-8 in path":   func(c *backend.Claim) { c.Target.Path = "\xff" },
		"no fingerprints":         func(c *backend.Claim) { c.Fingerprints = nil },
		"too many fingerprints":   func(c *backend.Claim) { c.Fingerprints = make([]backend.Fingerprint, backend.MaxVersions+1) },
		"no fingerprint version":  func(c *backend.Claim) { c.Fingerprints[0].Version = "" },
		"long version":            func(c *backend.Claim) { c.Fingerprints[0].Version = long },
		"zero lease":              func(c *backend.Claim) { c.Lease = 0 },
		"negative lease":          func(c *backend.Claim) { c.Lease = -time.Second },
		"tiny lease":              func(c *backend.Claim) { c.Lease = time.Microsecond },
		"zero retention":          func(c *backend.Claim) { c.Retention = 0 },
		"negative retention":      func(c *backend.Claim) { c.Retention = -time.Hour },
		"zero abandon":            func(c *backend.Claim) { c.Abandon = 0 },
		"lease > retention":       func(c *backend.Claim) { c.Lease = c.Retention + time.Millisecond },
		"abandon < retention":     func(c *backend.Claim) { c.Abandon = c.Retention - time.Millisecond },
		"endless retention":       func(c *backend.Claim) { c.Retention, c.Abandon = 1<<62, 1<<62 },
		"negative wait":           func(c *backend.Claim) { c.Wait = -1 },
		"payload over its limit":  func(c *backend.Claim) { c.Payload = make([]byte, backend.MaxPayload+1) },
		"control char in version": func(c *backend.Claim) { c.Fingerprints[0].Version = "v\n" },
	} {
		c := request("k")
		spoil(&c)
		_, err := e.b.Claim(e.Context(), c)
		e.invalid("Claim("+what+")", err)
		e.gone("after Claim("+what+")", c.Key)
	}

	// The bounds themselves are valid.
	c := request("bounds")
	c.Lease, c.Retention, c.Abandon = time.Hour, time.Hour, time.Hour
	e.acquire("Claim(lease = retention = abandon)", c)
	c = request("longest durations")
	c.Retention, c.Abandon = backend.MaxDuration, backend.MaxDuration
	e.acquire("Claim(longest durations)", c)
}

func errorsInvalidWrite(e *env) {
	r := e.acquire("Claim", request("k"))
	l := r.Holder()
	zero := l
	zero.ClaimID = backend.ClaimID{}
	long := strings.Repeat("x", 256)
	bad := backend.Completion{Sequence: 1, Response: backend.Response{Tombstone: backend.Tombstone(long)}}
	negative := backend.Completion{Sequence: 1, Response: backend.Response{Status: -1}}
	for call, do := range map[string]func() error{
		"Renew(zero claim id)":        func() error { return e.renew(zero, time.Hour) },
		"Renew(0)":                    func() error { return e.renew(l, 0) },
		"Renew(-1s)":                  func() error { return e.renew(l, -time.Second) },
		"Renew(endless)":              func() error { return e.renew(l, 1<<62) },
		"Checkpoint(zero claim id)":   func() error { return e.checkpoint(zero, point(1, "p", "")) },
		"Checkpoint(sequence 0)":      func() error { return e.checkpoint(l, point(0, "p", "")) },
		"Checkpoint(sequence -1)":     func() error { return e.checkpoint(l, point(-1, "p", "")) },
		"Checkpoint(no point)":        func() error { return e.checkpoint(l, point(1, "", "")) },
		"Checkpoint(long point)":      func() error { return e.checkpoint(l, point(1, long, "")) },
		"Checkpoint(NUL in point)":    func() error { return e.checkpoint(l, point(1, "p\x00", "")) },
		"Checkpoint(point not UTF-8)": func() error { return e.checkpoint(l, point(1, "\xff", "")) },
		"Complete(zero claim id)":     func() error { return e.complete(zero, answer(1, "done")) },
		"Complete(sequence 0)":        func() error { return e.complete(l, answer(0, "done")) },
		"Complete(long tombstone)":    func() error { return e.complete(l, bad) },
		"Complete(negative status)":   func() error { return e.complete(l, negative) },
		"Release(zero claim id)":      func() error { return e.release(zero) },
	} {
		e.still(call, l.Key, backend.ErrInvalid, do)
	}
	for _, limit := range []int{0, -1, backend.MaxSweepRows + 1} {
		_, err := e.b.Sweep(e.Context(), limit)
		e.invalid("Sweep", err)
	}
	e.still("Complete(claim id of a released record)", l.Key, backend.ErrInvalid, func() error { return e.complete(zero, answer(1, "done")) })
	e.ok("Checkpoint", e.checkpoint(l, point(1, "p", "")))
	e.ok("Release", e.release(l))
	e.still("Complete(zero claim id, released)", l.Key, backend.ErrInvalid, func() error { return e.complete(zero, answer(1, "done")) })
}

func errorsCancelled(e *env) {
	ctx, cancel := context.WithCancel(e.Context())
	cancel()
	r := e.acquire("Claim", request("k"))
	e.completed(request("done"))
	fresh := request("fresh")
	for call, err := range every(ctx, e, fresh, r.Holder()) {
		e.cancelled(call, err)
	}
	e.gone("after a cancelled Claim", fresh.Key)
	held := request("k")
	held.ID = r.ClaimID
	for call, err := range every(ctx, e, held, r.Holder()) {
		e.cancelled(call, err)
	}
	e.same("record after cancelled writes", e.get(r.Key), r)
	_, err := e.b.Sweep(ctx, 10)
	e.cancelled("Sweep", err)
}

func (e *env) cancelled(call string, err error) {
	e.Helper()
	if !backend.NotApplied(err) || !errors.Is(err, context.Canceled) {
		e.Errorf("%s(cancelled context) = %v, want an error that is NotApplied and context.Canceled", call, err)
	}
}

func errorsTyped(e *env) {
	c := request("secret-key")
	c.Key.Tenant, c.Key.Actor, c.Target.Path = "secret-tenant", "secret-actor", "/secret-path"
	l := e.acquire("Claim", c).Holder()
	e.ok("Complete", e.complete(l, answer(1, "secret-body")))
	stale := l
	stale.ClaimID = newID()
	missing := request("secret-missing").Key
	_, notFound := e.b.Get(e.Context(), missing)
	bad := c
	bad.Key.Value += "\x00"
	_, invalid := e.b.Claim(e.Context(), bad)
	for call, tt := range map[string]struct{ err, want error }{
		"Renew(stale)":       {e.renew(stale, time.Hour), backend.ErrLeaseLost},
		"Checkpoint(stale)":  {e.checkpoint(stale, point(1, "secret-point", "secret-state")), backend.ErrLeaseLost},
		"Complete(stale)":    {e.complete(stale, answer(1, "secret-body")), backend.ErrLeaseLost},
		"Release(stale)":     {e.release(stale), backend.ErrLeaseLost},
		"Complete(conflict)": {e.complete(l, answer(2, "secret-other")), backend.ErrConflict},
		"Get(missing)":       {notFound, backend.ErrNotFound},
		"Claim(invalid)":     {invalid, backend.ErrInvalid},
	} {
		var typed *backend.Error
		switch {
		case !errors.Is(tt.err, tt.want):
			e.Errorf("%s = %v, want %v", call, tt.err, tt.want)
		case !errors.As(tt.err, &typed) || typed.Op == "":
			e.Errorf("%s = %T, want a *backend.Error that says what was done", call, tt.err)
		case !backend.NotApplied(tt.err):
			e.Errorf("NotApplied(%s) = false, want true", call)
		case strings.Contains(tt.err.Error(), "secret"):
			e.Errorf("%s: the text of the error carries a part of the request", call)
		}
	}
}
