package idemhttp

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/idem-go/idem"
)

// answer is what is sent for a request: a stored response and what depends on the
// occasion.
type answer struct {
	idem.Response
	once     http.Header // what only the first answer has; nil: nothing
	replayed bool
	open     bool // more of the body follows
}

// send is the one way to the client, of first answers and of replays.
func (a answer) send(w http.ResponseWriter, method string) {
	h := w.Header()
	a.setHeader(h, method)
	w.WriteHeader(a.Status)
	if len(a.Body) > 0 {
		// An error means that the client has gone. It will be back.
		_, _ = w.Write(a.Body)
	}
}

// setHeader puts the answer's header into h. Fields replace those that outer
// middleware has put there; Vary and Set-Cookie are added, since what is there is
// true as well.
func (a answer) setHeader(h http.Header, method string) {
	stored := string(a.Header)
	// One array for all values: those stored, and two more.
	values := make([]string, 0, strings.Count(stored, "\r\n")+2)
	last, start := "", 0
	fields(stored, func(name, value string) {
		if name != last {
			last, start = name, len(values)
			if name == "Vary" {
				values = append(values, h[name]...)
			}
		}
		values = append(values, value)
		h[name] = values[start:len(values):len(values)]
	})
	set := func(name, value string) {
		values = append(values, value)
		h[name] = values[len(values)-1 : len(values) : len(values)]
	}
	for name, v := range a.once {
		if name == "Set-Cookie" {
			v = append(slices.Clip(h[name]), v...)
		}
		h[name] = v
	}
	if a.replayed {
		set(replayedHeader, "true")
	}
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // or net/http would guess, where the handler did not want it to
	}
	switch {
	case a.open, !hasBody(a.Status):
		delete(h, "Content-Length")
	case method == http.MethodHead && len(a.Body) == 0:
		// The handler may have said how long the body is that it did not write.
	default:
		set("Content-Length", strconv.Itoa(len(a.Body)))
	}
}
