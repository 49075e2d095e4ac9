package idem

import (
	"bytes"
	"cmp"
	"slices"
)

// field is a pair of a form or a part of a multipart form.
type field struct {
	name   []byte
	header []byte // of a part
	value  []byte
	index  int
}

// fields is the canonical form of a form that [Fingerprinter] documents.
type fields struct {
	list []field
	buf  []byte
}

func (f *fields) size() int {
	const perField = 80
	return cap(f.buf) + perField*cap(f.list)
}

func (f *fields) reset() {
	clear(f.list) // keeps no body alive
	f.list, f.buf = f.list[:0], f.buf[:0]
}

// add adds a field unless the options leave it out.
func (f *fields) add(root place, name, header, value []byte) {
	p, keep := root.child(name)
	if keep && p.only == everything {
		f.list = append(f.list, field{name: name, header: header, value: value, index: len(f.list)})
	}
}

// order finishes the form; found tells whether any of it is selected.
func (f *fields) order(root place) (found bool) {
	slices.SortFunc(f.list, func(a, b field) int {
		return cmp.Or(bytes.Compare(a.name, b.name), cmp.Compare(a.index, b.index))
	})
	return root.only == everything || len(f.list) > 0
}

// parsePairs reads application/x-www-form-urlencoded.
func (f *fields) parsePairs(body []byte, root place) (found, ok bool) {
	f.reset()
	// Unescaping never makes longer.
	f.buf = slices.Grow(f.buf, len(body))
	for rest, more := body, true; more; {
		var pair []byte
		pair, rest, more = bytes.Cut(rest, []byte{'&'})
		if len(pair) == 0 {
			continue
		}
		escapedName, escapedValue, _ := bytes.Cut(pair, []byte{'='})
		name, ok := f.unescape(escapedName)
		if !ok {
			return false, false
		}
		value, ok := f.unescape(escapedValue)
		if !ok {
			return false, false
		}
		f.add(root, name, nil, value)
	}
	return f.order(root), true
}

// unescape refuses a semicolon, which some readers take for an ampersand.
func (f *fields) unescape(s []byte) ([]byte, bool) {
	start := len(f.buf)
	for i := 0; i < len(s); i++ {
		b := s[i]
		switch b {
		case ';':
			return nil, false
		case '+':
			b = ' '
		case '%':
			if i+2 >= len(s) {
				return nil, false
			}
			high, ok1 := hexDigit(s[i+1])
			low, ok2 := hexDigit(s[i+2])
			if !ok1 || !ok2 {
				return nil, false
			}
			b = high<<4 | low
			i += 2
		}
		f.buf = append(f.buf, b)
	}
	return f.buf[start:], true
}
