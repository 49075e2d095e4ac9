package idemhttp

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/idem-go/idem"
)

// errAnswerTooLarge: the answer is over WithMaxBuffer and can't be sent before it
// is complete. Nothing of it is stored.
var errAnswerTooLarge = errors.New("idemhttp: the handler's answer is larger than WithMaxBuffer allows")

// recorder is the handler's ResponseWriter. It keeps the answer in memory until it
// is live: then the answer goes to the client as it is written.
type recorder struct {
	attempt *attempt
	w       http.ResponseWriter
	header  http.Header // the handler's to change, until status is set

	status int // 0: not yet
	split  headerSplit
	guess  bool // the content type, from the body
	body   []byte

	live bool
	err  error // the answer can't be sent; what Write returns
}

// Header implements http.ResponseWriter.
func (c *recorder) Header() http.Header { return c.header }

// WriteHeader implements http.ResponseWriter. The first final status counts;
// informational ones are ignored.
func (c *recorder) WriteHeader(status int) {
	if !validStatus(status) {
		panic(fmt.Sprintf("idemhttp: WriteHeader(%d) is not a status", status))
	}
	if c.status != 0 || status < 200 && status != http.StatusSwitchingProtocols {
		return
	}
	c.status = status
	c.split = splitHeader(c.header, c.attempt.x.r.Method == http.MethodHead)
	if !hasBody(status) {
		return
	}
	_, has := c.header["Content-Type"]
	if !has {
		_, has = c.w.Header()["Content-Type"]
	}
	c.guess = !has && c.header.Get("Content-Encoding") == ""
}

// Write implements http.ResponseWriter.
func (c *recorder) Write(p []byte) (int, error) {
	if ok, err := c.grow(len(p)); err != nil {
		return 0, err
	} else if !ok {
		return c.w.Write(p)
	}
	c.body = append(c.body, p...)
	return len(p), nil
}

// WriteString implements io.StringWriter.
func (c *recorder) WriteString(s string) (int, error) {
	if ok, err := c.grow(len(s)); err != nil {
		return 0, err
	} else if !ok {
		return c.w.Write([]byte(s))
	}
	c.body = append(c.body, s...)
	return len(s), nil
}

// grow reports whether n bytes more are to be kept in memory; else they are to be
// sent.
func (c *recorder) grow(n int) (buffered bool, err error) {
	if c.status == 0 {
		c.WriteHeader(http.StatusOK)
	}
	switch {
	case c.err != nil:
		return false, c.err
	case !hasBody(c.status):
		return false, http.ErrBodyNotAllowed
	case c.live:
		return false, nil
	case len(c.body)+n <= c.attempt.x.h.cfg.maxBuffer:
		return true, nil
	case !c.mayStream():
		c.err = errAnswerTooLarge
		return false, c.err
	}
	return false, c.start()
}

// response is the answer so far.
func (c *recorder) response() idem.Response {
	if c.status == 0 {
		c.WriteHeader(http.StatusOK)
	}
	if c.guess && len(c.body) > 0 {
		c.split.stored = appendField(c.split.stored, "Content-Type", http.DetectContentType(c.body))
		c.guess = false
	}
	return idem.Response{Status: c.status, Header: c.split.stored, Body: c.body}
}

// The recorder has no Unwrap, through which http.ResponseController would send what is
// not stored. What concerns the connection is passed on.

// SetReadDeadline is for http.ResponseController.
func (c *recorder) SetReadDeadline(t time.Time) error {
	return http.NewResponseController(c.w).SetReadDeadline(t)
}

// SetWriteDeadline is for http.ResponseController.
func (c *recorder) SetWriteDeadline(t time.Time) error {
	return http.NewResponseController(c.w).SetWriteDeadline(t)
}

// EnableFullDuplex is for http.ResponseController.
func (c *recorder) EnableFullDuplex() error {
	return http.NewResponseController(c.w).EnableFullDuplex()
}

func validStatus(status int) bool { return status >= 100 && status <= 999 }

// hasBody reports whether an answer can have a body (RFC 9110, section 6.4.1).
func hasBody(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}
