package etcd_test

import (
	"fmt"
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
// the handles off from all of them.
func TestClusterConformance(t *testing.T) {
	t.Parallel()
	cl := testenv.EtcdThree(t, "--heartbeat-interval=100", "--election-timeout=1000") // etcd's defaults
	var cases atomic.Int64
	conformance.Run(t, func(t *testing.T) conformance.Store {
		prefix := etcd.WithPrefix(fmt.Sprintf("case%d/", cases.Add(1)))
		proxies := cl.Proxies(t)
		var endpoints []string
		for _, p := range proxies {
			endpoints = append(endpoints, p.Addr())
		}
		impatient := func(c *clientv3.Config) {
			c.DialKeepAliveTime, c.DialKeepAliveTimeout = time.Second, time.Second // finds out what was cut
		}
		open := func(t *testing.T) backend.Backend { return newBackend(t, connectTo(t, endpoints, impatient), prefix) }
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
			Skewed: func(_ conformance.T, by time.Duration) backend.Backend { return conformance.Skew(t, by, open) },
		}
	})
}
