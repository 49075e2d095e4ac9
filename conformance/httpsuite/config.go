package httpsuite

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// Config says where a server is, how a request to it is made, and what the server
// claims. URL and Body are needed; everything else adds to what can be checked.
type Config struct {
	// URL is where the server is, "https://shop.example", and Path what is asked of it,
	// "/payments", with its query if it has one. HTTP/2 is tried where an https server
	// offers it.
	URL, Path string

	// Method is POST if empty.
	Method string

	// TLS is for servers whose certificate the system doesn't know. May be nil.
	TLS *tls.Config

	// Body makes the body of request n. It gives the same bytes for the same n, and for
	// another n bytes that the server takes for another request. The server must carry
	// out every request that is sent for the first time, with a status of 2xx.
	Body func(n int) (contentType string, body []byte)

	// First is the first n that is used, 1 if zero. The others follow.
	First int

	// Authorize sets the credentials of user 0 or 1 on a request. It may change its
	// header and URL. Where it is nil the cases "user/…" are not run.
	Authorize func(user int, r *http.Request)

	// Effects counts how often request n has had its effect, by whatever user and since
	// whenever: the suite looks at how the number changes. Where it is nil an effect is told by its
	// answer: two runs with equal answers (status, body, Location, ETag) are taken for
	// one, and cases for which that shows nothing are not run.
	Effects func(ctx context.Context, n int) (int, error)

	// Slow makes the server hold request n, from now on and for every user, after its
	// key was claimed and before it has its effect, until release is called. The channel
	// is closed when a request has got there. Where nobody can know, it is nil; where
	// nothing can be held, Body(n) has to ask for something that takes the server three
	// seconds or longer from now on, and release may be nil. Where Slow is nil the
	// cases about requests in flight are not run.
	Slow func(n int) (reached <-chan struct{}, release func())

	Claims
}

// Claims are what the server says of itself. Cases check nothing that isn't claimed;
// those that are about it are not run.
type Claims struct {
	// Header is the name of the key's field, Idempotency-Key if empty.
	Header string

	// Optional: requests without a key are carried out. Otherwise they get 400.
	Optional bool

	// Strict: only a quoted key is taken, as the draft has it. Otherwise a key
	// without quotes is the same key.
	Strict bool

	// MinKey and MaxKey bound the length of a key, in bytes without quotes and escapes.
	// Zero claims nothing. A MinKey is 8 to 36, a MaxKey 40 or more.
	MinKey, MaxKey int

	// Replayed is the name of the field whose value is true on replays, and which
	// first answers don't have.
	Replayed string

	// Problems: refusals of a key are problem details (RFC 9457).
	Problems bool

	// Retryable: problem details have a member retryable that says whether the same request
	// is worth sending again.
	Retryable bool

	// RetryAfter: the refusal of a request in progress says when to come back.
	RetryAfter bool
}

// Ours are the claims of package idemhttp's middleware with its defaults.
func Ours() Claims {
	return Claims{
		Header: "Idempotency-Key", MinKey: 8, MaxKey: 255,
		Replayed: "Idempotent-Replayed", Problems: true, Retryable: true, RetryAfter: true,
	}
}

// settled is the config with its defaults, and the address that requests go to.
func (c Config) settled() (Config, *url.URL, error) {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil:
		return c, nil, errors.New("httpsuite: URL can't be parsed") // the error has it, and there may be a password in it
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return c, nil, errors.New("httpsuite: URL has no scheme http or https, or no host")
	case u.User != nil:
		return c, nil, errors.New("httpsuite: URL holds a user; Authorize is for credentials")
	case c.Body == nil:
		return c, nil, errors.New("httpsuite: Body is nil")
	case c.MinKey != 0 && (c.MinKey < 8 || c.MinKey > 36), c.MaxKey != 0 && c.MaxKey < 40:
		return c, nil, fmt.Errorf("httpsuite: keys of %d to %d bytes, want a MinKey of 8 to 36 and a MaxKey of 40 or more: the keys of the cases are as long", c.MinKey, c.MaxKey)
	}
	if c.Path != "" {
		path, err := url.Parse(c.Path)
		if err != nil || path.IsAbs() || path.Host != "" {
			return c, nil, errors.New("httpsuite: Path is no path")
		}
		query := path.RawQuery
		u = u.JoinPath(path.EscapedPath())
		u.RawQuery = query
	}
	u.Fragment = ""
	c.Method = cmp.Or(c.Method, http.MethodPost)
	if _, err := http.NewRequest(c.Method, u.String(), http.NoBody); err != nil {
		return c, nil, errors.New("httpsuite: Method is none")
	}
	c.Header = http.CanonicalHeaderKey(cmp.Or(c.Header, "Idempotency-Key"))
	c.First = cmp.Or(c.First, 1)
	return c, u, nil
}
