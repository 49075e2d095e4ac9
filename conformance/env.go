package conformance

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/idem-go/idem/backend"
)

// env is what a case works with: its T, its store and the first handle on it.
type env struct {
	T
	Store
	b   backend.Backend
	rec *recorder // is T
}

// seed is that of the random choices of the case, which it prints.
func (e *env) seed() uint64 {
	e.Logf("IDEM_TEST_SEED=%d", e.rec.seed)
	return e.rec.seed
}

// short is a lease or a retention that a case waits for. Cases that use it check
// nothing that a slow machine could make untrue.
const short = 250 * time.Millisecond

// request is a claim of a key with durations so long that nothing is over while
// the case runs. Every call is a claim of its own.
func request(key string) backend.Claim {
	return backend.Claim{
		Key:          backend.Key{Tenant: "tenant", Actor: "actor", Value: key},
		ID:           newID(),
		Operation:    "POST /payments",
		Target:       backend.Target{Method: "POST", Path: "/payments?dry=0"},
		Fingerprints: []backend.Fingerprint{fingerprint("v1", "content")},
		Lease:        time.Minute,
		Retention:    24 * time.Hour,
		Abandon:      7 * 24 * time.Hour,
	}
}

// hasty is a request whose lease is short.
func hasty(key string) backend.Claim {
	c := request(key)
	c.Lease = short
	return c
}

// fleeting is a request whose record is over soon, finished or not.
func fleeting(key string) backend.Claim {
	c := hasty(key)
	c.Retention, c.Abandon = short, short
	return c
}

// rival is the same request sent by somebody else, with a long lease.
func rival(c backend.Claim) backend.Claim {
	r := request(c.Key.Value)
	r.Key, r.Target, r.Fingerprints = c.Key, c.Target, c.Fingerprints
	return r
}

func newID() (id backend.ClaimID) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

func fingerprint(version, content string) backend.Fingerprint {
	f := backend.Fingerprint{Version: version}
	copy(f.Sum[:], content)
	return f
}

func point(seq backend.Sequence, name, state string) backend.Checkpoint {
	return backend.Checkpoint{Sequence: seq, Point: name, State: []byte(state)}
}

func answer(seq backend.Sequence, body string) backend.Completion {
	return backend.Completion{Sequence: seq, Response: backend.Response{
		Status: 201, Header: []byte("Location: /payments/1"), Body: []byte(body),
	}}
}

// open returns another handle.
func (e *env) open() backend.Backend { return e.Open(e.T) }

// ok ends the case if a call that must succeed did not.
func (e *env) ok(call string, err error) {
	e.Helper()
	if err != nil {
		e.Fatalf("%s = %v, want nil", call, err)
	}
}

func (e *env) claim(call string, c backend.Claim) backend.Claimed {
	e.Helper()
	got, err := e.b.Claim(e.Context(), c)
	e.ok(call, err)
	return got
}

// acquire claims a key that is to be had and returns the record it now holds.
func (e *env) acquire(call string, c backend.Claim) backend.Record {
	e.Helper()
	got := e.claim(call, c)
	r := got.Record
	switch {
	case !got.Acquired:
		e.Fatalf("%s: acquired = false with a %v record (hidden: %v), want true", call, r.Status, got.Hidden)
	case got.Hidden:
		e.Errorf("%s: acquired and hidden, want acquired only", call)
	case r.ClaimID != c.ID:
		e.Errorf("%s: claim id of the record = %x, want the claim's own", call, r.ClaimID)
	case r.Status != backend.Started:
		e.Errorf("%s: status = %v, want started", call, r.Status)
	case r.Token <= 0:
		e.Errorf("%s: token = %d, want more than 0", call, r.Token)
	case r.LeaseLeft <= 0:
		e.Errorf("%s: rest of the lease = %v, want more than 0", call, r.LeaseLeft)
	}
	e.same(call+": record returned", r, e.get(c.Key))
	return r
}

// refuse claims a key that is not to be had: the record comes back as it stands
// and is not touched.
func (e *env) refuse(call string, c backend.Claim) backend.Record {
	e.Helper()
	before := e.get(c.Key)
	got := e.claim(call, c)
	switch {
	case got.Acquired:
		e.Fatalf("%s: acquired = true, want the %v record as it stands", call, before.Status)
	case got.Hidden:
		e.Fatalf("%s: hidden, want the %v record as it stands", call, before.Status)
	}
	e.same(call+": record returned", got.Record, before)
	e.same(call+": record after", e.get(c.Key), before)
	return got.Record
}

func (e *env) describe() backend.Description {
	e.Helper()
	d, err := e.b.Describe(e.Context())
	e.ok("Describe", err)
	e.rec.remark(func(note *Result) { note.described = d })
	return d
}

func (e *env) get(k backend.Key) backend.Record {
	e.Helper()
	r, err := e.b.Get(e.Context(), k)
	e.ok("Get", err)
	return r
}

// find is get for a key that may have no record.
func (e *env) find(k backend.Key) (backend.Record, bool) {
	e.Helper()
	r, err := e.b.Get(e.Context(), k)
	if errors.Is(err, backend.ErrNotFound) {
		return backend.Record{}, false
	}
	e.ok("Get", err)
	return r, true
}

// gone checks that the key has no record.
func (e *env) gone(when string, k backend.Key) {
	e.Helper()
	if r, err := e.b.Get(e.Context(), k); !errors.Is(err, backend.ErrNotFound) {
		e.Errorf("Get %s = %v record, %v, want ErrNotFound", when, r.Status, err)
	}
}

