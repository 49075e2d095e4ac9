package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/conformance"
	"github.com/idem-go/idem/etcd"
)

type etcdPlace struct {
	endpoints          []string
	username, password string
	prefix             string // empty: the default
}

// locateEtcd reads what follows "etcd:". It is no URL of package url, which knows one
// host only.
func locateEtcd(rest string, o options) (place, error) {
	wrong := errors.New("the DSN names no etcd servers: write etcd://host:2379 or etcd://user:password@host:2379,host:2379, with special characters in user and password percent-encoded")
	p := etcdPlace{prefix: o.prefix}
	hosts, ok := strings.CutPrefix(rest, "//")
	if i := strings.LastIndex(hosts, "@"); i >= 0 {
		user, password, _ := strings.Cut(hosts[:i], ":")
		hosts = hosts[i+1:]
		var err1, err2 error
		p.username, err1 = url.PathUnescape(user)
		p.password, err2 = url.PathUnescape(password)
		if err1 != nil || err2 != nil {
			return nil, wrong
		}
	}
	hosts = strings.TrimSuffix(hosts, "/")
	if !ok || strings.ContainsAny(hosts, "/?#") {
		return nil, wrong
	}
	for host := range strings.SplitSeq(hosts, ",") {
		u, err := url.Parse("http://" + host)
		if err != nil || u.Hostname() == "" || u.Port() == "" {
			return nil, wrong
		}
		p.endpoints = append(p.endpoints, host)
	}
	return p, nil
}

func (p etcdPlace) String() string { return strings.Join(p.endpoints, ",") }

func (p etcdPlace) client(ctx context.Context) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints: p.endpoints, Username: p.username, Password: p.password,
		DialTimeout: askBound, // for the password; nothing else waits for a connection
		Logger:      zap.NewNop(), Context: context.WithoutCancel(ctx),
	})
}

func (p etcdPlace) open(ctx context.Context) (backend.Backend, func(), error) {
	client, err := p.client(ctx)
	if err != nil {
		return nil, nil, cantAsk(p, err)
	}
	done := func() { client.Close() }
	var opts []etcd.Option
	if p.prefix != "" {
		opts = append(opts, etcd.WithPrefix(p.prefix))
	}
	b, err := etcd.New(client, opts...)
	if err != nil {
		done()
		return nil, nil, err
	}
	return b, done, nil
}

// etcdLab is a prefix. Every case has a longer one.
type etcdLab struct {
	etcdPlace
	name    string
	harness *clientv3.Client
	cases   atomic.Int64

	mu      sync.Mutex
	granted []clientv3.LeaseID
}

// granter notes the leases that a client of the cases makes: they stay after their
// keys are deleted, for as long as the cases would keep their records.
type granter struct {
	clientv3.Lease
	of *etcdLab
}

func (g granter) Grant(ctx context.Context, ttl int64) (*clientv3.LeaseGrantResponse, error) {
	r, err := g.Lease.Grant(ctx, ttl)
	if err == nil {
		g.of.mu.Lock()
		g.of.granted = append(g.of.granted, r.ID)
		g.of.mu.Unlock()
	}
	return r, err
}

func (p etcdPlace) lab(ctx context.Context) (*lab, error) {
	start := p.prefix
	if start == "" {
		start = "idem-conformance/"
	}
	client, err := p.client(ctx)
	if err != nil {
		return nil, cantAsk(p, err)
	}
	l := &etcdLab{etcdPlace: p, name: start + strings.ToLower(rand.Text()) + "/", harness: client}
	if _, err := client.Get(ctx, l.name); err != nil {
		client.Close()
		return nil, cantAsk(p, err)
	}
	return &lab{name: "keys that begin with " + l.name, remove: l.remove, store: l.store}, nil
}

// remove deletes every key of the prefix, until there is none: a write that was
// under way when its case ended may arrive late.
func (l *etcdLab) remove(ctx context.Context) error {
	defer l.harness.Close()
	l.mu.Lock()
	granted := l.granted
	l.mu.Unlock()
	for _, id := range granted {
		if _, err := l.harness.Revoke(ctx, id); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return fmt.Errorf("revoke a lease: %w", err)
		}
	}
	for {
		r, err := l.harness.Delete(ctx, l.name, clientv3.WithPrefix())
		if err != nil || r.Deleted == 0 {
			return err
		}
	}
}

func (l *etcdLab) store(conformance.T) conformance.Store {
	prefix := fmt.Sprintf("%s%d/", l.name, l.cases.Add(1))
	return conformance.Store{Open: func(t conformance.T) backend.Backend {
		client, err := l.client(t.Context())
		if err != nil {
			t.Fatalf("connect: %v", err)
		}
		t.Cleanup(func() { client.Close() })
		client.Lease = granter{client.Lease, l}
		b, err := etcd.New(client, etcd.WithPrefix(prefix))
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		return b
	}}
}
