package httpsuite

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
)

// maxAnswer is how much of an answer's body is read.
const maxAnswer = 16 << 20

// httpClient sends requests as they are: over HTTP/1.1 byte by byte on a connection of
// their own, so that nothing is corrected, repeated or followed on the way.
type httpClient struct {
	addr string
	tls  *tls.Config // nil: in the clear
	two  *http.Transport
}

func newHTTPClient(u *url.URL, cfg *tls.Config) *httpClient {
	c := new(httpClient)
	port := "80"
	if u.Scheme == "https" {
		port = "443"
		c.tls = new(tls.Config)
		if cfg != nil {
			c.tls = cfg.Clone()
		}
		c.tls.ServerName = cmp.Or(c.tls.ServerName, u.Hostname())
		c.tls.NextProtos = []string{"http/1.1"}
		two := c.tls.Clone()
		two.NextProtos = nil
		c.two = &http.Transport{TLSClientConfig: two, DisableCompression: true, Protocols: new(http.Protocols)}
		c.two.Protocols.SetHTTP2(true)
	}
	c.addr = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port))
	return c
}

func (c *httpClient) close() {
	if c.two != nil {
		c.two.CloseIdleConnections()
	}
}

// dial connects for one request over HTTP/1.1.
func (c *httpClient) dial(ctx context.Context) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", c.addr)
	if err != nil || c.tls == nil {
		return conn, err
	}
	secure := tls.Client(conn, c.tls)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}

// offersTwo says whether the server speaks HTTP/2.
func (c *httpClient) offersTwo(ctx context.Context) (bool, error) {
	if c.tls == nil {
		return false, nil
	}
	d := tls.Dialer{Config: c.tls.Clone()}
	d.Config.NextProtos = []string{"h2", "http/1.1"}
	conn, err := d.DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().NegotiatedProtocol == "h2", nil
}

// wire is a request as it is sent.
type wire struct {
	*http.Request        // without the key and the body
	field         string // the name of the key's header field, as it is spelled
	keys          []string
	body          []byte
}

func (w wire) bytes() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", w.Method, w.URL.RequestURI(), cmp.Or(w.Host, w.URL.Host))
	_ = w.Header.Write(&b)
	for _, k := range w.keys {
		fmt.Fprintf(&b, "%s: %s\r\n", w.field, k)
	}
	fmt.Fprintf(&b, "Content-Length: %d\r\nConnection: close\r\n\r\n", len(w.body))
	b.Write(w.body)
	return b.Bytes()
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// exchange is a request over HTTP/1.1 on its way.
type exchange struct {
	conn net.Conn
	stop func() bool
	w    wire
}

// begin connects, and sends nothing yet.
func (c *httpClient) begin(ctx context.Context, w wire) (*exchange, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	return &exchange{conn: conn, w: w, stop: context.AfterFunc(ctx, func() { _ = conn.Close() })}, nil
}

// cut closes the connection. Twice is fine.
func (x *exchange) cut() {
	x.stop()
	_ = x.conn.Close()
}

func (x *exchange) send() error {
	_, err := x.conn.Write(x.w.bytes())
	return err
}

func (x *exchange) receive() (answer, error) {
	defer x.cut()
	in := bufio.NewReader(x.conn)
	for {
		resp, err := http.ReadResponse(in, x.w.Request)
		if err != nil {
			return answer{}, err
		}
		if resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			return read(resp)
		}
	}
}

func read(resp *http.Response) (answer, error) {
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
	}
	return answer{resp.StatusCode, resp.Header, body}, err
}

// one sends a request over HTTP/1.1.
func (c *httpClient) one(ctx context.Context, w wire) (answer, error) {
	x, err := c.begin(ctx, w)
	if err != nil {
		return answer{}, err
	}
	return x.roundTrip()
}

// roundTrip is send and receive. A server may refuse a request and close before it has
// read all of it, so that an answer counts more than an error of sending.
func (x *exchange) roundTrip() (answer, error) {
	sent := x.send()
	a, err := x.receive()
	if err != nil {
		return a, errors.Join(sent, err)
	}
	return a, nil
}

// overTwo sends a request over HTTP/2.
func (c *httpClient) overTwo(ctx context.Context, w wire) (answer, error) {
	r := w.Clone(ctx)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(w.body)), int64(len(w.body))
	r.Header[w.field] = append(r.Header[w.field], w.keys...)
	resp, err := c.two.RoundTrip(r)
	if err != nil {
		return answer{}, err
	}
	return read(resp)
}
