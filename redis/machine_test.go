package redis_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/redis"
)

// Random histories of one record, on the scripts and on the machine: after every
// message both have answered the same and hold the same record. A seed is printed
// on failure; IDEM_TEST_SEED sets it.
func TestScriptsAreTheMachine(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	seed := rand.Uint64()
	if s, err := strconv.ParseUint(os.Getenv("IDEM_TEST_SEED"), 10, 64); err == nil {
		seed = s
	}
	revived := 0
	for i := range uint64(40) {
		h := &history{T: t, rand: rand.New(rand.NewPCG(seed, i)), movedClock: move(t, srv), seed: seed, number: i}
		h.b = newBackend(t, h.client, redis.WithPrefix(h.prefix)).WithClock(h.name)
		for range 60 {
			was := h.record
			h.step()
			if was != nil && was.Response.Tombstone == backend.Abandoned && h.record.Status == backend.Started {
				revived++
			}
		}
	}
	if revived == 0 {
		t.Errorf("no run was abandoned and revived in all the histories of IDEM_TEST_SEED=%d, want some", seed)
	}
}

type history struct {
	*testing.T
	*movedClock
	b    *redis.Backend
	rand *rand.Rand

	record *backend.Record // as the machine has it
	leases []backend.Lease
	told   []string

	seed, number uint64
}

func pick[T any](h *history, of ...T) T { return of[h.rand.IntN(len(of))] }

var ids = []backend.ClaimID{{1}, {2}, {3}}

func (h *history) step() {
	switch h.rand.IntN(8) {
	case 0, 1, 2:
		h.claim()
	case 3:
		h.pass()
		if h.rand.IntN(2) == 0 {
			h.sweep()
		}
	default:
		h.write()
	}
	got, err := h.b.Get(h.Context(), request("k").Key)
	switch {
	case errors.Is(err, backend.ErrNotFound):
		if h.record != nil {
			h.fail("no record, want %+v", *h.record)
		}
	case err != nil:
		h.fail("Get = %v", err)
	case h.record == nil:
		h.fail("record %+v, want none", got)
	default:
		h.same("Get", got, *h.record)
	}
}

func (h *history) fail(format string, args ...any) {
	h.Helper()
	h.Fatalf("history %d of IDEM_TEST_SEED=%d, after %q: %s", h.number, h.seed, h.told, fmt.Sprintf(format, args...))
}

// next is the time that the next script to look at the clock sees. Were a script to look twice,
// the clock would be ahead of it from then on.
func (h *history) next() time.Time {
	us, err := h.client.Get(h.Context(), h.name+"now").Int64()
	must(h.T, err)
	return time.UnixMicro(us + 1).UTC()
}

func (h *history) claim() {
	c := request("k")
	c.ID = pick(h, ids...)
	c.Lease = pick(h, 10*time.Millisecond, 20*time.Millisecond, 40*time.Millisecond)
	c.Retention = pick(h, 40*time.Millisecond, 60*time.Millisecond)
	c.Abandon = pick(h, 60*time.Millisecond, 100*time.Millisecond)
	c.RefuseTakeover = h.rand.IntN(4) == 0
	c.Revive = h.rand.IntN(3) == 0
	c.Payload = pick(h, nil, []byte("payload"))
	if h.rand.IntN(5) == 0 {
		c.Fingerprints = pick(h,
			[]backend.Fingerprint{{Version: "v2", Sum: [32]byte{2}}},
			[]backend.Fingerprint{{Version: "v2", Sum: [32]byte{2}}, {Version: "v1", Sum: [32]byte{1}}},
			[]backend.Fingerprint{{Version: "v1", Sum: [32]byte{9}}})
	}
	c.Target.Path = pick(h, "/payments", "/payments", "/payments", "/payments", "/refunds")
	h.tell("claim %x %v %v %v refuse=%v revive=%v %v", c.ID[0], c.Lease, c.Retention, c.Abandon, c.RefuseTakeover, c.Revive, c.Target.Path)
	now := h.next()
	after, out := machine.Step(h.record, machine.Claim{Claim: c}, now)
	got, err := h.b.Claim(h.Context(), c)
	if err != nil || got.Acquired != out.Claimed.Acquired || got.Record.LeaseLeft != out.Claimed.Record.LeaseLeft {
		h.fail("Claim = acquired %v with %v, %v, want acquired %v with %v", got.Acquired, got.Record.LeaseLeft, err, out.Claimed.Acquired, out.Claimed.Record.LeaseLeft)
	}
	h.same("Claim", got.Record, out.Claimed.Record)
	h.record = after
	if got.Acquired {
		h.leases = append(h.leases, got.Record.Holder())
	}
}

