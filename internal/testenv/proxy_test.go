package testenv

import (
	"bufio"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// echoServer answers every line with itself.
func echoServer(t *testing.T) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	finished := make(chan struct{})
	t.Cleanup(func() {
		_ = ln.Close()
		<-finished
	})
	go func() {
		defer close(finished)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return ln.Addr().String()
}

type lineClient struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func dialLines(t *testing.T, addr string) *lineClient {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &lineClient{t, conn, bufio.NewReader(conn)}
}

func (c *lineClient) send(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		c.t.Fatalf("Write(%q) = %v, want nil", line, err)
	}
}

func (c *lineClient) want(line string) {
	c.t.Helper()
	c.deadline(5 * time.Second)
	if got, err := c.in.ReadString('\n'); got != line+"\n" {
		c.t.Fatalf("Read = %q, %v, want %q", got, err, line)
	}
}

func (c *lineClient) wantClosed() {
	c.t.Helper()
	c.deadline(5 * time.Second)
	if got, err := c.in.ReadString('\n'); err == nil || got != "" || isTimeout(err) {
		c.t.Fatalf("Read = %q, %v, want a closed connection", got, err)
	}
}

func (c *lineClient) wantSilence() {
	c.t.Helper()
	c.deadline(50 * time.Millisecond)
	if got, err := c.in.ReadString('\n'); got != "" || !isTimeout(err) {
		c.t.Fatalf("Read = %q, %v, want an open connection without a word", got, err)
	}
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

func (c *lineClient) deadline(d time.Duration) {
	c.t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(d)); err != nil {
		c.t.Fatal(err)
	}
}

func wantFired(t *testing.T, a *Armed) {
	t.Helper()
	select {
	case <-a.Fired():
	case <-time.After(5 * time.Second):
		t.Fatal("Fired() stays open, want it closed")
	}
}

func TestProxyForwards(t *testing.T) {
	t.Parallel()
	p := NewProxy(t, echoServer(t))
	one, two := dialLines(t, p.Addr()), dialLines(t, p.Addr())
	for range 3 {
		one.send("ping")
		one.want("ping")
	}
	two.send("pong")
	two.want("pong")
	if got := p.RoundTrips(); got != 4 {
		t.Errorf("RoundTrips() = %d, want 4", got)
	}
	if by := p.TripsByConn(); len(by) != 2 || len(by[0])+len(by[1]) != 4 || len(by[0]) != 3 && len(by[1]) != 3 {
		t.Errorf("TripsByConn() = %q, want 3 and 1", by)
	}
	p.Reset()
	one.send("more")
	one.want("more")
	if got := p.RoundTrips(); got != 1 {
		t.Errorf("RoundTrips() after Reset = %d, want 1", got)
	}
}

func TestProxyPassesTheEndOn(t *testing.T) {
	t.Parallel()
	p := NewProxy(t, echoServer(t))
	c := dialLines(t, p.Addr())
	c.send("last words")
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	c.want("last words")
	c.wantClosed()
}

func TestProxyCuts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		rule Rule
		seen bool // by the client, before the cut
	}{
		{"before, to server", Rule{On: ToServer, Do: CutBefore, Match: Contains("COMMIT")}, false},
		{"after, to server", Rule{On: ToServer, Do: CutAfter, Match: Contains("COMMIT")}, false},
		{"before, to client", Rule{On: ToClient, Do: CutBefore, Match: Contains("COMMIT")}, false},
		{"after, to client", Rule{On: ToClient, Do: CutAfter, Match: Contains("COMMIT")}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := NewProxy(t, echoServer(t))
			arm := p.Add(tc.rule)
			c := dialLines(t, p.Addr())
			c.send("begin")
			c.want("begin")
			c.send("commit")
			if tc.seen {
				c.want("commit")
			}
			c.wantClosed()
			wantFired(t, arm)

			again := dialLines(t, p.Addr())
			again.send("commit")
			again.want("commit") // the rule was good for once
			if got := arm.Count(); got != 1 {
				t.Errorf("Count() = %d, want 1", got)
			}
		})
	}
}

func TestProxySkipsAndSticks(t *testing.T) {
	t.Parallel()
	p := NewProxy(t, echoServer(t))
	arm := p.Add(Rule{On: ToServer, Do: CutBefore, Match: Contains("x"), Skip: 1, Sticky: true})
	c := dialLines(t, p.Addr())
	c.send("x")
	c.want("x")
	for range 2 {
		c = dialLines(t, p.Addr())
		c.send("x")
		c.wantClosed()
	}
	wantFired(t, arm)
	arm.Remove()
	c = dialLines(t, p.Addr())
	c.send("x")
	c.want("x")
	if got := arm.Count(); got != 2 {
		t.Errorf("Count() = %d, want 2", got)
	}
}

