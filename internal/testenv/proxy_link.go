package testenv

import (
	"net"
	"sync"
)

// link is one proxied connection.
type link struct {
	proxy          *Proxy
	client, server net.Conn

	mu        sync.Mutex
	session   session
	trips     []string // one entry a round trip, see Proxy.Trips
	cutOn     *Armed   // CutAfter has matched: drop the reply, cut when it is whole
	ended     chan struct{}
	swallowed chan struct{}
	once      sync.Once
	hole      sync.Once
}

func (l *link) cut() {
	l.once.Do(func() { close(l.ended) })
	_ = l.client.Close() // closed twice where both sides end at once
	_ = l.server.Close()
}

// cutFor cuts as a rule wants. Whoever sees the connection closed finds the rule
// counted, and whoever sees it fired finds the connection closed.
func (l *link) cutFor(r *Armed) {
	first := r.tally()
	l.cut()
	if first {
		close(r.fired)
	}
}

func (l *link) swallow() { l.hole.Do(func() { close(l.swallowed) }) }

func (l *link) isSwallowed() bool {
	select {
	case <-l.swallowed:
		return true
	default:
		return false
	}
}

// pump copies one direction until its source ends. A client's end is passed on
// as the end of its stream only, so that the server gets all that was sent
// before; a server's end is the end of the connection.
func (l *link) pump(dir Direction, src, dst net.Conn) {
	var pending []byte
	chunk := make([]byte, 32<<10)
	for {
		n, err := src.Read(chunk)
		pending = append(pending, chunk[:n]...)
		if n > 0 && !l.isSwallowed() {
			rest, ok := l.forward(dir, pending, dst)
			if !ok {
				return
			}
			pending = append(pending[:0], rest...)
		}
		if l.isSwallowed() {
			pending = pending[:0]
		}
		if err != nil {
			l.finish(dir)
			return
		}
	}
}

func (l *link) finish(dir Direction) {
	if l.isSwallowed() {
		return
	}
	l.mu.Lock()
	cutOn := l.cutOn
	l.mu.Unlock()
	if cutOn != nil && dir == ToClient { // the server left without an answer
		l.cutFor(cutOn)
		return
	}
	if dir == ToServer {
		_ = l.server.(*net.TCPConn).CloseWrite() // fails only if the server is gone as well
		return
	}
	l.cut()
}

// departing is a client that may leave before it has read everything. What it
// does not read is lost and no reason to cut the server off: it may have more to
// be told.
type departing struct {
	net.Conn
	gone bool
}

func (d *departing) Write(b []byte) (int, error) {
	if !d.gone {
		_, err := d.Conn.Write(b)
		d.gone = err != nil
	}
	return len(b), nil
}

// forward passes the whole units of pending on and returns what is left. ok is
// false when the direction is over.
func (l *link) forward(dir Direction, pending []byte, dst net.Conn) (rest []byte, ok bool) {
	sent := 0 // pending[sent:at] is decided and not yet written
	at := 0
	flush := func() bool {
		if sent == at {
			return true
		}
		_, err := dst.Write(pending[sent:at])
		sent = at
		if err != nil {
			l.cut()
		}
		return err == nil
	}
	for at < len(pending) {
		unit, n := l.next(dir, pending[at:])
		if n == 0 {
			break
		}
		if dropped, ended := l.replyDropped(dir, unit); ended {
			return nil, false
		} else if dropped {
			if !flush() {
				return nil, false
			}
			at += n
			sent = at
			continue
		}
		rule := l.proxy.match(dir, unit)
		if rule == nil {
			at += n
			continue
		}
		if !flush() {
			return nil, false
		}
		if !l.act(rule, dir, pending[at:at+n], dst) {
			return nil, false
		}
		at += n
		sent = at
		if l.isSwallowed() {
			return nil, true
		}
	}
	return pending[at:], flush()
}

// act carries the rule out for a unit it matched, and reports whether the
// direction goes on.
func (l *link) act(r *Armed, dir Direction, unit []byte, dst net.Conn) bool {
	switch r.rule.Do {
	case CutBefore:
		l.cutFor(r)
		return false
	case CutAfter:
		if dir == ToServer {
			l.mu.Lock()
			l.cutOn = r
			l.mu.Unlock()
		}
		_, err := dst.Write(unit)
		if dir == ToClient {
			l.cutFor(r)
			return false
		}
		return err == nil
	case Hold:
		r.fire()
		select {
		case <-r.released:
		case <-r.cut:
			l.cut()
			return false
		case <-l.ended:
			return false
		}
		_, err := dst.Write(unit)
		return err == nil
	default: // BlackHole
		l.swallow()
		r.fire()
		return true
	}
}

// replyDropped tells whether a CutAfter waits for this unit of the server's
// answer, and whether it was the last.
func (l *link) replyDropped(dir Direction, u Unit) (dropped, ended bool) {
	if dir == ToServer {
		return false, false
	}
	l.mu.Lock()
	r := l.cutOn
	l.mu.Unlock()
	if r == nil {
		return false, false
	}
	if !u.ends {
		return true, false
	}
	l.cutFor(r)
	return true, true
}

func (l *link) next(dir Direction, pending []byte) (Unit, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u, n := l.session.next(dir, pending)
	if n == 0 {
		return u, 0
	}
	if u.begins {
		l.trips = append(l.trips, "")
	}
	if last := len(l.trips) - 1; last >= 0 && u.SQL != "" && u.runs() {
		if l.trips[last] != "" {
			l.trips[last] += "; "
		}
		l.trips[last] += u.SQL
	}
	return u, n
}
