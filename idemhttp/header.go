package idemhttp

import (
	"net/http"
	"net/textproto"
	"slices"
	"strings"
)

// kind says what becomes of a header field of an answer.
type kind uint8

const (
	kept    kind = iota // stored, and so in the first answer and in each replay
	once                // only in the first answer
	dropped             // in neither: net/http or the middleware makes it anew
)

// fieldKind is the kind of a field, given in its canonical spelling.
func fieldKind(name string) kind {
	switch name {
	case "Set-Cookie", "Set-Cookie2",
		"Www-Authenticate", "Proxy-Authenticate", "Optional-Www-Authenticate",
		"Authentication-Info", "Proxy-Authentication-Info", "Authentication-Control",
		"Authorization", "Proxy-Authorization",
		"Connection", "Proxy-Connection", "Keep-Alive", "Upgrade", "Te":
		return once
	case "Transfer-Encoding", "Trailer", "Content-Length", "Date", replayedHeader:
		return dropped
	}
	if strings.HasPrefix(name, http.TrailerPrefix) {
		return dropped
	}
	return kept
}

const replayedHeader = "Idempotent-Replayed"

// headerSplit is the header of an answer as the handler left it.
type headerSplit struct {
	stored []byte      // lines "Name: value\r\n", ordered by name
	once   http.Header // nil: none
}

// splitHeader takes a copy of h. keepLength is for answers whose Content-Length
// does not say how long their body is (HEAD).
func splitHeader(h http.Header, keepLength bool) headerSplit {
	var s headerSplit
	var space [16]string
	names := space[:0]
	size := 0
	var hop []string
	for name, values := range h { // which need not be spelled canonically
		if strings.EqualFold(name, "Connection") {
			hop = append(hop, values...)
		}
	}
	for name, values := range h {
		k := fieldKind(textproto.CanonicalMIMEHeaderKey(name))
		switch {
		case !isToken(name): // net/http would not send it
			continue
		case k == dropped && (!keepLength || name != "Content-Length"):
			continue
		case k == once, len(hop) > 0 && lists(hop, name):
			if s.once == nil {
				s.once = make(http.Header)
			}
			s.once[name] = slices.Clone(values)
			continue
		}
		names = append(names, name)
		for _, v := range values {
			size += len(name) + len(": \r\n") + len(v)
		}
	}
	if size == 0 {
		return s
	}
	slices.Sort(names)
	s.stored = make([]byte, 0, size+len("Content-Type: text/plain; charset=utf-8\r\n"))
	for _, name := range names {
		for _, v := range h[name] {
			s.stored = appendField(s.stored, name, v)
		}
	}
	return s
}

// lists reports whether one of the comma-separated lists has name as an element.
func lists(lists []string, name string) bool {
	for _, l := range lists {
		for e := range strings.SplitSeq(l, ",") {
			if strings.EqualFold(textproto.TrimString(e), name) {
				return true
			}
		}
	}
	return false
}

// noNewline does to a value what net/http does when it sends it.
var noNewline = strings.NewReplacer("\r", " ", "\n", " ")

func appendField(b []byte, name, value string) []byte {
	b = append(b, name...)
	b = append(b, ": "...)
	b = append(b, textproto.TrimString(noNewline.Replace(value))...)
	return append(b, "\r\n"...)
}

// fields calls yield for each line of a stored header.
func fields(stored string, yield func(name, value string)) {
	for line := range strings.SplitSeq(stored, "\r\n") {
		if name, value, ok := strings.Cut(line, ": "); ok {
			yield(name, value)
		}
	}
}

// field is the first value of a field in a stored header.
func field(stored []byte, name string) (value string) {
	found := false
	fields(string(stored), func(n, v string) {
		if !found && n == name {
			value, found = v, true
		}
	})
	return value
}

// isToken reports whether s is a token of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' {
			continue
		}
		if strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}
