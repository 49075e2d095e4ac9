package idemhttp

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// The limit of what is stored. It counts the header too.
const (
	guessed     = "Content-Type: text/plain; charset=utf-8"
	limit       = 1000
	storedLimit = limit + len(guessed+"\r\n")
)

// responses are all of them, in the order of the page.
var responses = []struct {
	heading string
	rows    []response
}{
	{"Sizes", sizes},
	{"Statuses and header fields", headers},
	{"What handlers do", habits},
	{"Not stored", notStored},
	{"Streaming", streams},
	{"The client goes away", goneAt},
}

func allResponses() (all []response) {
	for _, s := range responses {
		all = append(all, s.rows...)
	}
	return all
}

// field report 18
var sizes = []response{
	{name: "no bytes", handle: text(0)},
	{name: "1 byte", handle: text(1)},
	{name: "limit − 1 bytes", handle: text(limit - 1)},
	{name: "limit bytes", handle: text(limit)},
	{name: "limit + 1 bytes", handle: text(limit + 1), retry: &answerNotKept, why: "it is too large to be stored, and the handler does not run again"},
	{name: "limit + 1 bytes with Location", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/orders/1")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, strings.Repeat("x", storedLimit))
	}, retry: &answerNotKept, why: "as above; its Location is kept"},
	{name: "in many writes", handle: pieces(http.StatusOK, limit/2)},
	{name: "`WithMaxBuffer` bytes", handle: pieces(http.StatusOK, limit), options: []Option{WithMaxBuffer(limit)}},
	{
		name: "`WithMaxBuffer` + 1 bytes", path: "leased", options: []Option{WithMaxBuffer(limit)}, handle: pieces(http.StatusOK, limit+1),
		live: true, retry: &answerNotKept, why: "what is too large for the memory is not kept, and the rest goes on as it is written",
	},
	{
		name: "`WithMaxBuffer` + 1 bytes", path: "transaction", options: []Option{WithMaxBuffer(limit)}, handle: pieces(http.StatusOK, limit+1),
		first: &answerTooLarge, again: true, why: "nothing can leave before the commit, so everything is rolled back",
	},
	{
		name: "`WithMaxBuffer` + 1 bytes of a 402", path: "transaction", options: []Option{WithMaxBuffer(limit)},
		handle: pieces(http.StatusPaymentRequired, limit+1), first: &answerTooLarge, again: true, why: "as above: a refusal is stored as well",
	},
	{
		name: "`WithMaxBuffer` + 1 bytes of a 429", options: []Option{WithMaxBuffer(limit)}, handle: pieces(http.StatusTooManyRequests, limit+1),
		first: &answerTooLarge, again: true, why: "what is not stored can't leave early",
	},
}

