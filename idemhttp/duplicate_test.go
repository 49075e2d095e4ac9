package idemhttp

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/memory"
)

// order is a request whose parts a mismatch can change.
func order() request {
	return request{path: "/orders?dry=1", keys: []string{key1}, header: []string{"Content-Type: application/json"}, body: `{"amount": 9007199254740993}`}
}

// others are requests that are not order, with what they differ in.
func others() map[string]request {
	body, big, method, path, query, kind := order(), order(), order(), order(), order(), order()
	body.body = `{"amount": 5}`
	big.body = `{"amount": 9007199254740992}` // field report 12: one number for a float64
	method.method = http.MethodPatch
	path.path = "/refunds?dry=1"
	query.path = "/orders?dry=0"
	kind.header = []string{"Content-Type: text/plain"}
	return map[string]request{"content": body, "content, big number": big, "method": method, "path": path, "path, query": query, "content, type": kind}
}

// checkMismatches sends what is not order and checks that it learns nothing.
func checkMismatches(t *testing.T, when string, s *site) {
	t.Helper()
	for part, q := range others() {
		r := send(t, s, q)
		checkProblem(t, part+" "+when, r, keyReused)
		if word, _, _ := strings.Cut(part, ","); !strings.Contains(r.body, "another "+word) {
			t.Errorf("%s %s = %q, want it to say what differs", part, when, r.body)
		}
		if all := strings.Join(r.head, "\n") + r.body; strings.Contains(all, "secret") || strings.Contains(all, key1) || strings.Contains(all, "ada") {
			t.Errorf("%s %s = %q, which tells of the stored answer or the key", part, when, all)
		}
	}
}

// field report 11: another request with the key gets 422 in flight, lapsed and
// completed; nothing runs, and nothing of the stored answer leaks.
func TestMismatch(t *testing.T) {
	t.Parallel()
	secret := func(g *gate) http.HandlerFunc {
		pass := g.once()
		return func(w http.ResponseWriter, _ *http.Request) {
			pass()
			w.Header().Set("Location", "/secret")
			w.WriteHeader(http.StatusCreated)
			_, _ = w.Write([]byte("secret"))
		}
	}
	start := func(t *testing.T, s *site) <-chan reply {
		done := make(chan reply, 1)
		go func() { done <- send(t, s, order()) }()
		return done
	}
	t.Run("leased", func(t *testing.T) {
		t.Parallel()
		clock := memory.NewClock(time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC))
		store := memory.New(memory.WithClock(clock))
		g := newGate()
		h, ran := runs(secret(g))
		s := leased(t, setup{backend: store}, h)
		other := leased(t, setup{backend: store}, h) // another process

		first := start(t, s)
		<-g.reached
		checkMismatches(t, "in flight", s)
		checkMismatches(t, "in flight elsewhere", other)
		clock.Advance(time.Hour)
		checkMismatches(t, "lapsed", other)
		if n := ran.Load(); n != 1 {
			t.Errorf("the handler ran %d times, want 1", n)
		}
		if r := send(t, other, order()); r.status != http.StatusCreated {
			t.Errorf("retry of a lapsed run = %d %q, want 201", r.status, r.body)
		}
		close(g.open)
		checkProblem(t, "answer of the run that was taken over from", <-first, leaseLost) // field report 3
		checkMismatches(t, "completed", s)
		checkMismatches(t, "completed elsewhere", other)
		if n := ran.Load(); n != 2 {
			t.Errorf("the handler ran %d times, want 2", n)
		}
	})
	t.Run("transaction", func(t *testing.T) {
		t.Parallel()
		g := newGate()
		h, ran := runs(secret(g))
		s := transacted(t, setup{}, h)
		first := start(t, s)
		<-g.reached
		checkMismatches(t, "in flight", s)
		close(g.open)
		if r := <-first; r.status != http.StatusCreated {
			t.Errorf("first = %d %q, want 201", r.status, r.body)
		}
		checkMismatches(t, "completed", s)
		if n := ran.Load(); n != 1 {
			t.Errorf("the handler ran %d times, want 1", n)
		}
	})
}

// field report 12: the same request in another spelling is no other one.
func TestSameInOtherWords(t *testing.T) {
	t.Parallel()
	h, ran := runs(created)
	s := leased(t, setup{}, h)
	q := order()
	_ = send(t, s, q)
	q.keys = []string{`"` + key1 + `"`}
	q.header = []string{"content-TYPE: Application/JSON"}
	q.body = ` {"\u0061mount": 9007199254740993.0}`
	if r := send(t, s, q); r.header.Get(replayedHeader) != "true" || ran.Load() != 1 {
		t.Errorf("retry in other words = %d %q, want the replay", r.status, r.head)
	}
}

// field report 14: a key belongs to a tenant and an actor, whatever is in their names.
func TestScopes(t *testing.T) {
	t.Parallel()
	onBothPaths(t, func(t *testing.T, path func(testing.TB, setup, http.Handler) *site) {
		h, ran := runs(func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte("for " + r.Header.Get("X-Tenant") + " and " + r.Header.Get("X-User")))
		})
		s := path(t, setup{scope: func(r *http.Request) (idem.Scope, error) {
			return idem.Scope{Tenant: r.Header.Get("X-Tenant"), Actor: r.Header.Get("X-User")}, nil
		}}, h)
		users := [][2]string{{"a", "b"}, {"a", "c"}, {"c", "b"}, {"a:b", "c"}, {"a", "b:c"}, {"b", "a"}, {"A", "b"}}
		for i := range 2 {
			for _, u := range users {
				q := withKey(key1)
				q.header = []string{"X-Tenant: " + u[0], "X-User: " + u[1]}
				r := send(t, s, q)
				if want := "for " + u[0] + " and " + u[1]; r.body != want {
					t.Errorf("answer = %q, want %q", r.body, want)
				}
				if got := r.header.Get(replayedHeader) != ""; got != (i == 1) {
					t.Errorf("request %d of %q: replayed = %v", i+1, u, got)
				}
			}
		}
		if n := ran.Load(); int(n) != len(users) {
			t.Errorf("the handler ran %d times, want %d", n, len(users))
		}
	})
}

