package redis_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/redis"
)

// calls are the calls that write, each on a record of its own. Called twice they do one thing.
func calls(t *testing.T, direct *redis.Backend) map[string]func(b *redis.Backend) error {
	t.Helper()
	direct.LoadScripts(t)
	held := make(map[string]backend.Lease)
	for _, key := range []string{"renew", "checkpoint", "complete", "release"} {
		held[key] = acquire(t, direct, request(key)).Holder()
	}
	fresh := request("claim")
	return map[string]func(b *redis.Backend) error{
		"claim": func(b *redis.Backend) error {
			got, err := b.Claim(t.Context(), fresh)
			if err == nil && (!got.Acquired || got.Record.Attempt != 1) {
				t.Errorf("claim = acquired %v at attempt %d, want it acquired at the first", got.Acquired, got.Record.Attempt)
			}
			return err
		},
		"renew":      func(b *redis.Backend) error { return b.Renew(t.Context(), held["renew"], time.Hour) },
		"checkpoint": func(b *redis.Backend) error { return b.Checkpoint(t.Context(), held["checkpoint"], point(1, "p")) },
		"complete":   func(b *redis.Backend) error { return b.Complete(t.Context(), held["complete"], completion("done")) },
		"release":    func(b *redis.Backend) error { return b.Release(t.Context(), held["release"]) },
	}
}

// R-1, field report 8: a reply is lost. The call is made once, its outcome is
// unknown, and the caller's own retry is recognised.
func TestReplyIsLost(t *testing.T) {
	t.Parallel()
	b, _, srv := started(t)
	proxy := srv.Proxy(t)
	far := newBackend(t, connect(t, srv.Via(proxy.Addr())), redis.WithPrefix(srv.Prefix)) // go-redis's default retries
	var sent atomic.Int32
	proxy.Add(testenv.Rule{On: testenv.ToServer, Do: testenv.Hold, Match: func(u testenv.Unit) bool {
		if testenv.Contains("evalsha")(u) {
			sent.Add(1)
		}
		return false
	}})
	for call, do := range calls(t, b) {
		_, err := far.Get(t.Context(), request("warm").Key)
		if !errors.Is(err, backend.ErrNotFound) {
			t.Fatal(err)
		}
		before := sent.Load()
		proxy.Add(testenv.Rule{On: testenv.ToServer, Match: testenv.Contains("evalsha"), Do: testenv.CutAfter})
		if err := do(far); err == nil || backend.NotApplied(err) || !errors.Is(err, io.EOF) {
			t.Errorf("%s, its reply lost = %v, want an error that is not NotApplied, with EOF in it", call, err)
		}
		if n := sent.Load() - before; n != 1 {
			t.Errorf("%s was sent %d times, want once", call, n)
		}
		if err := do(b); err != nil {
			t.Errorf("%s again = %v, want nil", call, err)
		}
	}
	if r := get(t, b, request("complete").Key); string(r.Response.Body) != "done" {
		t.Errorf("body = %q, want done", r.Response.Body)
	}
}

// The request itself is lost: nothing was done, and nobody can know.
func TestRequestIsLost(t *testing.T) {
	t.Parallel()
	b, _, srv := started(t)
	proxy := srv.Proxy(t)
	far := newBackend(t, connect(t, srv.Via(proxy.Addr())), redis.WithPrefix(srv.Prefix))
	for call, do := range calls(t, b) {
		proxy.Add(testenv.Rule{On: testenv.ToServer, Match: testenv.Contains("evalsha"), Do: testenv.CutBefore})
		if err := do(far); err == nil || backend.NotApplied(err) {
			t.Errorf("%s, lost on its way = %v, want an error that is not NotApplied", call, err)
		}
		if err := do(b); err != nil {
			t.Errorf("%s again = %v, want nil", call, err)
		}
	}
	proxy.Add(testenv.Rule{On: testenv.ToServer, Match: testenv.Contains("evalsha"), Do: testenv.CutBefore})
	if _, err := far.Get(t.Context(), request("complete").Key); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("Get, lost = %v, want ErrUnavailable: it changes nothing", err)
	}
}

