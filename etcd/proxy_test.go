package etcd_test

import (
	"context"
	"net"
	"sync"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/idem-go/idem/internal/testenv"
)

// grpcProxy is a server between a client and etcd that passes calls on and may
// give another answer than etcd's, as proxies do that have time limits of their own.
type grpcProxy struct {
	etcdserverpb.UnimplementedKVServer
	etcdserverpb.UnimplementedLeaseServer
	kv    etcdserverpb.KVClient
	lease etcdserverpb.LeaseClient
	addr  string

	mu     sync.Mutex
	answer func(req any) error // instead of etcd's; nil: that
	txns   int                 // that can write and were passed on
	grants int
}

// newGRPCProxy starts a proxy in front of a server, until the test ends.
func newGRPCProxy(t *testing.T, srv *testenv.EtcdServer) *grpcProxy {
	t.Helper()
	conn := connect(t, srv).ActiveConnection()
	p := &grpcProxy{kv: etcdserverpb.NewKVClient(conn), lease: etcdserverpb.NewLeaseClient(conn)}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.addr = ln.Addr().String()
	s := grpc.NewServer()
	etcdserverpb.RegisterKVServer(s, p)
	etcdserverpb.RegisterLeaseServer(s, p)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ln) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-ended; err != nil {
			t.Errorf("the proxy ended with %v, want nil", err)
		}
	})
	return p
}

func (p *grpcProxy) client(t *testing.T, change ...func(*clientv3.Config)) *clientv3.Client {
	t.Helper()
	return connectTo(t, []string{p.addr}, change...)
}

// answers sets what is answered instead of etcd's word from now on, and begins to
// count anew.
func (p *grpcProxy) answers(f func(req any) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer, p.txns, p.grants = f, 0, 0
}

// passedOn is how many Txns that can write, and how many grants of leases, came to
// etcd.
func (p *grpcProxy) passedOn() (txns, grants int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.txns, p.grants
}

// pass lets a request through to etcd and gives the proxy's answer.
func pass[Req, Resp any](ctx context.Context, p *grpcProxy, req Req, send func(context.Context, Req, ...grpc.CallOption) (Resp, error)) (Resp, error) {
	resp, err := send(ctx, req)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch any(req).(type) {
	case *etcdserverpb.TxnRequest:
		if writing(req) {
			p.txns++
		}
	case *etcdserverpb.LeaseGrantRequest:
		p.grants++
	}
	if err != nil || p.answer == nil {
		return resp, err
	}
	return resp, p.answer(req)
}

func (p *grpcProxy) Range(ctx context.Context, r *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
	return pass(ctx, p, r, p.kv.Range)
}

func (p *grpcProxy) Txn(ctx context.Context, r *etcdserverpb.TxnRequest) (*etcdserverpb.TxnResponse, error) {
	return pass(ctx, p, r, p.kv.Txn)
}

func (p *grpcProxy) LeaseGrant(ctx context.Context, r *etcdserverpb.LeaseGrantRequest) (*etcdserverpb.LeaseGrantResponse, error) {
	return pass(ctx, p, r, p.lease.LeaseGrant)
}

func (p *grpcProxy) LeaseTimeToLive(ctx context.Context, r *etcdserverpb.LeaseTimeToLiveRequest) (*etcdserverpb.LeaseTimeToLiveResponse, error) {
	return pass(ctx, p, r, p.lease.LeaseTimeToLive)
}
