package etcd_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/conformance"
	"github.com/idem-go/idem/etcd"
	"github.com/idem-go/idem/internal/testenv"
)

// The suite on three members. What kills the server kills their leader, and the others
// elect another one before it comes back; what stops it stops the leader; and a partition cuts
// the handles off from all of them. A failover is the worst that a cluster promises to
// survive: the leader is lost for good, and one of the two others has been away while
// it acknowledged what it did.
func TestClusterConformance(t *testing.T) {
	t.Parallel()
	cl := testenv.EtcdThree(t, "--heartbeat-interval=100", "--election-timeout=1000") // etcd's defaults, as the page says them
	var cases atomic.Int64
	store := func(t *testing.T) conformance.Store {
		prefix := etcd.WithPrefix(fmt.Sprintf("case%d/", cases.Add(1)))
		proxies := cl.Proxies(t)
		var endpoints []string
		for _, p := range proxies {
			endpoints = append(endpoints, p.Addr())
		}
		impatient := func(c *clientv3.Config) {
			c.DialKeepAliveTime, c.DialKeepAliveTimeout = time.Second, time.Second // finds out what was cut
		}
		var opened sync.Mutex
		var clients []*clientv3.Client
		open := func(t *testing.T) backend.Backend {
			c := connectTo(t, endpoints, impatient)
			opened.Lock()
			defer opened.Unlock()
			clients = append(clients, c)
			return newBackend(t, c, prefix)
		}
		return conformance.Store{
			Open:    func(conformance.T) backend.Backend { return open(t) },
			Restart: func(conformance.T) { cl.RestartLeader(t) },
			Pause: func(conformance.T) func() {
				leader := cl.Leader(t)
				leader.Pause(t)
				return func() { leader.Resume(t) }
			},
			Partition: func(conformance.T) func() {
				for _, p := range proxies {
					p.Partition()
				}
				return func() {
					for _, p := range proxies {
						p.Heal()
						p.CutAll() // else a handle finds out one by one that its connections are dead
					}
				}
			},
			Failover: func(conformance.T) func() {
				leader := cl.Leader(t)
				away := (slices.Index(cl.Members, leader) + 1) % len(cl.Members)
				proxies[away].Refuse(true)
				proxies[away].CutAll()
				cl.Members[away].Pause(t)
				opened.Lock()
				defer opened.Unlock()
				for _, c := range clients {
					answers(t, c)
				}
				return func() {
					leader.Kill(t)
					t.Cleanup(func() { leader.Start(t) })
					cl.Members[away].Resume(t)
					proxies[away].Refuse(false)
					cl.Leader(t)
				}
			},
			Skewed: func(_ conformance.T, by time.Duration) backend.Backend { return conformance.Skew(t, by, open) },
		}
	}
	shown := conformance.Each(func(r conformance.Result) {
		if r.ID == "capability/durable-failover" && !slices.ContainsFunc(r.Claims, func(c conformance.Claim) bool {
			return c.Name == "DurableFailover" && c.Claimed == "yes" && c.Measured == "yes"
		}) {
			t.Errorf("%s: %+v, want the loss of a member claimed, and survived by what was acknowledged", r.ID, r.Claims)
		}
	})
	conformance.Run(t, store, conformance.Only(ofServers...), shown, page.Shown())
	conformance.Run(t, store, conformance.Without(ofServers...), page.Shown())
}

// answers waits until a client has learned which members there are.
func answers(t *testing.T, c *clientv3.Client) {
	t.Helper()
	row := 0
	eventually(t, "the client knows whom to ask", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Get(ctx, "k"); err != nil {
			row = 0
		} else {
			row++
		}
		return row == 6 // twice as often as there are members, whom it asks in turn
	})
}
