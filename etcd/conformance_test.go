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
	"github.com/idem-go/idem/internal/limits"
	"github.com/idem-go/idem/internal/testenv"
)

var page = limits.Of("etcd", "three members with etcd's default timeouts")

var single = page.Variant("on a single member with short timeouts")

// Nobody can move etcd's clock: the suite waits for real leases.
func TestConformance(t *testing.T) {
	t.Parallel()
	srv := testenv.Etcd(t)
	var cases atomic.Int64
	conformance.Run(t, func(t *testing.T) conformance.Store {
		prefix := fmt.Sprintf("%scase%d/", srv.Prefix, cases.Add(1))
		return conformance.Store{Open: func(conformance.T) backend.Backend {
			return newBackend(t, connect(t, srv), etcd.WithPrefix(prefix))
		}}
	}, conformance.Without(ofServers...), single.Shown())
}

// ofServers are the groups that want a server they can kill.
var ofServers = []string{"capability", "fault"}

// What a server that is alone promises, and how it takes being killed, paused and cut
// off. The page has what a cluster does, see TestClusterConformance.
func TestServerConformance(t *testing.T) {
	t.Parallel()
	srv := testenv.EtcdPrivate(t)
	var cases atomic.Int64
	conformance.Run(t, func(t *testing.T) conformance.Store {
		prefix := etcd.WithPrefix(fmt.Sprintf("case%d/", cases.Add(1)))
		proxy := testenv.NewProxy(t, srv.Endpoints[0])
		through := func(c *clientv3.Config) {
			c.Endpoints = []string{proxy.Addr()}
			c.DialKeepAliveTime, c.DialKeepAliveTimeout = time.Second, time.Second // finds out what was cut
		}
		return conformance.Store{
			Open: func(conformance.T) backend.Backend { return newBackend(t, connect(t, srv, through), prefix) },
			Restart: func(conformance.T) {
				srv.Kill(t)
				srv.Start(t)
			},
			Pause: func(conformance.T) func() {
				srv.Pause(t)
				return func() { srv.Resume(t) }
			},
			Partition: func(conformance.T) func() {
				proxy.Partition()
				return proxy.Heal
			},
			Skewed: func(_ conformance.T, by time.Duration) backend.Backend {
				return conformance.Skew(t, by, func(t *testing.T) backend.Backend { return newBackend(t, connect(t, srv), prefix) })
			},
		}
	}, conformance.Only(ofServers...), single.Shown())
}
