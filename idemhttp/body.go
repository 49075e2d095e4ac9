package idemhttp

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"github.com/idem-go/idem/backend"
)

// errBodyTooLarge: the body of the request is over the limit.
var errBodyTooLarge = &backend.Error{Op: "idemhttp: read body", Kind: backend.ErrTooLarge}

// errBodyRead: somebody read the body, or a part of it, before the middleware. A
// fingerprint of the rest would take different requests for one.
var errBodyRead = &backend.Error{
	Op: "idemhttp: read body", Kind: backend.ErrInvalid,
	Hint: "the body was read before it came to the middleware; whoever reads it outside must put it back",
}

// bodyError is a body that did not arrive whole.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return "idemhttp: read body: " + e.err.Error() }
func (e *bodyError) Unwrap() error { return e.err }

// firstRead is how much memory a request gets on the word of its Content-Length.
const firstRead = 64 << 10

// readBody reads the whole body of r.
func readBody(r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, errBodyTooLarge
	}
	var body []byte
	if r.Body != nil && r.Body != http.NoBody {
		size := int64(bytes.MinRead)
		if r.ContentLength > 0 {
			size = r.ContentLength + 1 // room to see the end without growing
		}
		body = make([]byte, 0, min(size, firstRead))
		for {
			if len(body) == cap(body) {
				body = append(body, 0)[:len(body)]
			}
			n, err := r.Body.Read(body[len(body):cap(body)])
			body = body[:len(body)+n]
			if int64(len(body)) > limit {
				return nil, errBodyTooLarge
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
					return nil, errBodyTooLarge
				}
				return nil, &bodyError{err}
			}
		}
	}
	parsed := len(r.PostForm) > 0 || r.MultipartForm != nil
	if int64(len(body)) < r.ContentLength || parsed && len(body) == 0 {
		return nil, errBodyRead
	}
	return body, nil
}

// bodyReader gives a body that was read to a handler.
type bodyReader struct{ bytes.Reader }

func (*bodyReader) Close() error { return nil }