// A reply is lost and no server is there to repeat the call on: "connection
// refused" would be the truth about the second try and a lie about the first.
func TestReplyIsLostAndTheServerIsGone(t *testing.T) {
	t.Parallel()
	b, _, srv := started(t)
	proxy := srv.Proxy(t)
	var gone sync.Map
	client := connect(t, srv.Via(proxy.Addr()), func(o *goredis.Options) {
		o.PoolSize, o.DialerRetries = 1, 1
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if _, is := gone.Load(true); is {
				addr = "127.0.0.1:1" // nobody listens there
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
	})
	far := newBackend(t, client, redis.WithPrefix(srv.Prefix))
	_, _ = far.Get(t.Context(), request("warm").Key) // connects
	gone.Store(true, true)
	proxy.Add(testenv.Rule{On: testenv.ToServer, Match: testenv.Contains("evalsha"), Do: testenv.CutAfter})
	c := request("k")
	if _, err := far.Claim(t.Context(), c); err == nil || backend.NotApplied(err) {
		t.Errorf("Claim = %v, want an error that is not NotApplied: it is applied", err)
	}
	until(t, "the claim is applied", func() bool { // the server has it, and takes its time
		r, err := b.Get(t.Context(), c.Key)
		return err == nil && r.ClaimID == c.ID
	})
	if _, err := far.Claim(t.Context(), c); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("Claim without a server = %v, want ErrUnavailable", err)
	}
}

// What never leaves the client is surely not applied.
func TestNothingIsSent(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	refused := connect(t, srv.Via("127.0.0.1:1"), func(o *goredis.Options) { o.DialerRetries = 1 })
	closed := connect(t, srv.URL)
	must(t, closed.Close())
	busy := connect(t, srv.URL, func(o *goredis.Options) { o.PoolSize, o.PoolTimeout = 1, time.Millisecond })
	conn := busy.Conn()
	must(t, conn.Ping(t.Context()).Err()) // holds the only connection
	t.Cleanup(func() { must(t, conn.Close()) })
	locked := connect(t, srv.URL, func(o *goredis.Options) { o.Password = "wrong" })
	for name, client := range map[string]*goredis.Client{"refused": refused, "closed": closed, "exhausted": busy, "locked out": locked} {
		b := newBackend(t, client, redis.WithPrefix(srv.Prefix))
		if _, err := b.Claim(t.Context(), request(name)); !errors.Is(err, backend.ErrUnavailable) {
			t.Errorf("Claim, %s = %v, want ErrUnavailable", name, err)
		}
		if _, err := b.Describe(t.Context()); !errors.Is(err, backend.ErrUnavailable) {
			t.Errorf("Describe, %s = %v, want ErrUnavailable", name, err)
		}
	}
}