// still makes a call that must change nothing about a key's record, and checks
// its error.
func (e *env) still(call string, k backend.Key, want error, do func() error) {
	e.Helper()
	before, was := e.find(k)
	if err := do(); !errors.Is(err, want) {
		e.Errorf("%s = %v, want %v", call, err, want)
	}
	after, is := e.find(k)
	if was != is {
		e.Errorf("%s: record exists after = %v, want %v as before", call, is, was)
		return
	}
	e.same(call+": record after", after, before)
}

func (e *env) renew(l backend.Lease, ttl time.Duration) error { return e.b.Renew(e.Context(), l, ttl) }
func (e *env) release(l backend.Lease) error                  { return e.b.Release(e.Context(), l) }
func (e *env) checkpoint(l backend.Lease, c backend.Checkpoint) error {
	return e.b.Checkpoint(e.Context(), l, c)
}

func (e *env) complete(l backend.Lease, c backend.Completion) error {
	return e.b.Complete(e.Context(), l, c)
}

// completed stores a record with the response "done".
func (e *env) completed(c backend.Claim) backend.Record {
	e.Helper()
	l := e.acquire("Claim", c).Holder()
	e.ok("Complete", e.complete(l, answer(1, "done")))
	return e.get(c.Key)
}

// writes are the things a holder does.
func writes(seq backend.Sequence) []write {
	return []write{
		{"Renew", func(e *env, l backend.Lease) error { return e.renew(l, time.Hour) }},
		{"Checkpoint", func(e *env, l backend.Lease) error { return e.checkpoint(l, point(seq, "other", "other")) }},
		{"Complete", func(e *env, l backend.Lease) error { return e.complete(l, answer(seq, "other")) }},
		{"Release", func(e *env, l backend.Lease) error { return e.release(l) }},
	}
}

type write struct {
	name string
	do   func(e *env, l backend.Lease) error
}

// same compares two records in everything that is stored.
func (e *env) same(what string, got, want backend.Record) {
	e.Helper()
	if d := diff(got, want); d != "" {
		e.Errorf("%s: %s", what, d)
	}
}

// diff names the fields in which two records differ. LeaseLeft isn't stored.
func diff(got, want backend.Record) string {
	var out []string
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	for i := range g.NumField() {
		name := g.Type().Field(i).Name
		a, b := g.Field(i).Interface(), w.Field(i).Interface()
		var eq bool
		switch a := a.(type) {
		case time.Time:
			eq = a.Equal(b.(time.Time))
		case []byte:
			eq = bytes.Equal(a, b.([]byte))
		case backend.Response:
			eq = a.Equal(b.(backend.Response))
		default:
			eq = a == b
		}
		if !eq && name != "LeaseLeft" {
			out = append(out, fmt.Sprintf("%s = %.80v, want %.80v", name, a, b))
		}
	}
	return strings.Join(out, "; ")
}

// advance moves the store's clock where that is possible.
func (e *env) advance(d time.Duration) {
	if e.Advance != nil {
		e.Advance(d)
	}
}

// until asks the store again and again whether something is so. Where the clock was
// moved it is so at once, or after a few calls that each do a part.
func (e *env) until(what string, probe func() bool) {
	e.Helper()
	limit, tick := time.NewTimer(20*time.Second), time.NewTicker(5*time.Millisecond)
	defer limit.Stop()
	defer tick.Stop()
	for probes := 1; !probe(); probes++ {
		if e.Advance != nil && probes == 20 {
			e.Fatalf("%s: not, although it is time", what)
		}
		select {
		case <-tick.C:
		case <-limit.C:
			e.Fatalf("%s: not after 20s", what)
		case <-e.Context().Done():
			e.Fatalf("%s: not within the bound of the case", what)
		}
	}
}

// reclaim claims the key of a completed record until its retention is over.
func (e *env) reclaim(c backend.Claim, retention time.Duration) backend.Record {
	e.Helper()
	var got backend.Claimed
	e.advance(retention)
	e.until("the retention is over", func() bool {
		got = e.claim("Claim", c)
		return got.Acquired
	})
	return got.Record
}

// lapse waits until the lease that c was granted is over.
func (e *env) lapse(c backend.Claim) {
	e.Helper()
	e.advance(c.Lease)
	e.until("the lease lapses", func() bool { return e.get(c.Key).LeaseLeft == 0 })
}

// notBefore waits until something is so and checks that it wasn't sooner than d
// after sent. Clocks may differ in pace, by a hundredth at most.
func (e *env) notBefore(what string, d time.Duration, sent time.Time, probe func() bool) {
	e.Helper()
	if e.Advance == nil {
		e.until(what, probe)
		if got := time.Since(sent); got < d-d/100 {
			e.Errorf("%s after %v, want not before %v", what, got, d)
		}
		return
	}
	e.Advance(d - time.Millisecond)
	if probe() {
		e.Errorf("%s after %v, want not before %v", what, d-time.Millisecond, d)
		return
	}
	e.Advance(time.Millisecond)
	e.until(what, probe)
}

// race calls f n times at once and returns what they returned.
func race[R any](n int, f func(i int) R) []R {
	out, start := make([]R, n), make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			out[i] = f(i)
		})
	}
	close(start)
	wg.Wait()
	return out
}
