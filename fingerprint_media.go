package idem

import (
	"slices"
	"strings"
)

// media is a Content-Type or Content-Disposition field. It is read here, and not by
// mime.ParseMediaType, because that drops parameters it can't decode.
type media struct {
	kind   string // in lower case
	params []param
}

type param struct{ name, value string }

// maxParams keeps the search for a repeated name cheap.
const maxParams = 32

// parseContentType reads a Content-Type field.
func parseContentType(s string) (media, bool) {
	m, ok := parseMedia(s)
	return m, ok && strings.Contains(m.kind, "/")
}

// parseMedia reads the syntax that the two fields share: a kind and parameters.
func parseMedia(s string) (media, bool) {
	kind, rest := s, ""
	if i := strings.IndexByte(s, ';'); i >= 0 {
		kind, rest = s[:i], s[i:]
	}
	kind = strings.Trim(kind, " \t")
	main, sub, slash := strings.Cut(kind, "/")
	if !isToken(main) || slash && !isToken(sub) {
		return media{}, false
	}
	m := media{kind: strings.ToLower(kind)}
	for {
		rest = strings.TrimLeft(rest, " \t")
		if rest == "" {
			break
		}
		if rest[0] != ';' {
			return media{}, false
		}
		rest = strings.TrimLeft(rest[1:], " \t")
		if rest == "" || rest[0] == ';' {
			continue // RFC 9110 allows for empty parameters
		}
		name, after, ok := strings.Cut(rest, "=")
		if !ok || !isToken(name) || len(m.params) == maxParams {
			return media{}, false
		}
		p := param{name: strings.ToLower(name)}
		if p.value, rest, ok = paramValue(after); !ok {
			return media{}, false
		}
		for _, q := range m.params {
			if q.name == p.name {
				return media{}, false
			}
		}
		if p.name == "charset" && isToken(p.value) {
			p.value = strings.ToLower(p.value)
		}
		m.params = append(m.params, p)
	}
	slices.SortFunc(m.params, func(a, b param) int { return strings.Compare(a.name, b.name) })
	return m, true
}

// paramValue reads a token or a quoted string at the start of s.
func paramValue(s string) (value, rest string, ok bool) {
	if s == "" || s[0] != '"' {
		end := strings.IndexAny(s, "; \t")
		if end < 0 {
			end = len(s)
		}
		return s[:end], s[end:], isToken(s[:end])
	}
	var b []byte
	start := 1 // of what is not in b yet
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' && start == 1:
			return s[1:i], s[i+1:], true
		case c == '"':
			return string(append(b, s[start:i]...)), s[i+1:], true
		case c == '\\':
			// Readers disagree about a backslash before other characters, which
			// file names of Windows have.
			if i+1 == len(s) || s[i+1] != '"' && s[i+1] != '\\' {
				return "", "", false
			}
			b = append(b, s[start:i]...)
			i++
			start = i
		case c < ' ' && c != '\t', c == 0x7f:
			return "", "", false
		}
	}
	return "", "", false
}

func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

func (m media) param(name string) string {
	for _, p := range m.params {
		if p.name == name {
			return p.value
		}
	}
	return ""
}

func (m media) isJSON() bool {
	return m.kind == "application/json" || strings.HasSuffix(m.kind, "+json")
}

// utf8 reports whether the content may be read as UTF-8.
func (m media) utf8() bool {
	switch m.param("charset") {
	case "", "utf-8", "us-ascii":
		return true
	default:
		return false
	}
}

// appendTo appends the canonical spelling.
func (m media) appendTo(b []byte, withoutBoundary bool) []byte {
	b = append(b, m.kind...)
	for _, p := range m.params {
		if withoutBoundary && p.name == "boundary" {
			continue
		}
		b = append(b, ';')
		b = append(b, p.name...)
		b = append(b, '=', '"')
		for i := range len(p.value) {
			if c := p.value[i]; c == '"' || c == '\\' {
				b = append(b, '\\')
			}
			b = append(b, p.value[i])
		}
		b = append(b, '"')
	}
	return b
}
