package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/idem-go/idem/backend"
)

// capabilityClock asks processes whose clocks are wrong by an hour about what lasts
// for some minutes by the store's.
func capabilityClock(e *env) {
	c := e.describe().Capabilities
	if e.Skewed == nil {
		e.notShown("the harness lacks %s", PowerSkewed)
	}
	live, done := request("live"), request("done")
	done.Retention = 10 * time.Minute
	e.acquire("Claim", live)
	e.completed(done)

	ahead := e.Skewed(e.T, time.Hour)
	takes := func(c backend.Claim) bool {
		got, err := ahead.Claim(e.Context(), rival(c))
		e.ok("Claim(clock ahead)", err)
		return got.Acquired
	}
	lapses, expires := takes(live), takes(done)
	r, err := ahead.Claim(e.Context(), request("ahead"))
	e.ok("Claim(clock ahead)", err)
	longer := e.get(r.Record.Key).LeaseLeft > r.Record.Lease

	behind := e.Skewed(e.T, -time.Hour)
	_, err = behind.Claim(e.Context(), request("behind"))
	e.ok("Claim(clock behind)", err)
	shorter := e.claim("Claim", rival(request("behind"))).Acquired

	of := map[bool]string{true: "caller", false: "store"}
	if c.Clock == backend.ClockServer {
		moved := lapses || expires || longer || shorter
		e.measured("Clock", "the "+of[moved]+"'s", !moved)
		return
	}
	e.measured("Clock", "the "+of[lapses && expires]+"'s", lapses && expires)
}

// capabilityLease finds out the shortest lease, and the next one.
func capabilityLease(e *env) {
	c := e.describe().Capabilities
	granted := func(ask time.Duration) time.Duration {
		claim := request("lease of " + ask.String())
		claim.Lease = ask
		r := e.claim("Claim", claim).Record
		if r.LeaseLeft > r.Lease {
			e.Errorf("Claim(lease of %v): rest of the lease = %v, want at most what is granted, %v", ask, r.LeaseLeft, r.Lease)
		}
		return r.Lease
	}
	exact := func(d time.Duration) time.Duration { // a lease of a tick is as good as none
		if d <= tick {
			return 0
		}
		return d
	}
	least := granted(tick)
	round := granted(least+tick) - least
	want := c.MinLease
	if r := c.LeaseRound; r > 0 {
		want = max(want, tick) + r - 1
		want -= want % r
	}
	e.measured("MinLease", exact(least), exact(least) == want)
	e.measured("LeaseRound", exact(round), exact(round) == c.LeaseRound)
	for _, ask := range []time.Duration{least, time.Minute, time.Minute + round} {
		if got := granted(ask); got != ask {
			e.Errorf("Claim(lease of %v): granted = %v, want it as asked", ask, got)
		}
	}
}

// capabilityStretch watches a lease end by the store's own time, which the
// records show that are made meanwhile, and another one over a kill: where leases are
// said to last longer, something has to make them.
func capabilityStretch(e *env) {
	c := e.describe().Capabilities
	longer := e.outlasts(hasty("calm"), c.LeaseStretch, e.advance)
	tried, kills := "1 lease", e.Restart != nil && c.DurableKill
	if kills {
		tried = "2 leases, one of them over a kill"
		claim := hasty("killed")
		if c.LeaseStretch > 0 {
			claim.Lease = 4 * time.Second // half of it is time enough to be seen, also on a busy machine
		}
		longer = e.outlasts(claim, c.LeaseStretch, func(lease time.Duration) {
			e.advance(lease / 2)
			e.until("half of the lease is over", func() bool { return e.get(claim.Key).LeaseLeft <= lease/2 })
			e.Restart(e.T)
			e.advance(lease - lease/2)
		}) || longer
	}
	switch {
	case c.LeaseStretch > 0 && !longer && !kills:
		e.notShown("the harness lacks %s", PowerRestart)
	case c.LeaseStretch > 0 && !longer:
		e.measured("LeaseStretch", "none, not even over a kill", false)
	case longer:
		e.measured("LeaseStretch", "some, and no more than that", true)
	default:
		e.measured("LeaseStretch", c.LeaseStretch, true)
	}
	e.tried("%s", tried)
}

// outlasts reports whether a lease was seen alive after its end. If it is alive for
// stretch after it, that is more than what is claimed.
func (e *env) outlasts(claim backend.Claim, stretch time.Duration, wait func(lease time.Duration)) (longer bool) {
	e.Helper()
	r := e.acquire("Claim", claim)
	wait(r.Lease)
	marks := 0
	e.until("the lease lapses", func() bool {
		marks++
		now := e.persistClaim(request(fmt.Sprint(claim.Key.Value, " ", marks))).Record.CreatedAt
		if r, _ := e.insist(claim.Key); r.LeaseLeft == 0 {
			return true
		}
		late := now.Sub(r.CreatedAt) - r.Lease
		if late >= stretch {
			e.measured("LeaseStretch", fmt.Sprintf("over %v", stretch), false)
			e.Fatalf("a lease of %v is alive %v after its end", r.Lease, late)
		}
		longer = longer || late > 0
		return false
	})
	return longer
}

// tokenBreaks are the words of Capabilities.TokensBreakOn.
var tokenBreaks = []string{"failover", "clock step", "restore", "process end"}

func capabilityTokens(e *env) {
	c := e.describe().Capabilities
	for _, name := range c.TokensBreakOn {
		if !slices.Contains(tokenBreaks, name) {
			e.Errorf("TokensBreakOn has %q, want of %q", name, tokenBreaks)
		}
	}
	claim := request("k")
	last := e.acquire("Claim", claim).Holder()
	e.ok("Release", e.release(last))
	var over, not []string
	grow := func(what string, b backend.Backend) {
		e.Helper()
		claim.ID = newID()
		var next backend.Lease
		e.ok("Claim after "+what, e.persist(func(ctx context.Context) error {
			got, err := b.Claim(ctx, claim)
			next = got.Record.Holder()
			return err
		}))
		if next.Token > last.Token {
			over = append(over, what)
		} else {
			not = append(not, what)
		}
		e.ok("Release", e.persist(func(ctx context.Context) error { return b.Release(ctx, next) }))
		last = next
	}
	if e.Restart != nil && !slices.Contains(c.TokensBreakOn, "process end") {
		e.Restart(e.T)
		grow("a kill", e.b)
	}
	if e.Skewed != nil && !slices.Contains(c.TokensBreakOn, "clock step") {
		grow("a clock that is behind", e.Skewed(e.T, -time.Hour))
	}
	switch {
	case not != nil:
		e.measured("TokensBreakOn", "broken by "+strings.Join(not, ", "), false)
	case over != nil:
		e.measured("TokensBreakOn", "grow over "+strings.Join(over, ", "), true)
	default:
		e.notShown("the harness lacks %s and %s, or what they do is named", PowerRestart, PowerSkewed)
	}
}
