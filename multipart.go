package idem

import (
	"bytes"
	"slices"
	"strings"
)

// Limits of a multipart form; net/http reads no more than as many parts either.
const (
	maxParts      = 1000
	maxPartHeader = 16 << 10
	maxBoundary   = 70 // RFC 2046, section 5.1.1
)

var crlf = []byte("\r\n")

// parseParts reads multipart/form-data (RFC 7578). It is stricter than other readers
// have to be: what two of them might split in different ways has no canonical form.
func (f *fields) parseParts(body []byte, boundary string, root place) (found, ok bool) {
	f.reset()
	if boundary == "" || len(boundary) > maxBoundary {
		return false, false
	}
	delimiter := []byte("\r\n--" + boundary)
	rest, ok := bytes.CutPrefix(body, delimiter[len(crlf):])
	if !ok {
		return false, false
	}
	for range maxParts + 1 {
		if end, last := bytes.CutPrefix(rest, []byte("--")); last {
			return f.order(root), len(end) == 0 || bytes.Equal(end, crlf)
		}
		if rest, ok = bytes.CutPrefix(rest, crlf); !ok {
			return false, false
		}
		var part []byte
		if part, rest, ok = bytes.Cut(rest, delimiter); !ok {
			return false, false
		}
		header, content, ok := bytes.Cut(part, []byte("\r\n\r\n"))
		if !ok || len(header) > maxPartHeader {
			return false, false
		}
		name, header, ok := partHeader(header)
		if !ok {
			return false, false
		}
		f.add(root, name, header, content)
	}
	return false, false
}

// partHeader returns the name of a part and its header in canonical form.
func partHeader(raw []byte) (name, canonical []byte, ok bool) {
	type line struct{ name, value string }
	var lines []line
	for l := range strings.SplitSeq(string(raw), "\r\n") {
		field, value, ok := strings.Cut(l, ":")
		if !ok || !isToken(field) || strings.ContainsAny(value, "\r\n\x00") {
			return nil, nil, false
		}
		field, value = strings.ToLower(field), strings.Trim(value, " \t")
		switch field {
		case "content-disposition":
			m, ok := parseMedia(value)
			if !ok || m.kind != "form-data" || m.param("name") == "" {
				return nil, nil, false
			}
			name, value = []byte(m.param("name")), string(m.appendTo(nil, false))
		case "content-type":
			if m, ok := parseContentType(value); ok {
				value = string(m.appendTo(nil, false))
			}
		}
		lines = append(lines, line{field, value})
	}
	slices.SortFunc(lines, func(a, b line) int { return strings.Compare(a.name, b.name) })
	for i, l := range lines {
		if i > 0 && lines[i-1].name == l.name {
			return nil, nil, false
		}
		canonical = append(canonical, l.name+":"+l.value+"\n"...)
	}
	return name, canonical, name != nil
}
