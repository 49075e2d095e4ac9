package redis_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/redis"
)

// a Lua number has 53 bits. What a caller may choose freely is an int64.
func TestNumbersBeyond2To53(t *testing.T) {
	t.Parallel()
	b, _, _ := started(t)
	const big = backend.Sequence(1 << 53)
	r := acquire(t, b, request("sequence"))
	l := r.Holder()
	for _, seq := range []backend.Sequence{9, 10, big, big + 1, math.MaxInt64 - 1} {
		must(t, b.Checkpoint(t.Context(), l, point(seq, "p")))
		if got := get(t, b, l.Key).Sequence; got != seq {
			t.Errorf("sequence = %d, want %d", got, seq)
		}
		must(t, b.Checkpoint(t.Context(), l, point(seq-1, "late")))
		if got := get(t, b, l.Key); got.Sequence != seq || got.RecoveryPoint != "p" {
			t.Errorf("Checkpoint(%d after %d) stored %q at %d, want it late", seq-1, seq, got.RecoveryPoint, got.Sequence)
		}
		if err := b.Checkpoint(t.Context(), l, point(seq, "other")); !errors.Is(err, backend.ErrConflict) {
			t.Errorf("Checkpoint(%d again, other) = %v, want ErrConflict", seq, err)
		}
	}
	for _, by := range []backend.Token{1, -1, 1 << 53, 1 << 62, -1 << 62} {
		other := l
		other.Token += by
		if err := b.Renew(t.Context(), other, time.Hour); !errors.Is(err, backend.ErrLeaseLost) {
			t.Errorf("Renew(token %+d) = %v, want ErrLeaseLost", by, err)
		}
	}
	c := completion("done")
	c.Sequence, c.Response.Status = math.MaxInt64, backend.MaxStatus
	must(t, b.Complete(t.Context(), l, c))
	if got := get(t, b, l.Key); got.Sequence != math.MaxInt64 || got.Response.Status != backend.MaxStatus {
		t.Errorf("completed at %d with status %d, want the largest of both", got.Sequence, got.Response.Status)
	}
	c.Response.Status--
	if err := b.Complete(t.Context(), l, c); !errors.Is(err, backend.ErrConflict) {
		t.Errorf("Complete(status one lower) = %v, want ErrConflict", err)
	}

	long := request("durations")
	long.Lease, long.Retention, long.Abandon = backend.MaxDuration, backend.MaxDuration, backend.MaxDuration
	if got := acquire(t, b, long); got.Lease != backend.MaxDuration || !got.ExpiresAt.Equal(got.CreatedAt.Add(2*backend.MaxDuration)) {
		t.Errorf("record of the longest durations: lease %v, expires %v after it was made", got.Lease, got.ExpiresAt.Sub(got.CreatedAt))
	}
	odd := request("nanoseconds")
	odd.Lease += time.Nanosecond
	if got := acquire(t, b, odd); got.Lease != time.Minute+time.Microsecond || !got.LockedUntil.Equal(got.CreatedAt.Add(got.Lease)) {
		t.Errorf("lease of a minute and a nanosecond = %v, want it rounded up to a microsecond", got.Lease)
	}
}

// tokens keep growing after the record is deleted or has expired, and when the clock
// was set back.
func TestTokensGrow(t *testing.T) {
	t.Parallel()
	b, client, _ := started(t)
	var last backend.Token
	for range 20 {
		r := acquire(t, b, request("k"))
		if r.Token <= last {
			t.Fatalf("token = %d after %d, want it to grow", r.Token, last)
		}
		last = r.Token
		must(t, b.Release(t.Context(), r.Holder()))
	}
	brief := request("brief")
	brief.Lease, brief.Retention, brief.Abandon = time.Millisecond, time.Millisecond, time.Millisecond
	expired := acquire(t, b, brief)
	until(t, "the record expires", func() bool {
		n, err := client.Exists(t.Context(), b.KeyOf(brief.Key)).Result()
		return err == nil && n == 0
	})
	if r := acquire(t, b, request("brief")); r.Token <= expired.Token || r.Attempt != 1 {
		t.Errorf("token = %d at attempt %d after %d and its expiry, want it higher at the first", r.Token, r.Attempt, expired.Token)
	}
	c := request("ahead")
	r := acquire(t, b, c)
	must(t, b.Checkpoint(t.Context(), r.Holder(), point(1, "p")))
	must(t, b.Release(t.Context(), r.Holder()))
	const ahead = 1<<53 - 2 // as if the clock had been set back since
	must(t, client.HSet(t.Context(), b.KeyOf(c.Key), "token", int64(ahead)).Err())
	if r := acquire(t, b, request("ahead")); r.Token != ahead+1 {
		t.Errorf("token after %d = %d, want one more", int64(ahead), r.Token)
	}
}