// field report 19
var headers = []response{
	{name: "201 with Location and ETag", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/orders/1")
		w.Header().Set("ETag", `"v1"`)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"id": 1}`)
	}},
	{name: "204", handle: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }},
	{name: "204 and a body, whose Write fails", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
		if _, err := w.Write([]byte("x")); err == nil {
			panic("a body with 204")
		}
	}},
	{name: "303", handle: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/orders/1", http.StatusSeeOther) }},
	{name: "304", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"v1"`)
		w.WriteHeader(http.StatusNotModified)
	}},
	{name: "402", handle: func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no money", http.StatusPaymentRequired)
	}},
	{name: "409 of the handler", handle: func(w http.ResponseWriter, _ *http.Request) { // hard case 30
		http.Error(w, "sold out", http.StatusConflict)
	}},
	{name: "gzip", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Vary", "Accept-Encoding")
		_, _ = w.Write(zipped("hello"))
	}},
	{name: "no content type, and none guessed", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = nil
		_, _ = io.WriteString(w, "<html>")
	}},
	{name: "content type guessed", handle: func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "<html>")
		_, _ = io.WriteString(w, "hello")
	}},
	{name: "repeated fields, in their order", handle: func(w http.ResponseWriter, _ *http.Request) {
		for _, v := range []string{"b", "a, c", "", `"q, r"`, "b"} {
			w.Header().Add("X-Many", v)
		}
		w.Header()["x-raw-NAME"] = []string{"1"}
		w.Header()["Link"] = []string{"</a>; rel=next", "</b>; rel=prev"}
	}},
	{name: "bytes above ASCII and names that are none", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["not a name"] = []string{"1"}
		w.Header().Set("X-Colon", "a: b: c")
		w.Header().Set("X-Bytes", "caf\xe9")
	}},
	{name: "values with line breaks and outer blanks", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Split", "a\r\nX-Evil: 1")
		w.Header().Set("X-Space", "  a \t")
	}, unlike: "line breaks are blanks, outer blanks are gone", has: []string{"X-Split: a  X-Evil: 1", "X-Space: a"}, why: "the stored answer is one for HTTP/1.1 and HTTP/2, and net/http treats them differently"},
	{name: "several Set-Cookie", handle: func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "1"})
		http.SetCookie(w, &http.Cookie{Name: "b", Value: "2", HttpOnly: true})
		w.Header().Set("X-Kept", "1")
		created(w, r)
	}, onlyFirst: []string{"Set-Cookie: a=1", "Set-Cookie: b=2; HttpOnly"}, why: "a session is its receiver's alone, and is not stored"},
	{name: "authentication", handle: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", "Basic")
		w.Header().Set("Authentication-Info", `nextnonce="1"`)
		w.Header()["authorization"] = []string{"Bearer secret"}
		created(w, r)
	}, onlyFirst: []string{"Www-Authenticate: Basic", `Authentication-Info: nextnonce="1"`, "authorization: Bearer secret"}, why: "as above"},
	{name: "hop-by-hop fields", handle: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "x-hop, close")
		w.Header().Set("Keep-Alive", "timeout=5")
		w.Header().Set("X-Hop", "1")
		created(w, r)
	}, onlyFirst: []string{"Connection: x-hop, close", "Keep-Alive: timeout=5", "X-Hop: 1"}, why: "they concern the connection of the first answer"},
	{name: "hop-by-hop fields, spelled otherwise", handle: func(w http.ResponseWriter, r *http.Request) {
		w.Header()["connection"] = []string{"x-hop, close"}
		w.Header()["x-hop"] = []string{"1"}
		created(w, r)
	}, onlyFirst: []string{"connection: x-hop, close", "x-hop: 1"}, why: "as above"},
	{name: "its own Idempotent-Replayed", handle: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Idempotent-Replayed", "true")
		created(w, r)
	}, onlyBare: []string{"Idempotent-Replayed: true"}, why: "only a replay says so"},
	{name: "its own Content-Length", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "5")
		_, _ = io.WriteString(w, "hello")
	}},
	{name: "Content-Length that says too little", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "3")
		_, _ = io.WriteString(w, "hello")
	}, unlike: "the length is counted", has: []string{"Content-Length: 5"}, why: "net/http would cut it off"},
	{name: "Content-Length that says too much", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "300")
		_, _ = io.WriteString(w, "hello")
	}, unlike: "the length is counted", has: []string{"Content-Length: 5"}, why: "net/http would break it off"},
	{name: "trailers", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		w.Header().Set("X-Kept", "1")
		_, _ = io.WriteString(w, "hello")
		w.Header().Set("X-Sum", "1")
		w.Header().Set(http.TrailerPrefix+"X-Other", "2")
	}, onlyBare: []string{"Trailer: X-Sum"}, why: "nothing follows a stored body: the trailers themselves are left out, too"},
	{name: "HEAD", method: http.MethodHead, handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"v1"`)
		_, _ = io.WriteString(w, "hello")
	}},
	{name: "HEAD without a body to measure", method: http.MethodHead, handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "12345")
		w.WriteHeader(http.StatusOK)
	}},
	{name: "HEAD with nothing", method: http.MethodHead, handle: func(http.ResponseWriter, *http.Request) {}},
}

// field reports 20 and 22
var habits = []response{
	{name: "nothing written", handle: func(http.ResponseWriter, *http.Request) {}},
	{name: "WriteHeader alone", handle: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }},
	{name: "WriteHeader twice", handle: func(w http.ResponseWriter, r *http.Request) {
		created(w, r)
		w.WriteHeader(http.StatusInternalServerError)
	}},
	{name: "header changed after WriteHeader", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Early", "1")
		w.WriteHeader(http.StatusAccepted)
		w.Header().Set("X-Early", "2")
		w.Header().Set("X-Late", "1")
		_, _ = io.WriteString(w, "hello")
		w.Header().Set("Content-Type", "application/late")
	}},
	{name: "103 Early Hints", handle: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		created(w, r)
	}, unlike: "1xx is left out", has: []string{"Link: </style.css>; rel=preload", "Location: /orders/1"}, why: "nothing leaves before the answer is stored"},
	{name: "a status that is none", handle: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(42) }, aborted: true, again: true, why: "it panics, as in net/http"},
	{name: "panic", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		panic("test")
	}, aborted: true, again: true, why: "who panics has not answered; nothing is stored, and the panic goes on"},
	{name: "http.ErrAbortHandler", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		panic(http.ErrAbortHandler)
	}, aborted: true, again: true, why: "as above"},
}

// field report 16
var notStored = []response{
	{name: "401", handle: status(401), again: true, why: "a later try can get rid of it"},
	{name: "403", handle: status(403), again: true, why: "as above"},
	{name: "408", handle: status(408), again: true, why: "as above"},
	{name: "425", handle: status(425), again: true, why: "as above"},
	{name: "429", handle: status(429), again: true, why: "as above"},
	{name: "500", handle: status(500), again: true, why: "as above"},
	{name: "503 with Retry-After and a cookie", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "1"})
		http.Error(w, "down", http.StatusServiceUnavailable)
	}, again: true, why: "as above"},
	{name: "409 and `Transient`", handle: func(w http.ResponseWriter, r *http.Request) { // hard case 30
		Transient(r.Context(), nil)
		http.Error(w, "somebody else is at it", http.StatusConflict)
	}, again: true, why: "the handler says so"},
	{name: "201 and `Transient`", handle: func(w http.ResponseWriter, r *http.Request) {
		Transient(r.Context(), io.ErrUnexpectedEOF)
		created(w, r)
	}, again: true, why: "the handler says so"},
	{name: "500 and `Final`", handle: func(w http.ResponseWriter, r *http.Request) {
		Final(r.Context())
		http.Error(w, "broken for good", http.StatusInternalServerError)
	}},
}

const (
	startsStream = "the record is completed, without an answer, before the first byte leaves"
	buffers      = "the answer is buffered"
)

// field report 18, hard case 15
var streams = []response{
	{name: "Flush", handle: func(w http.ResponseWriter, r *http.Request) {
		_, isFlusher := w.(http.Flusher)
		err := http.NewResponseController(w).Flush()
		w.Header().Set("X-Flusher", fmt.Sprint(isFlusher || err == nil))
		created(w, r)
	}, unlike: buffers, has: []string{"X-Flusher: false", "Location: /orders/1"}, why: "http.ErrNotSupported says that it can't be flushed"},
	{name: "Hijack", handle: func(w http.ResponseWriter, r *http.Request) {
		_, isHijacker := w.(http.Hijacker)
		_, _, err := http.NewResponseController(w).Hijack()
		w.Header().Set("X-Hijacker", fmt.Sprint(isHijacker || err == nil))
		created(w, r)
	}, unlike: buffers, has: []string{"X-Hijacker: false", "Location: /orders/1"}, why: "http.ErrNotSupported says that it can't be hijacked"},
	{name: "Flush, `WithStreaming`", path: "leased", options: []Option{WithStreaming()}, handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/orders/1")
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "1"})
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "one ")
		w.(http.Flusher).Flush()
		_, _ = io.WriteString(w, "two ")
		if err := http.NewResponseController(w).Flush(); err != nil {
			panic(err)
		}
		_, _ = w.Write([]byte("three"))
	}, live: true, retry: &answerNotKept, why: startsStream},
	{name: "Flush before anything, `WithStreaming`", path: "leased", options: []Option{WithStreaming()}, handle: func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		_, _ = io.WriteString(w, "hello")
	}, live: true, retry: &answerNotKept, why: startsStream},
	{name: "Flush alone, `WithStreaming`", path: "leased", options: []Option{WithStreaming()}, handle: func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
	}, live: true, retry: &answerNotKept, why: startsStream},
	{name: "Flush and 204, `WithStreaming`", path: "leased", options: []Option{WithStreaming()}, handle: func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
		w.(http.Flusher).Flush()
	}, live: true, retry: &answerNotKept, why: startsStream},
	{name: "Flush and a wrong Content-Length, `WithStreaming`", path: "leased", options: []Option{WithStreaming()}, handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "3") // of which nothing is known yet
		w.(http.Flusher).Flush()
		_, _ = io.WriteString(w, "hello")
	}, live: true, unlike: "the length is left out", retry: &answerNotKept, why: startsStream},
	{name: "Flush of a 503, `WithStreaming`", path: "leased", options: []Option{WithStreaming()}, handle: func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "down")
		if err := http.NewResponseController(w).Flush(); !errors.Is(err, http.ErrNotSupported) {
			panic(err)
		}
	}, unlike: buffers, has: []string{"Content-Length: 4"}, again: true, why: "what is not stored can't leave early: http.ErrNotSupported"},
	{name: "panic after a Flush, `WithStreaming`", path: "leased", options: []Option{WithStreaming()}, handle: func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half of it")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}, live: true, retry: &answerNotKept, why: "the record was completed before; the client sees that the body breaks off"},
	{name: "Hijack, `WithStreaming`", path: "leased", wire: "HTTP/1.1", options: []Option{WithStreaming()}, handle: func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\nok")
		if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrHijacked) {
			panic(fmt.Sprintf("Write after Hijack = %v", err))
		}
	}, live: true, retry: &answerNotKept, why: "the record is completed before the handler has the connection"},
	{name: "Hijack, `WithStreaming`", path: "leased", wire: "HTTP/2", options: []Option{WithStreaming()}, handle: func(w http.ResponseWriter, r *http.Request) {
		if _, _, err := http.NewResponseController(w).Hijack(); !errors.Is(err, http.ErrNotSupported) {
			panic(err)
		}
		created(w, r)
	}},
}

// field report 2
var goneAt = []response{
	{name: "after its body was read", gone: "after the body", why: "the handler runs all the same, and its answer is stored"},
	{name: "while the handler runs", gone: "in the handler", why: "the handler's context does not end with the client"},
	{name: "between the effect and its completion", gone: "before the completion", why: "the completion does not end with the client"},
}
