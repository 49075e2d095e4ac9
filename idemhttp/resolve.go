package idemhttp

import (
	"net/http"

	"github.com/idem-go/idem"
)

// NewAnswer gives an HTTP answer the form in which the middleware stores and replays
// it, without the fields that it does not store. It is for [idem.Answered], when a
// person has to end a request. A status that is none (below 100 or above 999) is
// ErrInvalid.
func NewAnswer(status int, header http.Header, body []byte) (idem.Response, error) {
	if !validStatus(status) {
		return idem.Response{}, invalid("status %d; 100 to 999 are possible", status)
	}
	if !hasBody(status) && len(body) > 0 {
		return idem.Response{}, invalid("an answer with status %d has no body", status)
	}
	return idem.Response{Status: status, Header: splitHeader(header, false).stored, Body: body}, nil
}