// the server may forget the scripts at any time.
func TestScriptsAreForgotten(t *testing.T) {
	t.Parallel()
	b, client, srv := privately(t, "appendonly=yes", "appendfsync=always")
	for name, forget := range map[string]func(){
		"flush":   func() { must(t, client.ScriptFlush(t.Context()).Err()) },
		"restart": func() { srv.Restart(t) },
	} {
		held := request(name)
		r := acquire(t, b, held)
		l := r.Holder()
		for call, do := range map[string]func() error{
			"Get":        func() error { _, err := b.Get(t.Context(), l.Key); return err },
			"Claim":      func() error { _, err := b.Claim(t.Context(), held); return err },
			"Renew":      func() error { return b.Renew(t.Context(), l, time.Hour) },
			"Checkpoint": func() error { return b.Checkpoint(t.Context(), l, point(1, "p")) },
			"Sweep":      func() error { _, err := b.Sweep(t.Context(), 10); return err },
		} {
			forget()
			if err := do(); err != nil {
				t.Errorf("%s after a %s = %v, want nil", call, name, err)
			}
		}
		forget()
		must(t, b.Complete(t.Context(), l, completion("done")))
		forget()
		must(t, b.Release(t.Context(), l))
		if got := get(t, b, l.Key); string(got.Response.Body) != "done" {
			t.Errorf("body = %q, want done", got.Response.Body)
		}
	}
}

// the server deletes what is over and nothing else (hard case 30): a completed record
// lives for its retention, not its lease, and one with a recovery point for ever.
func TestNativeExpiry(t *testing.T) {
	t.Parallel()
	b, client, _ := started(t)
	c := request("k")
	ttl := func(when string, want time.Duration) {
		t.Helper()
		got, err := client.PTTL(t.Context(), b.KeyOf(c.Key)).Result()
		if err != nil || want < 0 && got != want || want > 0 && (got <= want-time.Minute || got > want+time.Millisecond) {
			t.Errorf("TTL %s = %v, %v, want %v or a moment less", when, got, err, want)
		}
	}
	const none = -1
	r := acquire(t, b, c)
	ttl("of a started record", c.Abandon)
	must(t, b.Renew(t.Context(), r.Holder(), 30*24*time.Hour))
	ttl("of a lease beyond its age", 30*24*time.Hour)
	must(t, b.Checkpoint(t.Context(), r.Holder(), point(1, "p")))
	ttl("past a recovery point", none)
	must(t, b.Renew(t.Context(), r.Holder(), 60*24*time.Hour))
	ttl("renewed past a recovery point", none)
	must(t, b.Release(t.Context(), r.Holder()))
	ttl("released past a recovery point", none)
	next := request("k")
	r = acquire(t, b, next)
	ttl("resumed", none)
	must(t, b.Complete(t.Context(), r.Holder(), completion("x")))
	ttl("of a completed record", c.Lease+c.Retention)

	c = request("abandoned")
	r = acquire(t, b, c)
	must(t, b.Complete(t.Context(), r.Holder(), backend.Completion{Sequence: 1, Response: backend.Response{Tombstone: backend.Abandoned}}))
	ttl("of a tombstone that waits for a person", none)

	c = request("brief")
	c.Lease, c.Retention, c.Abandon = time.Millisecond, time.Millisecond, time.Millisecond
	acquire(t, b, c)
	until(t, "the server deletes an abandoned record", func() bool {
		n, err := client.Exists(t.Context(), b.KeyOf(c.Key)).Result()
		return err == nil && n == 0
	})
}

// A sweep walks its own keys only, however many there are, and leaves those of others alone.
func TestSweepFindsWhatIsAbandoned(t *testing.T) {
	t.Parallel()
	b, client, srv := started(t)
	other := newBackend(t, client, redis.WithPrefix(strings.Replace(srv.Prefix, "test_", "t?st_", 1)))
	t.Cleanup(func() { must(t, client.Del(context.Background(), other.KeyOf(request("k").Key)).Err()) })
	must(t, client.Set(t.Context(), srv.Prefix+"not a record", "x", 0).Err())
	const brief = time.Second // the server deletes a record that has no recovery point by then
	abandon := func(b *redis.Backend, key string) {
		c := request(key)
		c.Lease, c.Retention, c.Abandon = brief, brief, brief
		r := acquire(t, b, c)
		must(t, b.Checkpoint(t.Context(), r.Holder(), point(1, "p")))
	}
	const records, many = 7, 1500
	pipe := client.Pipeline()
	for i := range many { // keys between ours, so that one SCAN does not do
		pipe.HSet(t.Context(), srv.Prefix+"filler"+strings.Repeat("x", i%9)+string(rune('a'+i%26))+time.Duration(i).String(), "f", i)
	}
	_, err := pipe.Exec(t.Context())
	must(t, err)
	for i := range records {
		abandon(b, string(rune('a'+i)))
	}
	abandon(b, "last")
	abandon(other, "k")
	until(t, "the last one is abandoned", func() bool {
		now, err := client.Time(t.Context()).Result()
		return err == nil && now.After(get(t, other, request("k").Key).UpdatedAt.Add(2*brief+5*time.Millisecond))
	})
	if n, err := other.Sweep(t.Context(), 100); n != 1 || err != nil { // its prefix is no pattern
		t.Errorf("Sweep of the other prefix = %d, %v, want its one record", n, err)
	}
	var total int
	for _, want := range []int{3, 3, 2, 0} {
		n, err := b.Sweep(t.Context(), 3)
		if n != want || err != nil {
			t.Errorf("Sweep(3) after %d = %d, %v, want %d", total, n, err, want)
		}
		total += n
	}
	for i := range records {
		if r := get(t, b, request(string(rune('a'+i))).Key); r.Response.Tombstone != backend.Abandoned || string(r.State) != "state of p" {
			t.Errorf("record %d is %v with tombstone %q, want it abandoned with its state", i, r.Status, r.Response.Tombstone)
		}
	}
}