func TestProxyHolds(t *testing.T) {
	t.Parallel()
	p := NewProxy(t, echoServer(t))
	arm := p.Add(Rule{On: ToServer, Do: Hold, Match: Contains("wait")})
	c := dialLines(t, p.Addr())
	c.send("wait")
	wantFired(t, arm)
	c.send("behind it")
	c.wantSilence()
	arm.Release()
	c.want("wait")
	c.want("behind it")
}

func TestProxyHoldsAndCuts(t *testing.T) {
	t.Parallel()
	p := NewProxy(t, echoServer(t))
	arm := p.Add(Rule{On: ToServer, Do: Hold})
	c := dialLines(t, p.Addr())
	c.send("wait")
	wantFired(t, arm)
	arm.Cut()
	c.wantClosed()
}

// A packet stuck in the network arrives although its sender has gone.
func TestProxyDeliversWhatItHeldForALeaver(t *testing.T) {
	t.Parallel()
	c, server, p := pair(t)
	arm := p.Add(Rule{On: ToServer, Do: Hold})
	c.send("late")
	wantFired(t, arm)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	server.wantSilence()
	arm.Release()
	server.want("late")
	server.wantClosed()
}

// A leaver's unread answers are no reason to stop delivering what it sent.
func TestProxyDeliversToTheEndForALeaver(t *testing.T) {
	t.Parallel()
	c, server, p := pair(t)
	one := p.Add(Rule{On: ToServer, Do: Hold, Match: Contains("one")})
	two := p.Add(Rule{On: ToServer, Do: Hold, Match: Contains("two")})
	c.send("one")
	wantFired(t, one)
	c.send("two")
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	one.Release()
	wantFired(t, two)
	server.want("one")
	for range 100 {
		server.send(string(make([]byte, 1<<16))) // more than anybody buffers
	}
	two.Release()
	server.want("two")
	server.wantClosed()
}

func TestProxyBlackHoleHidesTheEnd(t *testing.T) {
	t.Parallel()
	for _, dir := range []Direction{ToServer, ToClient} {
		c, server, p := pair(t)
		arm := p.Add(Rule{On: dir, Do: BlackHole})
		from, to := c, server
		if dir == ToClient {
			from, to = server, c
		}
		from.send("hole")
		wantFired(t, arm)
		if err := from.Close(); err != nil {
			t.Fatal(err)
		}
		to.wantSilence()
		to.send("anybody?")
		to.wantSilence()
	}
}

// pair returns both ends of a proxied connection.
func pair(t *testing.T) (client, server *lineClient, p *Proxy) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	p = NewProxy(t, ln.Addr().String())
	client = dialLines(t, p.Addr())
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return client, &lineClient{t, conn, bufio.NewReader(conn)}, p
}

func TestProxyBlackHole(t *testing.T) {
	t.Parallel()
	p := NewProxy(t, echoServer(t))
	arm := p.Add(Rule{On: ToServer, Do: BlackHole, Match: Contains("hole")})
	c, other := dialLines(t, p.Addr()), dialLines(t, p.Addr())
	c.send("hole")
	wantFired(t, arm)
	c.send("anybody?")
	c.wantSilence()
	other.send("still here")
	other.want("still here")
	if got := p.Open(); got != 2 {
		t.Errorf("Open() = %d, want 2", got)
	}
}

func TestProxyPartition(t *testing.T) {
	t.Parallel()
	p := NewProxy(t, echoServer(t))
	before := dialLines(t, p.Addr())
	before.send("ping")
	before.want("ping")
	p.Partition()
	before.send("ping")
	before.wantSilence()
	during := dialLines(t, p.Addr())
	during.send("ping")
	during.wantSilence()
	p.Heal()
	before.send("ping")
	before.wantSilence()
	after := dialLines(t, p.Addr())
	after.send("ping")
	after.want("ping")
}

func TestProxyRefusesAndCutsAll(t *testing.T) {
	t.Parallel()
	p := NewProxy(t, echoServer(t))
	c := dialLines(t, p.Addr())
	c.send("ping")
	c.want("ping")
	p.Refuse(true)
	refused := dialLines(t, p.Addr())
	refused.wantClosed()
	c.send("ping")
	c.want("ping")
	p.CutAll()
	c.wantClosed()
	p.Refuse(false)
	back := dialLines(t, p.Addr())
	back.send("ping")
	back.want("ping")
}
