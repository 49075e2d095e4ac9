package crash

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
)

var kills = flag.Int("kills", 15, "how many random kills each store gets")

const (
	// inFlight is how many new requests each child gets, beside those that are not
	// answered yet.
	inFlight = 16
	// mostOpen bounds those.
	mostOpen = 64
	// brief is a lease that kills wait for, and that a busy machine can keep.
	brief = 4 * time.Second
)

// seed is random, or that of a run to be repeated. The moments of the kills are
// repeated by it, what the processes are at then is not.
func seed(t *testing.T) *rand.Rand {
	t.Helper()
	s := rand.Uint64()
	if v := os.Getenv("IDEM_TEST_SEED"); v != "" {
		var err error
		if s, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("IDEM_TEST_SEED=%d", s)
	return rand.New(rand.NewPCG(s, 0))
}

// Processes with many requests in flight are killed at random moments, one after the
// other, and each goes on with what the ones before it have left. No request is stuck,
// none has an effect twice that it may have once, and none is answered before its
// effects are there or in two ways.
func TestKilledAtRandom(t *testing.T) {
	t.Parallel()
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			c := chaos{service: newService(t, p.at(t), brief), random: seed(t), told: make(map[string]line)}
			c.fresh(inFlight)
			began := time.Now()
			c.life(t, 0) // how long one takes that is not killed
			whole := time.Since(began)
			killed := 0
			for ; killed < *kills && !t.Failed(); killed++ {
				if len(c.open) < mostOpen {
					c.fresh(inFlight)
				}
				c.life(t, time.Duration(c.random.Int64N(int64(whole))))
			}
			c.life(t, 0)
			for _, key := range c.open {
				t.Errorf("%s is stuck", key)
			}
			c.check(t)
			t.Logf("%d kills, %d requests, %d of them resumed, up to %d attempts", killed, len(c.told), c.resumed, c.most)
		})
	}
}

// chaos is what a test of random kills knows of its requests.
type chaos struct {
	*service
	random        *rand.Rand
	made          int
	open          []string        // not answered yet
	told          map[string]line // the answers
	resumed, most int
}

// fresh makes new requests, of all flows that processes can be killed in at any moment.
func (c *chaos) fresh(n int) {
	flows := []string{leased, leased, failing}
	if c.s.tx != nil {
		flows = append(flows, completed, completed, transaction)
	}
	for range n {
		c.open = append(c.open, fmt.Sprintf("%s-%06d", flows[c.random.IntN(len(flows))], c.made))
		c.made++
	}
}

// life is that of one child with all open requests. It is killed a while after it is
// ready; 0: when it has answered them all.
func (c *chaos) life(t *testing.T, while time.Duration) {
	t.Helper()
	j := c.job(c.open...)
	j.Persist = true
	child := start(t, j)
	defer child.kill()
	stuck := time.AfterFunc(2*time.Minute, child.signal)
	defer stuck.Stop()
	for {
		l, ok := child.next(t)
		switch {
		case !ok:
			c.open = slices.DeleteFunc(c.open, func(key string) bool { _, ok := c.told[key]; return ok })
			return
		case l.Ready && while > 0:
			moment := time.AfterFunc(while, child.signal)
			defer moment.Stop()
		case l.Key != "":
			c.answered(t, l)
		}
	}
}

func (c *chaos) answered(t *testing.T, l line) {
	t.Helper()
	if l.Err != "" || l.Value != answerOf(l.Key) {
		t.Errorf("%s was answered with %+v, want %q", l.Key, l, answerOf(l.Key))
	}
	c.wantEffects(t, l.Key) // never none after an answer
	c.told[l.Key] = l
	c.most = max(c.most, l.Attempt)
	if l.Attempt > 1 {
		c.resumed++
	}
}

// check looks at every request once more: what was answered once stays the answer.
func (c *chaos) check(t *testing.T) {
	t.Helper()
	for key, told := range c.told {
		c.wantEffects(t, key)
		r := request(key)
		got, err := c.s.Get(t.Context(), backend.Key{Tenant: r.Scope.Tenant, Actor: r.Scope.Actor, Value: key})
		if err != nil || got.Status != backend.Completed || string(got.Response.Body) != strconv.Quote(answerOf(key)) || got.Attempt != told.Attempt {
			t.Errorf("%s: the record is %v by attempt %d with %q, %v, want what attempt %d answered", key, got.Status, got.Attempt, got.Response.Body, err, told.Attempt)
		}
	}
}