// a lease that is over takes neither the recovery point nor what is compared with it.
func TestRecoveryPointOutlivesItsLease(t *testing.T) {
	t.Parallel()
	b, _, _ := started(t)
	c := request("k")
	c.Lease = 300 * time.Millisecond
	old := acquire(t, b, c)
	must(t, b.Checkpoint(t.Context(), old.Holder(), point(1, "charged")))
	until(t, "the lease is over", func() bool { return get(t, b, c.Key).LeaseLeft == 0 })
	other := request("k")
	other.Target.Path = "/refunds"
	if got, err := b.Claim(t.Context(), other); err != nil || got.Acquired {
		t.Errorf("Claim(other request) = acquired %v, %v, want the record as it stands", got.Acquired, err)
	}
	if r := acquire(t, b, request("k")); r.RecoveryPoint != "charged" || string(r.State) != "state of charged" || r.Token <= old.Token {
		t.Errorf("resumed at %q with %q, token %d after %d, want it where the lease left it", r.RecoveryPoint, r.State, r.Token, old.Token)
	}
}

// Something else's key is found by the first command of a script.
func TestKeyOfSomethingElse(t *testing.T) {
	t.Parallel()
	b, client, _ := started(t)
	c := request("k")
	must(t, client.Set(t.Context(), b.KeyOf(c.Key), "mine", 0).Err())
	_, claimed := b.Claim(t.Context(), c)
	_, got := b.Get(t.Context(), c.Key)
	for call, err := range map[string]error{
		"Claim": claimed, "Get": got,
		"Complete": b.Complete(t.Context(), backend.Lease{Key: c.Key, ClaimID: c.ID, Token: 1}, completion("x")),
		"Release":  b.Release(t.Context(), backend.Lease{Key: c.Key, ClaimID: c.ID, Token: 1}),
	} {
		var reply goredis.Error
		if !errors.Is(err, backend.ErrUnavailable) || !backend.NotApplied(err) || !errors.As(err, &reply) {
			t.Errorf("%s(a string) = %v, want ErrUnavailable that is NotApplied, with Redis's own error", call, err)
		}
	}
	if v, err := client.Get(t.Context(), b.KeyOf(c.Key)).Result(); v != "mine" || err != nil {
		t.Errorf("the string is %q, %v, want it untouched", v, err)
	}
}

// Names of keys are bounded, and no two keys share one.
func TestKeys(t *testing.T) {
	t.Parallel()
	b := newBackend(t, connect(t, "redis://127.0.0.1:1"), redis.WithPrefix(strings.Repeat("p", redis.MaxPrefix)))
	long := strings.Repeat("k", backend.MaxKeyPart)
	if n := len(b.KeyOf(backend.Key{Tenant: long, Actor: long, Value: long})); n > 840 {
		t.Errorf("the longest key has %d bytes, want at most 840 as the documentation says", n)
	}
	for _, pair := range [][2]backend.Key{ // made to meet if a part came without its length
		{{Tenant: "a", Actor: "b", Value: "1:c:d"}, {Tenant: "a:1:b", Actor: "c", Value: "d"}},
		{{Tenant: "a", Actor: "b:c", Value: "d"}, {Tenant: "a", Actor: "b", Value: "c:d"}},
		{{Tenant: "1", Actor: "11", Value: "1"}, {Tenant: "11", Actor: "1", Value: "1"}},
	} {
		if one, two := b.KeyOf(pair[0]), b.KeyOf(pair[1]); one == two {
			t.Errorf("%q and %q are both %q", pair[0], pair[1], one)
		}
	}
}
