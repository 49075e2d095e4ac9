package testenv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// EtcdServer is a running etcd server, or a cluster of the environment's, and a prefix
// that the test has for itself.
type EtcdServer struct {
	// Endpoints reach the server.
	Endpoints []string

	// Prefix begins no key but those of this test. What has it is deleted when the
	// test ends.
	Prefix string

	controls
}

// etcdServer is an etcd server and where it is.
type etcdServer struct {
	instance  // nil for one that is not ours
	endpoints []string
}

// sharedEtcd is the server that Etcd hands out.
var sharedEtcd struct {
	sync.Mutex
	tried  bool
	server *etcdServer
	err    error
}

// Etcd returns the server of this test process. The shortest lease of one that was
// started here is a second. A test that stops, kills or fills the server wants
// [EtcdPrivate].
func Etcd(t testing.TB) *EtcdServer {
	t.Helper()
	sharedEtcd.Lock()
	if !sharedEtcd.tried {
		sharedEtcd.tried = true
		sharedEtcd.server, sharedEtcd.err = startEtcd(t, providers(t), nil)
		if sharedEtcd.server != nil && sharedEtcd.server.instance != nil {
			onShutdown(sharedEtcd.server.close)
		}
	}
	srv, err := sharedEtcd.server, sharedEtcd.err
	sharedEtcd.Unlock()
	if err != nil {
		Unavailable(t, "etcd", err)
	}
	s := newEtcd(srv, false)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := askEtcd(ctx, s.Endpoints, func(ctx context.Context, c *clientv3.Client) error {
			_, err := c.Delete(ctx, s.Prefix, clientv3.WithPrefix())
			return err
		}); err != nil {
			t.Errorf("deleting the keys of the test: %v", err)
		}
	})
	return s
}

// EtcdPrivate starts a server for this test alone, with flags such as
// "--quota-backend-bytes=16777216", and stops it when the test ends.
func EtcdPrivate(t testing.TB, flags ...string) *EtcdServer {
	t.Helper()
	srv, err := startEtcd(t, ours(t), flags)
	if err != nil {
		Unavailable(t, "etcd", err)
	}
	t.Cleanup(func() {
		if err := srv.close(); err != nil {
			t.Errorf("stopping etcd: %v", err)
		}
	})
	return newEtcd(srv, true)
}

func newEtcd(srv *etcdServer, private bool) *EtcdServer {
	prefix := "idem-" + strings.ToLower(rand.Text()[:12]) + "/"
	s := &EtcdServer{
		Endpoints: srv.endpoints, Prefix: prefix,
		controls: controls{what: "etcd", own: "EtcdPrivate", within: etcdStart, ask: func(ctx context.Context) error { return etcdAnswers(ctx, srv.endpoints) }},
	}
	if private {
		s.in = srv.instance
	}
	return s
}

const etcdStart = 60 * time.Second // a slow disk; usually under a second

func startEtcd(t testing.TB, from []provider, flags []string) (*etcdServer, error) {
	t.Helper()
	return choose(t, "etcd", from, func(p provider) (*etcdServer, error) { return startEtcdFrom(p, flags) })
}

func startEtcdFrom(p provider, flags []string) (*etcdServer, error) {
	var in instance
	var err error
	switch p {
	case fromEnv:
		return etcdFromEnv()
	case fromDocker:
		in, err = startDockerEtcd(flags)
	default:
		in, err = startLocalEtcd(flags)
	}
	if err != nil {
		return nil, err
	}
	return &etcdServer{instance: in, endpoints: []string{in.addr()}}, nil
}

func etcdFromEnv() (*etcdServer, error) {
	given := os.Getenv("IDEM_TEST_ETCD_ENDPOINTS")
	if given == "" {
		return nil, fmt.Errorf("IDEM_TEST_ETCD_ENDPOINTS is not set: %w", errNotConfigured)
	}
	var endpoints []string
	for e := range strings.SplitSeq(given, ",") {
		if e = strings.TrimSpace(e); e != "" {
			endpoints = append(endpoints, e)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := etcdAnswers(ctx, endpoints); err != nil {
		return nil, fmt.Errorf("the servers of IDEM_TEST_ETCD_ENDPOINTS: %w", err)
	}
	return &etcdServer{endpoints: endpoints}, nil
}

// etcdFlags are those of a server that listens at the address.
func etcdFlags(listen, dataDir string, more []string) []string {
	return append([]string{
		"--data-dir=" + dataDir,
		"--listen-client-urls=http://" + listen, "--advertise-client-urls=http://" + listen,
		"--listen-peer-urls=http://127.0.0.1:0",
		// One and a half election timeouts make the shortest lease: a second.
		"--heartbeat-interval=50", "--election-timeout=500",
		"--log-level=warn",
	}, more...)
}

// etcdReady returns what tells that a server at addr answers.
func etcdReady(addr string) func(context.Context) error {
	return func(ctx context.Context) error { return etcdAnswers(ctx, []string{addr}) }
}

func etcdAnswers(ctx context.Context, endpoints []string) error {
	return askEtcd(ctx, endpoints, func(ctx context.Context, c *clientv3.Client) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		_, err := c.Get(ctx, "idem")
		return err
	})
}

func askEtcd(ctx context.Context, endpoints []string, f func(context.Context, *clientv3.Client) error) error {
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	return errors.Join(f(ctx, c), c.Close())
}
