package idemhttp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxProblem is how much of a problem's body is read to judge it.
const maxProblem = 64 << 10

// Verdict is what an answer means for its request.
type Verdict struct {
	// Retry: send the request again, with the same key. Otherwise the answer is the last
	// word: another try would get the same one.
	Retry bool
	// After is how long to wait at least before that, from Retry-After: 0 if the server
	// doesn't say or says nonsense, and as long as the server says otherwise, which may be
	// years.
	After time.Duration
	// Problem is the type of the problem in the body (RFC 9457, section 3.1.1), empty if it
	// is none. Types of [docs/problems.md] are given by their short name, such as
	// key-reused.
	//
	// [docs/problems.md]: https://github.com/idem-go/idem/blob/main/docs/problems.md
	Problem string
}

// Judge says whether a request is to be sent again after this answer. It is what
// [Transport] goes by, for those who keep requests longer than a transport can.
//
//   - A replay (Idempotent-Replayed: true) is final. Every try gets it.
//   - A problem (application/problem+json) of 400 or above that has a member retryable,
//     true or false, is believed.
//   - 408, 425, 429 and 5xx are retried, but for 501 and 505, which say that this server
//     never will. 409 is retried if Retry-After says when: one without it is a
//     conflict with the state of what the request is about, and no key in progress.
//   - Everything else is final.
//
// Retry-After is understood in both of its forms (RFC 9110, section 10.2.3). A date is
// compared with the answer's own Date, so that it does not matter what time the client
// thinks it is; only an answer without Date is compared with the client's clock.
//
// Judge reads of the body what it needs, of a problem at most 64 KiB, and puts it back:
// resp.Body has all of it afterwards.
func Judge(resp *http.Response) Verdict {
	p := readProblem(resp)
	v := Verdict{Problem: strings.TrimPrefix(p.kind, problemTypes)}
	after, said := retryAfter(resp.Header, time.Now())
	switch {
	case resp.StatusCode < http.StatusBadRequest, resp.Header.Get(replayedHeader) == "true":
	case p.retryable != nil:
		v.Retry = *p.retryable
	default:
		v.Retry = retryStatus(resp.StatusCode, said)
	}
	if v.Retry {
		v.After = after
	}
	return v
}

func retryStatus(status int, said bool) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	case http.StatusConflict:
		return said
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return false
	}
	return status >= http.StatusInternalServerError
}

// retryAfter reads Retry-After. said tells whether it is there and makes sense.
func retryAfter(h http.Header, now time.Time) (after time.Duration, said bool) {
	s := strings.Trim(h.Get("Retry-After"), " \t")
	if s == "" {
		return 0, false
	}
	if strings.Trim(s, "0123456789") == "" {
		const most = int64(1<<63-1) / int64(time.Second)
		seconds, err := strconv.ParseInt(s, 10, 64)
		if err != nil || seconds > most { // too many digits: longer than anybody waits
			seconds = most
		}
		return time.Duration(seconds) * time.Second, true
	}
	at, err := http.ParseTime(s)
	if err != nil {
		return 0, false
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return max(at.Sub(now), 0), true
}

// peerProblem is what somebody else's problem says about retries.
type peerProblem struct {
	kind      string
	retryable *bool // nil: it doesn't say
}

// readProblem reads the problem in the body of resp, if it is one, and puts it back.
func readProblem(resp *http.Response) (p peerProblem) {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || kind != "application/problem+json" || resp.StatusCode < http.StatusBadRequest || resp.Body == nil {
		return p
	}
	text, err := peek(resp, maxProblem)
	if err != nil {
		return p // not all of it arrived, or it is too long to be one
	}
	var members map[string]json.RawMessage // names are compared as they are
	if json.Unmarshal(text, &members) != nil {
		return p
	}
	_ = json.Unmarshal(members["type"], &p.kind)
	if err := json.Unmarshal(members["retryable"], &p.retryable); err != nil {
		p.retryable = nil // a bool or nothing
	}
	return p
}

// errMore: the body is longer than what was asked for.
var errMore = errors.New("idemhttp: more of the body")

// peek reads the body of resp if it has at most limit bytes, and gives resp one that
// begins anew. The error is errMore or the body's own, which the new one ends with as
// well.
func peek(resp *http.Response, limit int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	b := &peeked{Reader: bytes.NewReader(text), Closer: resp.Body}
	switch {
	case err != nil:
		b.Reader = io.MultiReader(b.Reader, broken{err})
	case int64(len(text)) > limit:
		err = errMore
		b.Reader = io.MultiReader(b.Reader, resp.Body)
	}
	resp.Body = b
	return text, err
}

// peeked is a body of which something was read.
type peeked struct {
	io.Reader
	io.Closer
}

// broken is the end of a body that was cut off.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }
