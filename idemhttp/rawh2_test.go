package idemhttp

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2conn is the client's end of an HTTP/2 connection with one stream, written frame by
// frame: what a field has in it is sent as it is.
type h2conn struct {
	net.Conn
	framer *http2.Framer
}

const h2stream = 1

func dial2(t testing.TB, s *site) *h2conn {
	t.Helper()
	conn := dial(t, s)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	c := &h2conn{conn, http2.NewFramer(conn, conn)}
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if err := c.framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return c
}

// fields2 is the request's header as HTTP/2 has it, in lower case.
func (q request) fields2() []hpack.HeaderField {
	orElse := func(s, def string) string {
		if s == "" {
			return def
		}
		return s
	}
	fields := []hpack.HeaderField{
		{Name: ":method", Value: orElse(q.method, http.MethodPost)},
		{Name: ":scheme", Value: "http"},
		{Name: ":authority", Value: "shop.example"},
		{Name: ":path", Value: orElse(q.path, "/orders")},
	}
	for _, k := range q.keys {
		fields = append(fields, hpack.HeaderField{Name: "idempotency-key", Value: k})
	}
	for _, h := range q.header {
		name, value, _ := strings.Cut(h, ": ")
		fields = append(fields, hpack.HeaderField{Name: strings.ToLower(name), Value: value})
	}
	return fields
}

func (c *h2conn) writeHeaders(t testing.TB, fields []hpack.HeaderField, last bool) {
	t.Helper()
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, f := range fields {
		if err := enc.WriteField(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: h2stream, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: last,
	}); err != nil {
		t.Fatal(err)
	}
}

func (c *h2conn) write(t testing.TB, q request) {
	t.Helper()
	c.writeHeaders(t, q.fields2(), q.body == "")
	if q.body == "" {
		return
	}
	if err := c.framer.WriteData(h2stream, true, []byte(q.body)); err != nil {
		t.Fatal(err)
	}
}

// resetError is a stream that the server ended.
type resetError http2.ErrCode

func (e resetError) Error() string { return "RST_STREAM: " + http2.ErrCode(e).String() }

// read reads to the end of the stream. A server that said nothing, or not all of it,
// is in the reply's cut.
func (c *h2conn) read(t testing.TB) (r reply) {
	t.Helper()
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			t.Fatalf("HTTP/2: %v after %d %q", err, r.status, r.body)
		}
		ended := false
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				err = c.framer.WriteSettingsAck()
			}
		case *http2.MetaHeadersFrame:
			c.header(t, f, &r)
			ended = f.StreamEnded()
		case *http2.DataFrame:
			r.body += string(f.Data())
			ended = f.StreamEnded()
		case *http2.RSTStreamFrame:
			r.cut = resetError(f.ErrCode)
			ended = true
		}
		if err != nil {
			t.Fatal(err)
		}
		if ended {
			return r
		}
	}
}

func (*h2conn) header(t testing.TB, f *http2.MetaHeadersFrame, r *reply) {
	t.Helper()
	lines, header := []string(nil), make(http.Header)
	for _, h := range f.RegularFields() {
		header.Add(h.Name, h.Value)
		if h.Name != "date" {
			lines = append(lines, h.Name+": "+h.Value)
		}
	}
	if r.status != 0 {
		r.trailer = header
		return
	}
	status, err := strconv.Atoi(f.PseudoValue("status"))
	switch {
	case err != nil:
		t.Fatalf("HTTP/2: %v", err)
	case status < 200:
		r.early = append(r.early, status)
	default:
		r.status, r.head, r.header = status, lines, header
	}
}

// send2 is send over HTTP/2.
func send2(t testing.TB, s *site, q request) reply {
	t.Helper()
	c := dial2(t, s)
	defer c.Close()
	c.write(t, q)
	return c.read(t)
}

// wires are both ways to a server.
var wires = []struct {
	name string
	send func(testing.TB, *site, request) reply
}{
	{"HTTP/1.1", func(t testing.TB, s *site, q request) reply {
		t.Helper()
		conn := dial(t, s)
		defer conn.Close()
		if _, err := conn.Write(q.bytes()); err != nil {
			t.Fatal(err)
		}
		return receiveCut(t, conn, q.method)
	}},
	{"HTTP/2", send2},
}

// wasReset reports whether the server ended the stream with a code and no answer.
func (r reply) wasReset(code http2.ErrCode) bool {
	reset, ok := errors.AsType[resetError](r.cut)
	return ok && r.aborted() && http2.ErrCode(reset) == code
}
