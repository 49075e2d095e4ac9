package idem

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/textproto"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/idem-go/idem/backend"
)

// FingerprintOption changes what a [Fingerprinter] covers.
type FingerprintOption func(*fingerprintOptions)

type fingerprintOptions struct {
	omit, only []string
	selecting  bool
	label      string
	headers    []fieldName // ordered, each once
}

// fieldName is the name of a header field in the two spellings that are needed.
type fieldName struct{ lower, canonical string }

// Omit leaves values out that change from one retry to the next, such as the time of
// sending or a trace id. Each is named by a JSON Pointer (RFC 6901): "/trace_id",
// "/meta/sent_at", "/items/0/seen". Of bodies that are not JSON, a pointer of one
// name leaves out the form's fields of that name; it has no effect on bodies that
// are compared byte by byte. What is left out may be absent.
func Omit(pointers ...string) FingerprintOption {
	return func(o *fingerprintOptions) { o.omit = append(o.omit, pointers...) }
}

// Select covers only the values named by JSON Pointers (RFC 6901), with the objects and arrays
// that lead to them, and of forms the fields named by pointers of one name. Inside
// of what is selected, [Omit] still leaves out. If a body has none of
// the values, or is compared byte by byte, all of it is covered.
func Select(pointers ...string) FingerprintOption {
	return func(o *fingerprintOptions) {
		o.only = append(o.only, pointers...)
		o.selecting = true
	}
}

// Label makes a version of its own for reasons that only the caller knows, for
// instance when bodies are rewritten before they get here. The empty label is none.
func Label(label string) FingerprintOption {
	return func(o *fingerprintOptions) { o.label = label }
}

// Headers covers header fields of the request (Content.Header), for routes whose work
// depends on them: "Accept-Language", "X-Currency". A field that is absent is not one that
// is empty. Content-Type is covered anyway. Leave fields out that proxies and retries
// change, such as Date, traceparent and User-Agent.
func Headers(names ...string) FingerprintOption {
	return func(o *fingerprintOptions) {
		for _, n := range names {
			o.headers = append(o.headers, fieldName{strings.ToLower(n), textproto.CanonicalMIMEHeaderKey(n)})
		}
	}
}

// Parts says in words what of a request the fingerprint covers, for people who publish
// it.
func (f *Fingerprinter) Parts() []string {
	body := "body"
	if o := f.options; o.selecting {
		body += ", of it " + strings.Join(o.only, " ")
	}
	if o := f.options; len(o.omit) > 0 {
		body += ", without " + strings.Join(o.omit, " ")
	}
	parts := []string{"content type", "query", body}
	for _, n := range f.options.headers {
		parts = append(parts, "header field "+n.canonical)
	}
	return parts
}

// version needs the options compiled before.
func (o *fingerprintOptions) version() string {
	if len(o.omit) == 0 && len(o.only) == 0 && o.label == "" && len(o.headers) == 0 {
		return algorithm
	}
	var b []byte
	add := func(s string) {
		b = binary.BigEndian.AppendUint64(b, uint64(len(s)))
		b = append(b, s...)
	}
	add(o.label)
	for _, pointers := range [][]string{o.omit, o.only} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(pointers)))
		for _, p := range pointers {
			add(p)
		}
	}
	if len(o.headers) > 0 { // versions without them are as they were before there were any
		b = binary.BigEndian.AppendUint64(b, uint64(len(o.headers)))
		for _, n := range o.headers {
			add(n.lower)
		}
	}
	sum := sha256.Sum256(b)
	return algorithm + "." + hex.EncodeToString(sum[:4])
}

func (o *fingerprintOptions) compile() (place, error) {
	p := place{only: everything}
	for _, list := range []*[]string{&o.omit, &o.only} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	slices.SortFunc(o.headers, func(a, b fieldName) int { return strings.Compare(a.lower, b.lower) })
	o.headers = slices.Compact(o.headers)
	for _, n := range o.headers {
		if !isToken(n.lower) {
			return place{}, invalidOption("%q is no name of a header field (RFC 9110, section 5.1)", n.lower)
		}
	}
	for _, s := range o.omit {
		names, err := parsePointer(s)
		if err != nil {
			return place{}, err
		}
		if p.omit == nil {
			p.omit = &pointers{}
		}
		p.omit.add(names)
	}
	if !o.selecting {
		return p, nil
	}
	if len(o.only) == 0 {
		return place{}, invalidOption("Select without pointers would cover nothing")
	}
	p.only = &pointers{}
	for _, s := range o.only {
		names, err := parsePointer(s)
		if err != nil {
			return place{}, err
		}
		if p.omit.covers(names) {
			return place{}, invalidOption("the pointer %q is both selected and left out", s)
		}
		p.only.add(names)
	}
	return p, nil
}

// parsePointer splits a JSON Pointer into its names.
func parsePointer(s string) ([]string, error) {
	switch {
	case s == "":
		return nil, invalidOption("the empty pointer is the whole body; name a member, as in %q", "/trace_id")
	case s[0] != '/':
		return nil, invalidOption("the pointer %q must start with a slash (RFC 6901)", s)
	case !utf8.ValidString(s):
		return nil, invalidOption("the pointer %q is not valid UTF-8", s)
	}
	names := strings.Split(s[1:], "/")
	for i, n := range names {
		for j := range len(n) {
			if n[j] == '~' && (j+1 == len(n) || n[j+1] != '0' && n[j+1] != '1') {
				return nil, invalidOption("the pointer %q has a ~ that is neither ~0 nor ~1 (RFC 6901)", s)
			}
		}
		// In this order, so that ~01 is ~1 (RFC 6901, section 4).
		names[i] = strings.ReplaceAll(strings.ReplaceAll(n, "~1", "/"), "~0", "~")
	}
	return names, nil
}

func invalidOption(format string, args ...any) error {
	return &backend.Error{Op: "idem: fingerprint", Kind: backend.ErrInvalid, Hint: fmt.Sprintf(format, args...)}
}

// pointers is a set of JSON Pointers as a tree. The nil set is empty.
type pointers struct {
	end  bool // a pointer ends here: all below is meant
	next map[string]*pointers
}

// everything is the set that has ended: it contains all below it.
var everything = &pointers{end: true}

func (p *pointers) add(names []string) {
	for _, n := range names {
		next := p.next[n]
		if next == nil {
			if p.next == nil {
				p.next = map[string]*pointers{}
			}
			next = &pointers{}
			p.next[n] = next
		}
		p = next
	}
	p.end = true
}

func (p *pointers) child(name []byte) *pointers {
	if p == nil {
		return nil
	}
	return p.next[string(name)]
}

// covers reports whether a pointer of the set is names or leads to it.
func (p *pointers) covers(names []string) bool {
	for _, n := range names {
		if p == nil {
			return false
		}
		if p = p.next[n]; p != nil && p.end {
			return true
		}
	}
	return false
}

// place is what the options say of a value in a body: which pointers left out
// and which selected ones go on below it.
type place struct{ omit, only *pointers }

// plain reports whether nothing below p is left out.
func (p place) plain() bool { return p.omit == nil && p.only == everything }

func (p place) withoutSelection() place { return place{omit: p.omit, only: everything} }

// child is the place of a member, and whether any of it may be covered.
func (p place) child(name []byte) (place, bool) {
	if p.plain() {
		return p, true
	}
	p.omit = p.omit.child(name)
	if p.omit != nil && p.omit.end {
		return place{}, false
	}
	if p.only != everything {
		p.only = p.only.child(name)
		if p.only != nil && p.only.end {
			p.only = everything
		}
	}
	return p, p.only != nil
}
