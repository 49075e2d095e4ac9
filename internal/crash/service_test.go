package crash

import (
	"testing"
	"time"

	"github.com/idem-go/idem"
)

// service is a store and a far side, seen by the test.
type service struct {
	place
	*farSide
	s     *store
	e     *idem.Executor
	lease time.Duration
}

func newService(t *testing.T, at place, lease time.Duration) *service {
	t.Helper()
	v := &service{place: at, farSide: newFarSide(t), lease: lease}
	var err error
	if v.s, err = at.open(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.s.close)
	if v.s.migrate != nil {
		if err := v.s.migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if v.e, err = idem.New(v.s.Backend, options(lease)...); err != nil {
		t.Fatal(err)
	}
	return v
}

// job for a child, with these requests.
func (v *service) job(keys ...string) job {
	return job{At: v.place, Far: v.url, Lease: v.lease, Keys: keys}
}

// run starts a child and waits until it has done its job.
func (v *service) run(t *testing.T, j job) []line {
	t.Helper()
	lines, err := start(t, j).rest(t)
	if err != nil {
		t.Fatalf("a child of %d requests ended with %v after %+v", len(j.Keys), err, lines)
	}
	return lines
}

// answers are what a child's requests were answered with.
func answers(lines []line) map[string]line {
	m := make(map[string]line)
	for _, l := range lines {
		if l.Key != "" {
			m[l.Key] = l
		}
	}
	return m
}

// wantEffects checks that a request that was answered has had its effects, and had
// those exactly once that may not be had twice.
func (v *service) wantEffects(t *testing.T, key string) {
	t.Helper()
	flow := flowOf(key)
	if v.s.tx != nil {
		v.wantRows(t, "create", key, 1)
		if flow == completed {
			v.wantRows(t, "complete", key, 1)
		}
	} else {
		v.wantDone(t, "create", key, 1, 1000)
	}
	if flow == transaction {
		return
	}
	v.wantDone(t, "charge", key, 1, 1)
	v.wantDone(t, "transfer", key, 1, 1)
	v.wantDone(t, "note", key, 1, 1000)
}

func (v *service) wantRows(t *testing.T, name, key string, want int) {
	t.Helper()
	if n, err := v.s.tx.rows(t.Context(), name, key); err != nil || n != want {
		t.Errorf("%s: %q committed %d times, %v, want %d", key, name, n, err, want)
	}
}

func (v *service) wantDone(t *testing.T, what, key string, least, most int) {
	t.Helper()
	_, done, keys := v.count(what, key)
	if done < least || done > most {
		t.Errorf("%s: %q was done %d times at the far side, want %d to %d", key, what, done, least, most)
	}
	if keys > 1 { // field report 32
		t.Errorf("%s: the attempts sent %q with %d keys, want one", key, what, keys)
	}
}

// wantReplay asks once more: nothing runs, and the answer is the same.
func (v *service) wantReplay(t *testing.T, key string, attempt int) {
	t.Helper()
	res, err := idem.Do(t.Context(), v.e, request(key), never(t, key))
	if want := (idem.Result[string]{Value: answerOf(key), Replayed: true, Attempt: attempt}); err != nil || res != want {
		t.Errorf("%s: Do at last = %+v, %v, want %+v", key, res, err, want)
	}
}
