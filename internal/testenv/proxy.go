package testenv

import (
	"errors"
	"net"
	"sync"
	"testing"
)

// Proxy is a TCP proxy that a test puts between a client and a server, to cut,
// hold or swallow what passes at a chosen moment, and to count round trips.
//
// What passes is looked at in units: with [NewProxy] a unit is whatever one read
// brought, with [PostgresServer.Proxy] it is one message of PostgreSQL's
// protocol. Rules are asked in the order in which they were added, for every
// unit of every connection; the first that matches acts.
//
// A Proxy is safe for concurrent use.
type Proxy struct {
	target string
	frame  func() session
	ln     net.Listener
	done   sync.WaitGroup

	mu     sync.Mutex
	links  map[*link]struct{}
	rules  []*Armed
	counts []*link // in the order of connecting, for the counters
	refuse bool
	split  bool // a partition: all links are black holes
	closed bool
}

// NewProxy starts a proxy in front of target ("host:port"). It is closed, and
// all its connections with it, when the test ends.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	return newProxy(t, target, func() session { return new(rawSession) })
}

func newProxy(t testing.TB, target string, frame func() session) *Proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("proxy: %v", err)
	}
	p := &Proxy{target: target, frame: frame, ln: ln, links: make(map[*link]struct{})}
	p.done.Go(p.accept)
	t.Cleanup(p.Close)
	return p
}

// Addr is the "host:port" to dial instead of the target's.
func (p *Proxy) Addr() string { return p.ln.Addr().String() }

// Close ends all connections and waits until nothing of the proxy runs any more.
// Closing twice is fine.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.ln.Close() // the listener may be closed already
	p.CutAll()
	p.done.Wait()
}

// CutAll closes every connection, on both sides.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	links := make([]*link, 0, len(p.links))
	for l := range p.links {
		links = append(links, l)
	}
	p.mu.Unlock()
	for _, l := range links {
		l.cut()
	}
}

// Refuse makes the proxy drop new connections at once, as a server that is down,
// until Refuse(false). Connections that stand are not touched.
func (p *Proxy) Refuse(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = on
}

// Partition turns every connection that stands and every one that comes into a
// black hole, until Heal: bytes are swallowed in both directions, and nobody
// learns that the other side has closed. New connections are accepted and get no
// answer.
func (p *Proxy) Partition() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.split = true
	for l := range p.links {
		l.swallow()
	}
}

// Heal ends a partition for new connections. Those that were swallowed stay as
// they are: what they lost does not come back.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.split = false
}

// Open returns how many connections stand.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

func (p *Proxy) accept() {
	for {
		client, err := p.ln.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		p.mu.Lock()
		turnedAway := p.refuse || p.closed
		p.mu.Unlock()
		if turnedAway {
			_ = client.Close()
			continue
		}
		p.done.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = client.Close()
		return
	}
	l := &link{proxy: p, client: client, server: server, session: p.frame(), ended: make(chan struct{}), swallowed: make(chan struct{})}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		l.cut()
		return
	}
	if p.split {
		l.swallow()
	}
	p.links[l] = struct{}{}
	p.counts = append(p.counts, l)
	p.mu.Unlock()

	var pumps sync.WaitGroup
	pumps.Go(func() { l.pump(ToServer, client, server) })
	pumps.Go(func() { l.pump(ToClient, server, &departing{Conn: client}) })
	pumps.Wait()
	l.cut()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// RoundTrips returns how often a client sent something and then waited for the
// answer, over all connections since the last Reset. Statements that travel
// together count once. With [PostgresServer.Proxy], connecting and closing don't
// count.
func (p *Proxy) RoundTrips() int { return len(p.Trips()) }

// Trips tells what each round trip carried: with [PostgresServer.Proxy] the
// statements it ran, separated by "; " (empty where it only prepared one).
// Connection by connection, in the order in which they were made.
func (p *Proxy) Trips() []string {
	var all []string
	for _, one := range p.TripsByConn() {
		all = append(all, one...)
	}
	return all
}

// TripsByConn is Trips with an entry for each connection since the last Reset
// (for those that stood then, too).
func (p *Proxy) TripsByConn() [][]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([][]string, len(p.counts))
	for i, l := range p.counts {
		l.mu.Lock()
		all[i] = append([]string(nil), l.trips...)
		l.mu.Unlock()
	}
	return all
}

// Reset sets the counters to zero.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts = p.counts[:0]
	for l := range p.links {
		l.mu.Lock()
		l.trips = nil
		l.mu.Unlock()
		p.counts = append(p.counts, l)
	}
}
