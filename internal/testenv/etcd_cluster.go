package testenv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// EtcdCluster is a cluster of three etcd servers that a test has for itself. It goes on
// without any one of them.
type EtcdCluster struct {
	// Members are the servers. Each can be killed, paused and started again; its
	// Endpoints are its own.
	Members []*EtcdServer

	// Endpoints are those of all members.
	Endpoints []string
}

const etcdMembers = 3

// EtcdThree starts a cluster for this test alone and stops it when the test ends. The
// flags are for all of its servers.
func EtcdThree(t testing.TB, flags ...string) *EtcdCluster {
	t.Helper()
	set, err := choose(t, "an etcd cluster", ours(t), func(p provider) (*etcdSet, error) { return startEtcdSet(p, flags) })
	if err != nil {
		Unavailable(t, "etcd", err)
	}
	t.Cleanup(func() {
		if err := set.close(); err != nil {
			t.Errorf("stopping etcd: %v", err)
		}
	})
	c := new(EtcdCluster)
	for _, in := range set.members {
		m := newEtcd(&etcdServer{instance: in, endpoints: []string{in.addr()}}, true)
		c.Members = append(c.Members, m)
		c.Endpoints = append(c.Endpoints, m.Endpoints...)
	}
	return c
}

// Leader returns the member that leads now, and waits for an election if there is none.
func (c *EtcdCluster) Leader(t testing.TB) *EtcdServer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), etcdStart)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if m := c.leads(ctx); m != nil {
			return m
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the etcd cluster has no leader after %v", etcdStart)
		case <-tick.C:
		}
	}
}

// leads asks all members. Who leads is what a majority of them says of the latest
// term: a leader that was paused takes itself for one when it comes back.
func (c *EtcdCluster) leads(ctx context.Context) *EtcdServer {
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	said := make([]*clientv3.StatusResponse, len(c.Members))
	var asked sync.WaitGroup
	for i, m := range c.Members {
		asked.Go(func() {
			_ = askEtcd(ctx, m.Endpoints, func(ctx context.Context, cl *clientv3.Client) (err error) {
				said[i], err = cl.Status(ctx, m.Endpoints[0])
				return err
			}) // a member that is down says nothing
		})
	}
	asked.Wait()
	type reign struct{ term, leader uint64 }
	agree := make(map[reign]int)
	for _, s := range said {
		if s != nil && s.Leader != 0 {
			agree[reign{s.RaftTerm, s.Leader}]++
		}
	}
	for i, s := range said {
		if s != nil && s.Leader == s.Header.MemberId && agree[reign{s.RaftTerm, s.Leader}] > etcdMembers/2 {
			return c.Members[i]
		}
	}
	return nil
}

// RestartLeader kills the leader, waits until the others have another one, and starts
// it again.
func (c *EtcdCluster) RestartLeader(t testing.TB) {
	t.Helper()
	old := c.Leader(t)
	old.Kill(t)
	c.Leader(t)
	old.Start(t)
}

// Proxies puts a proxy in front of each member, in their order: together they
// cut off a client that has their addresses for endpoints.
func (c *EtcdCluster) Proxies(t testing.TB) []*Proxy {
	t.Helper()
	var all []*Proxy
	for _, e := range c.Endpoints {
		all = append(all, NewProxy(t, e))
	}
	return all
}

// etcdSet are the members of a cluster, and what else was made for them.
type etcdSet struct {
	members []instance
	after   func() error
}

func (s *etcdSet) close() error {
	var errs []error
	for _, m := range slices.Backward(s.members) {
		errs = append(errs, m.close())
	}
	if s.after != nil {
		errs = append(errs, s.after())
	}
	return errors.Join(errs...)
}

func startEtcdSet(p provider, flags []string) (*etcdSet, error) {
	if p == fromDocker {
		return startDockerEtcdSet(flags)
	}
	return startLocalEtcdSet(flags)
}

// etcdMemberFlags are those by which the servers that listen for each other at the
// peers' addresses form one cluster, a new one each time. They come before the test's
// own.
func etcdMemberFlags(peers []string, listen func(i int) string, flags []string) [][]string {
	token := strings.ToLower(rand.Text())
	var all []string
	for i, p := range peers {
		all = append(all, fmt.Sprintf("m%d=http://%s", i, p))
	}
	var of [][]string
	for i, p := range peers {
		of = append(of, append([]string{
			fmt.Sprintf("--name=m%d", i),
			"--listen-peer-urls=http://" + listen(i), "--initial-advertise-peer-urls=http://" + p,
			"--initial-cluster=" + strings.Join(all, ","), "--initial-cluster-token=" + token,
		}, flags...))
	}
	return of
}