// field report 15: keys that differ in case alone are two.
func TestKeysByteByByte(t *testing.T) {
	t.Parallel()
	onBothPaths(t, func(t *testing.T, path func(testing.TB, setup, http.Handler) *site) {
		h, ran := runs(created)
		s := path(t, setup{}, h)
		for _, key := range []string{"key-number-one", "Key-Number-One", `"key-number-one "`, `" key-number-one"`} {
			if r := send(t, s, withKey(key)); r.status != http.StatusCreated || r.header.Get(replayedHeader) != "" {
				t.Errorf("%q = %d %q, want a first answer", key, r.status, r.head)
			}
		}
		if n := ran.Load(); n != 4 {
			t.Errorf("the handler ran %d times, want 4", n)
		}
	})
}

// Twenty at once: one effect, and nobody gets another answer.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]time.Duration{"not waiting": 0, "waiting": 20 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBothPaths(t, func(t *testing.T, path func(testing.TB, setup, http.Handler) *site) {
				h, ran := runs(created)
				s := path(t, setup{executor: []idem.Option{idem.WithWait(wait)}}, h)
				replies := make([]reply, 20)
				var all sync.WaitGroup
				for i := range replies {
					all.Go(func() { replies[i] = send(t, s, order()) })
				}
				all.Wait()
				fresh := 0
				for _, r := range replies {
					switch {
					case r.status == http.StatusConflict && wait == 0:
						checkProblem(t, "one of many", r, inProgress)
					case r.status != http.StatusCreated || r.body != "order 1":
						t.Errorf("one of many = %d %q, want 201", r.status, r.body)
					case r.header.Get(replayedHeader) == "":
						fresh++
					}
				}
				if n := ran.Load(); n != 1 || fresh != 1 {
					t.Errorf("the handler ran %d times, %d first answers, want 1 and 1", n, fresh)
				}
			})
		})
	}
}

// field report 23, hard case 16: Retry-After comes from the store's clock alone, in
// whole seconds between 1 and the lease, and at most the ceiling.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		lease, ceiling time.Duration
		passed         time.Duration // since the claim, on the store's clock
		want           int
	}{
		{"a whole lease", 10 * time.Second, time.Hour, 0, 10},
		{"rounded up", 10 * time.Second, time.Hour, 2500 * time.Millisecond, 8},
		{"at least one second", 10 * time.Second, time.Hour, 9999 * time.Millisecond, 1},
		{"at most the ceiling", 10 * time.Second, 2 * time.Second, 0, 2},
		{"the ceiling rounded up", 10 * time.Second, 1500 * time.Millisecond, 0, 2},
	} {
		for zone, off := range map[string]time.Duration{"behind": -time.Hour, "ahead": time.Hour} {
			t.Run(c.name+"/store an hour "+zone, func(t *testing.T) {
				t.Parallel()
				clock := memory.NewClock(time.Now().Add(off))
				store := memory.New(memory.WithClock(clock))
				g := newGate()
				pass := g.once()
				h, ran := runs(func(w http.ResponseWriter, r *http.Request) {
					pass()
					created(w, r)
				})
				opts := []idem.Option{idem.WithLease(c.lease), idem.WithRetryAfter(c.ceiling)}
				s := leased(t, setup{backend: store, executor: opts}, h)
				other := leased(t, setup{backend: store, executor: opts}, h)
				done := make(chan reply, 1)
				go func() { done <- send(t, s, order()) }()
				<-g.reached

				clock.Advance(c.passed)
				r := send(t, other, order())
				checkProblem(t, "duplicate", r, inProgress)
				if got := r.header.Get("Retry-After"); got != strconv.Itoa(c.want) {
					t.Errorf("Retry-After = %q, want %d", got, c.want)
				}
				close(g.open)
				if r := <-done; r.status != http.StatusCreated {
					t.Errorf("first = %d %q, want 201", r.status, r.body)
				}
				if n := ran.Load(); n != 1 {
					t.Errorf("the handler ran %d times, want 1", n)
				}
			})
		}
	}
}

// field report 23, hard case 16: Retry-After on the transaction path, where a duplicate
// can't see the record of a run that has not committed.
func TestRetryAfterTransaction(t *testing.T) {
	t.Parallel()
	g := newGate()
	pass := g.once()
	h, ran := runs(func(w http.ResponseWriter, r *http.Request) {
		pass()
		created(w, r)
	})
	opts := setup{executor: []idem.Option{idem.WithLease(10 * time.Second), idem.WithRetryAfter(3 * time.Second), idem.WithWait(0)}}
	s := transacted(t, opts, h)
	done := make(chan reply, 1)
	go func() { done <- send(t, s, order()) }()
	<-g.reached
	duplicate := send(t, s, order())
	close(g.open)
	checkProblem(t, "duplicate", duplicate, inProgress)
	if got := duplicate.header.Get("Retry-After"); got != "3" {
		t.Errorf("Retry-After = %q, want 3", got)
	}
	if r := <-done; r.status != http.StatusCreated {
		t.Errorf("first = %d %q, want 201", r.status, r.body)
	}
	if n := ran.Load(); n != 1 {
		t.Errorf("the handler ran %d times, want 1", n)
	}
}