// a context that ends is obeyed while go-redis still waits for the reply, which it does
// until ReadTimeout after a cancel, whatever ContextTimeoutEnabled says, and after a deadline
// unless that is set.
func TestContextEndsDuringACall(t *testing.T) {
	t.Parallel()
	near, _, srv := privately(t)
	held := acquire(t, near, request("held")).Holder()
	srv.Pause(t)
	cause := errors.New("the caller leaves")
	const patience = 50 * time.Millisecond // most likely it waits by then
	for name, leave := range map[string]func() (context.Context, func()){
		"cancelled": func() (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(t.Context())
			timer := time.AfterFunc(patience, func() { cancel(cause) })
			return ctx, func() { timer.Stop(); cancel(nil) }
		},
		"out of time": func() (context.Context, func()) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), patience, cause)
			return ctx, cancel
		},
	} {
		for _, enabled := range []bool{false, true} {
			b := newBackend(t, connect(t, srv.URL, func(o *goredis.Options) {
				o.ReadTimeout, o.PoolSize = -1, 10 // never gives up by itself
				o.ContextTimeoutEnabled = enabled
			}))
			for call, do := range map[string]func(ctx context.Context) error{
				"Claim":    func(ctx context.Context) error { _, err := b.Claim(ctx, request("k")); return err },
				"Complete": func(ctx context.Context) error { return b.Complete(ctx, held, completion("x")) },
				"Sweep":    func(ctx context.Context) error { _, err := b.Sweep(ctx, 1); return err },
				"Get":      func(ctx context.Context) error { _, err := b.Get(ctx, held.Key); return err },
				"Describe": func(ctx context.Context) error { _, err := b.Describe(ctx); return err },
			} {
				ctx, end := leave()
				err := returns(t, call, func() error { return do(ctx) })
				end()
				reads := call == "Get" || call == "Describe"
				// go-redis may find out first that there is no time left.
				late := name == "out of time" && enabled && errors.Is(err, os.ErrDeadlineExceeded)
				if !errors.Is(err, cause) && !late || reads && !backend.NotApplied(err) {
					t.Errorf("%s, %s with ContextTimeoutEnabled %v = %v, want the cause of the context", call, name, enabled, err)
				}
			}
		}
	}
	srv.Resume(t)
}

// returns ends the test if a call does not come back.
func returns(t *testing.T, call string, do func() error) error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- do() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(20 * time.Second):
		t.Fatalf("%s does not return when its context ends", call)
		return nil
	}
}

// gate is a connection that stops before a large write.
type gate struct {
	net.Conn
	reached chan struct{}
	open    chan struct{}
}

func (g *gate) Write(b []byte) (int, error) {
	if len(b) > 1<<19 {
		close(g.reached)
		<-g.open
	}
	return g.Conn.Write(b)
}

// A caller that leaves during its call gets an unknown outcome, and its slices are
// its own again although they have not been sent yet.
func TestCallerLeaves(t *testing.T) {
	t.Parallel()
	b, _, srv := started(t)
	b.LoadScripts(t)
	g := &gate{reached: make(chan struct{}), open: make(chan struct{})}
	far := newBackend(t, connect(t, srv.URL, func(o *goredis.Options) {
		o.ReadTimeout, o.WriteTimeout = -1, -1
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return &gate{conn, g.reached, g.open}, err
		}
	}), redis.WithPrefix(srv.Prefix))
	l := acquire(t, b, request("k")).Holder()
	c := completion(strings.Repeat("a", 1<<20))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-g.reached
		cancel()
	}()
	err := returns(t, "Complete", func() error { return far.Complete(ctx, l, c) })
	if backend.NotApplied(err) || !errors.Is(err, context.Canceled) {
		t.Errorf("Complete, left = %v, want an error that is not NotApplied, with the context's in it", err)
	}
	for i := range c.Response.Body {
		c.Response.Body[i] = '#'
	}
	close(g.open)
	until(t, "the completion arrives", func() bool { return get(t, b, l.Key).Status == backend.Completed })
	if got := string(get(t, b, l.Key).Response.Body); strings.Contains(got, "#") {
		t.Error("the body stored is what the caller wrote into it after Complete had returned")
	}
}

// Errors carry no key, tenant or body, whatever the server says.
func TestErrorsKeepSecrets(t *testing.T) {
	t.Parallel()
	_, client, srv := privately(t)
	b := newBackend(t, client)
	c := request("secret-key")
	c.Key.Tenant, c.Payload = "secret-tenant", []byte("secret-payload")
	must(t, client.Set(t.Context(), b.KeyOf(c.Key), "secret-value", 0).Err())
	_, wrong := b.Claim(t.Context(), c)
	must(t, client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	_, full := b.Claim(t.Context(), c)
	srv.Kill(t)
	_, down := b.Claim(t.Context(), c)
	for what, err := range map[string]error{"another type": wrong, "full": full, "down": down} {
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("Claim, %s = %v, want an error without a part of the request", what, err)
		}
	}
}
