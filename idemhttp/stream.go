package idemhttp

import (
	"bufio"
	"fmt"
	"net"
	"net/http"

	"github.com/idem-go/idem"
)

// stream is the recorder of a handler that may flush and hijack.
type stream struct{ *recorder }

// Flush implements http.Flusher.
func (s stream) Flush() { _ = s.FlushError() }

// FlushError is for http.ResponseController. http.ErrNotSupported says that the
// answer goes on to be buffered, any other error that nothing of it will be sent.
func (s stream) FlushError() error {
	if s.status == 0 {
		s.WriteHeader(http.StatusOK)
	}
	switch {
	case s.err != nil:
		return s.err
	case !s.live && (!s.mayStream() || !canFlush(s.w)):
		return http.ErrNotSupported
	case !s.live:
		if err := s.start(); err != nil {
			return err
		}
	}
	return http.NewResponseController(s.w).Flush()
}

// Hijack implements http.Hijacker.
func (s stream) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	switch {
	case s.err != nil:
		return nil, nil, s.err
	case s.live:
	case s.attempt.run == nil || !canHijack(s.w):
		return nil, nil, http.ErrNotSupported
	default:
		if err := s.complete(idem.Response{Status: s.status, Header: s.split.stored}); err != nil {
			return nil, nil, err
		}
	}
	conn, rw, err := http.NewResponseController(s.w).Hijack()
	if err != nil {
		// What the handler answers now would reach its first caller alone.
		s.err = fmt.Errorf("idemhttp: the record is completed, but its connection can't be hijacked: %w", err)
		return nil, nil, s.err
	}
	s.live = true
	return conn, rw, nil
}

// mayStream reports whether the answer, whose status is set, may leave before it is
// complete.
func (c *recorder) mayStream() bool {
	return c.attempt.run != nil && c.attempt.stores(c.status)
}

// start completes the record without the answer and sends what there is of it.
func (c *recorder) start() error {
	resp := c.response()
	if err := c.complete(resp); err != nil {
		return err
	}
	c.live, c.body = true, nil
	answer{Response: resp, once: c.split.once, open: true}.send(c.w, c.attempt.x.r.Method)
	return nil
}

func (c *recorder) complete(resp idem.Response) error {
	if err := c.attempt.run.Stream(c.attempt, resp); err != nil {
		// The record may be completed, and the handler has done something. It is
		// not for this run to set the key free.
		c.err = idem.MaybeDone(err)
	}
	return c.err
}

func canFlush(w http.ResponseWriter) bool {
	switch w := w.(type) {
	case http.Flusher, interface{ FlushError() error }:
		return true
	case interface{ Unwrap() http.ResponseWriter }:
		return canFlush(w.Unwrap())
	}
	return false
}

func canHijack(w http.ResponseWriter) bool {
	switch w := w.(type) {
	case http.Hijacker:
		return true
	case interface{ Unwrap() http.ResponseWriter }:
		return canHijack(w.Unwrap())
	}
	return false
}
