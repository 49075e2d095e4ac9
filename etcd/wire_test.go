package etcd_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/idem-go/idem/etcd"
)

// wire sees every request of a client, below the client's own retries.
type wire struct {
	mu    sync.Mutex
	calls []string // the methods, in order
	rule  func(method string, req any, send func() error) error
}

func (w *wire) config(c *clientv3.Config) {
	c.DialOptions = append(c.DialOptions, grpc.WithChainUnaryInterceptor(w.unary), grpc.WithChainStreamInterceptor(w.stream))
}

func (w *wire) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	rule := w.note(method)
	if rule == nil {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	// What a rule sends after the caller has left arrives all the same, as a packet
	// stuck in the network does.
	return rule(method, req, func() error { return invoke(context.WithoutCancel(ctx), method, req, reply, cc, opts...) })
}

func (w *wire) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	w.note(method)
	return open(ctx, desc, cc, method, opts...)
}

func (w *wire) note(method string) func(string, any, func() error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, method[strings.LastIndexByte(method, '/')+1:])
	return w.rule
}

func (w *wire) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = nil
}

func (w *wire) seen() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.calls)
}

func (w *wire) set(rule func(method string, req any, send func() error) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rule = rule
}

// onNextWrite does something to the next Txn that can write, and to no other request.
func (w *wire) onNextWrite(do func(send func() error) error) {
	var once sync.Once
	w.set(func(_ string, req any, send func() error) error {
		if !writing(req) {
			return send()
		}
		err, done := error(nil), false
		once.Do(func() { err, done = do(send), true })
		if !done {
			return send()
		}
		return err
	})
}

// writing reports whether a request is a Txn that can write.
func writing(req any) bool {
	txn, ok := req.(*etcdserverpb.TxnRequest)
	return ok && slices.ContainsFunc(txn.Success, func(op *etcdserverpb.RequestOp) bool { return op.GetRequestRange() == nil })
}

// wired is a backend whose requests a wire sees.
func wired(t testing.TB) (*etcd.Backend, *wire) {
	t.Helper()
	w := new(wire)
	b, _, _ := fresh(t, w.config)
	return b, w
}
