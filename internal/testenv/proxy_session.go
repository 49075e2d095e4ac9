package testenv

import (
	"bytes"
	"encoding/binary"
)

// session cuts the two streams of one connection into units and knows where
// round trips begin and end. Its calls are serialised by the link.
type session interface {
	// next returns the first whole unit of pending and its length, or 0 if there
	// is none yet.
	next(dir Direction, pending []byte) (Unit, int)
}

// rawSession takes what a read brought as a unit, and a change of direction as
// the border between round trips.
type rawSession struct{ last Direction }

func (s *rawSession) next(dir Direction, pending []byte) (Unit, int) {
	u := Unit{Data: pending}
	u.begins = dir == ToServer && s.last != ToServer
	u.ends = dir == ToClient
	s.last = dir
	return u, len(pending)
}

// Requests that a client may open a connection with instead of a startup message
// (PostgreSQL manual, Message Formats).
const (
	cancelRequest = 80877102
	sslRequest    = 80877103
	gssRequest    = 80877104
)

// postgresSession reads PostgreSQL's protocol 3.
type postgresSession struct {
	started  bool // the client has sent its startup message
	ready    bool // the server has said ReadyForQuery once
	opaque   bool // encrypted, or a cancel request: nothing to read
	asked    bool // the server's next byte answers an encryption request
	busy     bool // in a round trip
	awaiting int  // ReadyForQuery messages that are owed

	statements map[string]string // prepared name to SQL
	portals    map[string]string // portal name to SQL
}

func newPostgresSession() session {
	return &postgresSession{statements: make(map[string]string), portals: make(map[string]string)}
}

func (s *postgresSession) next(dir Direction, pending []byte) (Unit, int) {
	switch {
	case s.opaque:
		return Unit{Data: pending, ends: dir == ToClient}, len(pending)
	case dir == ToServer && !s.started:
		return s.startup(pending)
	case dir == ToClient && s.asked:
		s.asked = false
		s.opaque = pending[0] == 'S' || pending[0] == 'G'
		return Unit{Data: pending[:1], ends: true}, 1
	}
	if len(pending) < 5 {
		return Unit{}, 0
	}
	n := 1 + int(binary.BigEndian.Uint32(pending[1:]))
	if n > len(pending) {
		return Unit{}, 0
	}
	u := Unit{Type: pending[0], Data: pending[:n]}
	if dir == ToServer {
		s.fromClient(&u)
	} else {
		s.fromServer(&u)
	}
	return u, n
}

func (s *postgresSession) startup(pending []byte) (Unit, int) {
	if len(pending) < 8 {
		return Unit{}, 0
	}
	n := int(binary.BigEndian.Uint32(pending))
	if n > len(pending) {
		return Unit{}, 0
	}
	u := Unit{Data: pending[:n]}
	switch binary.BigEndian.Uint32(pending[4:]) {
	case cancelRequest:
		u.cancels = true
		s.opaque = true
	case sslRequest, gssRequest:
		s.asked = true
	default:
		s.started = true
	}
	return u, n
}

func (s *postgresSession) fromClient(u *Unit) {
	body := u.Data[5:]
	switch u.Type {
	case 'Q': // Query
		u.SQL, _ = cString(body)
		s.awaiting++
	case 'P': // Parse: name, SQL
		name, rest := cString(body)
		u.SQL, _ = cString(rest)
		s.statements[name] = u.SQL
	case 'B': // Bind: portal, statement
		portal, rest := cString(body)
		name, _ := cString(rest)
		u.SQL = s.statements[name]
		s.portals[portal] = u.SQL
	case 'D': // Describe: 'S' or 'P', name
		if len(body) > 0 {
			name, _ := cString(body[1:])
			if body[0] == 'S' {
				u.SQL = s.statements[name]
			} else {
				u.SQL = s.portals[name]
			}
		}
	case 'E': // Execute: portal
		portal, _ := cString(body)
		u.SQL = s.portals[portal]
	case 'S': // Sync
		s.awaiting++
	case 'X': // Terminate: nobody waits
		return
	}
	if s.ready && !s.busy {
		s.busy = true
		u.begins = true
	}
}

func (s *postgresSession) fromServer(u *Unit) {
	if u.Type != 'Z' { // ReadyForQuery
		return
	}
	if s.awaiting > 0 {
		s.awaiting--
	}
	s.ready = true
	if s.awaiting == 0 {
		s.busy = false
		u.ends = true
	}
}

// cString reads a text up to its zero byte.
func cString(b []byte) (text string, rest []byte) {
	head, rest, _ := bytes.Cut(b, []byte{0})
	return string(head), rest
}