func (h *history) write() {
	if len(h.leases) == 0 {
		return
	}
	l := h.leases[len(h.leases)-1]
	if h.rand.IntN(4) == 0 {
		l = pick(h, h.leases...)
	}
	if h.rand.IntN(10) == 0 {
		l.Token++
	}
	var m machine.Message
	var do func() error
	switch seq := backend.Sequence(1 + h.rand.IntN(3)); h.rand.IntN(6) {
	case 0, 1:
		c := point(seq, pick(h, "p", "q"))
		m, do = machine.Checkpoint{Lease: l, Checkpoint: c}, func() error { return h.b.Checkpoint(h.Context(), l, c) }
	case 2, 3:
		c := completion(pick(h, "done", "other"))
		c.Sequence = seq
		c.Response.Tombstone = pick(h, "", "", "", backend.TooLarge, backend.Abandoned)
		m, do = machine.Complete{Lease: l, Completion: c}, func() error { return h.b.Complete(h.Context(), l, c) }
	case 4:
		ttl := pick(h, time.Millisecond, 30*time.Millisecond)
		m, do = machine.Renew{Lease: l, TTL: ttl}, func() error { return h.b.Renew(h.Context(), l, ttl) }
	default:
		m, do = machine.Release{Lease: l}, func() error { return h.b.Release(h.Context(), l) }
	}
	h.tell("%T %+v", m, m)
	after, out := machine.Step(h.record, m, h.next())
	if err := do(); !errors.Is(err, out.Err) {
		h.fail("%T = %v, want %v", m, err, out.Err)
	}
	h.record = after
}

func (h *history) sweep() {
	h.tell("sweep")
	after, out := machine.Step(h.record, machine.Sweep{}, h.next())
	want := 0
	if out.Changed {
		want = 1
	}
	if n, err := h.b.Sweep(h.Context(), 5); n != want || err != nil {
		h.fail("Sweep = %d, %v, want %d", n, err, want)
	}
	h.record = after
}

// pass lets time go by. What a sweep would delete, the server deletes by itself.
func (h *history) pass() {
	d := pick(h, time.Millisecond, 10*time.Millisecond, 30*time.Millisecond, 200*time.Millisecond)
	h.tell("%v pass", d)
	h.advance(h.T, d)
	if after, _ := machine.Step(h.record, machine.Sweep{}, h.next().Add(-time.Microsecond)); after == nil {
		h.record = nil
	}
}

func (h *history) tell(format string, args ...any) {
	h.told = append(h.told, fmt.Sprintf(format, args...))
}

func (h *history) same(what string, got, want backend.Record) {
	h.Helper()
	plain := func(r backend.Record) backend.Record {
		r.LeaseLeft = 0
		r.State, r.Payload = append([]byte{}, r.State...), append([]byte{}, r.Payload...)
		r.Response.Header, r.Response.Body = append([]byte{}, r.Response.Header...), append([]byte{}, r.Response.Body...)
		return r
	}
	if g, w := plain(got), plain(want); !reflect.DeepEqual(g, w) {
		h.fail("%s:\n%+v, want\n%+v", what, g, w)
	}
}
