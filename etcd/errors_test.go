package etcd_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/etcd"
	"github.com/idem-go/idem/internal/testenv"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	c := new(clientv3.Client)
	for name, opt := range map[string]etcd.Option{
		"no prefix": etcd.WithPrefix(""), "long prefix": etcd.WithPrefix(strings.Repeat("x", 256)), "NUL": etcd.WithPrefix("a\x00"),
		"small values": etcd.WithMaxValue(100), "large values": etcd.WithMaxValue(1 << 30), "no timeout": etcd.WithTimeout(0),
	} {
		if _, err := etcd.New(c, opt); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("New(%s) = %v, want ErrInvalid", name, err)
		}
	}
	if _, err := etcd.New(nil); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("New(nil) = %v, want ErrInvalid", err)
	}
}

// E-6, field report 29: more than the server or the client takes, though the option allows it, is refused,
// and nothing is stored.
func TestTooLargeForTheServer(t *testing.T) {
	t.Parallel()
	srv := testenv.EtcdPrivate(t, "--max-request-bytes=65536")
	limited := func(c *clientv3.Config) { c.MaxCallSendMsgSize = 600 << 10 }
	for name, c := range map[string]*clientv3.Client{"server": connect(t, srv), "client": connect(t, srv, limited)} {
		b := newBackend(t, c)
		r := acquire(t, b, request(name))
		for _, size := range []int{100 << 10, 1 << 20} {
			err := b.Complete(t.Context(), r.Holder(), completion(strings.Repeat("x", size)))
			if !errors.Is(err, backend.ErrTooLarge) || !backend.NotApplied(err) {
				t.Errorf("Complete(%d bytes, limit of the %s) = %v, want ErrTooLarge", size, name, err)
			}
		}
		complete(t, b, r, "small")
	}
}

// E-11: a server that doesn't answer costs no more than the context or the timeout, and
// what was asked of it is open.
func TestServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	srv := testenv.EtcdPrivate(t)
	c := connect(t, srv)
	b := newBackend(t, c, etcd.WithTimeout(3*time.Second)) // the first claim needs some of it on a busy machine
	patient := newBackend(t, c, etcd.WithTimeout(time.Hour))
	complete(t, b, acquire(t, b, request("first")), "x") // makes the lease that completed records share
	r := acquire(t, b, request("k"))
	srv.Pause(t)
	if _, err := b.Claim(t.Context(), request("k")); !errors.Is(err, backend.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Claim(no answer) = %v, want ErrUnavailable by the timeout", err)
	}
	if err := b.Complete(t.Context(), r.Holder(), completion("x")); !errors.Is(err, context.DeadlineExceeded) || backend.NotApplied(err) {
		t.Errorf("Complete(no answer) = %v, want an error that leaves it open", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	given := make(chan error, 1)
	go func() {
		_, err := patient.Get(ctx, r.Key)
		given <- err
	}()
	cancel()
	if err := <-given; !errors.Is(err, backend.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("Get(cancelled) = %v, want ErrUnavailable and context.Canceled", err)
	}
	srv.Resume(t)
	eventually(t, "the server answers again", func() bool {
		_, err := b.Get(t.Context(), r.Key)
		return err == nil
	})
	complete(t, b, r, "x")
}

// A record of another format is refused, not misread.
func TestForeignValue(t *testing.T) {
	t.Parallel()
	b, c, srv := fresh(t)
	for _, value := range []string{"", "x", "\x02{}", "\x01", "\x01\x05{}", "\x01\x02{}", "\x01\x02[]", "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		if _, err := c.Put(t.Context(), srv.Prefix+"started/tenant\x00actor\x00k", value); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Claim(t.Context(), request("k")); !errors.Is(err, backend.ErrUnavailable) {
			t.Errorf("Claim(value %q) = %v, want ErrUnavailable", value, err)
		}
	}
}
