package idem

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"sync"

	"github.com/idem-go/idem/backend"
)

// algorithm is the version of everything that decides a sum without options. A
// change of any of it needs a new number, and the old code beside it for as long
// as records are kept.
const algorithm = "1"

// Content is the part of a request that a fingerprint covers. Method and path
// are no part of it: they are stored and compared as they are.
type Content struct {
	Type  string // the Content-Type field; may be empty
	Query string // the raw query, without the question mark
	Body  []byte // only read during the call

	// Header of the request, its names spelled as net/http does. Only those fields
	// are covered that the fingerprinter was told to ([Headers]); only read during the
	// call.
	Header map[string][]string
}

// Fingerprinter digests requests such that two of them have one fingerprint if
// they say the same in another spelling, and different ones if they say anything
// else. It is made by [NewFingerprinter], immutable and safe for concurrent use.
//
// # What makes no difference
//
//   - JSON (application/json and types that end in +json): white space, the order
//     of members at any depth, escapes in strings and names, and the spelling of
//     numbers: 1, 1.0, 1e0 and 10e-1 are one number, -0 is 0.
//   - Forms (application/x-www-form-urlencoded): how characters are escaped, and
//     the order of pairs with different names. "a" is "a=".
//   - Multipart forms (multipart/form-data): the boundary, the order of parts with
//     different names, the order and the case of the names of a part's header
//     fields.
//   - Content types: the case of type and of parameter names, the order and quoting
//     of parameters, the case of the value of charset.
//   - Header fields that [Headers] does not name, and the case of the names.
//   - What [Omit] leaves out and [Select] does not take in.
//
// # What makes a difference
//
// Everything else. No digit of a number is dropped and no number expanded, however
// large its exponent. Strings are compared without Unicode normalisation. The
// order of array elements counts, and so does that of pairs and parts with one
// name. A member that is null is not an absent one. A charset that was
// not given is not the default. The query, the values of header fields and all other
// bodies are compared byte by byte.
//
// A body that readers might take in more than one way is compared byte by byte
// too, never ignored: JSON that is invalid, has two members of one name in an object, a
// lone surrogate, a byte order mark, invalid UTF-8 or more than 1000
// levels of nesting; a form with a bad escape or an unescaped semicolon; a
// multipart form with text before the first boundary or after the last, a
// delimiter that is not followed by a line break, lines that don't end in CRLF, parts without a
// form-data name, a repeated or folded header field, more than 1000 parts or 16 KiB of
// header in one; any of them with a charset other than utf-8 or us-ascii.
//
// # The algorithm, version 1
//
// The sum is the SHA-256 of the following. A chunk is its length as 8 bytes, most significant
// first, and its bytes.
//
//	chunk  the version, see [Fingerprinter.Version]
//	chunk  the canonical content type, or the field as it is if it is malformed
//	chunk  the query
//	       for each field of Headers, ordered by name: chunk name in lower case, the
//	       number of its values as 8 bytes, a chunk for each value
//	byte   how the body is given:
//	         r  byte by byte
//	         j  canonical JSON
//	         f  pairs of a form: chunk name, chunk value, and so on
//	         m  parts of a form: chunk name, chunk header, chunk content, and so on
//	         J, F, M  likewise, where nothing that was selected is present
//	the body
//
// The canonical content type is the type in lower case, followed by ;name="value"
// for every parameter (RFC 9110, section 5.6.6), ordered by name: names in lower
// case, the value unquoted and quoted again (a backslash before quotation mark and
// backslash), the value of charset in lower case. Where the parts of a form are given
// it has no boundary. A backslash before anything but those two, a
// missing value or a second parameter of one name make it malformed.
//
// Canonical JSON is JSON without white space. Members are ordered by the bytes of
// their unescaped names in UTF-8. In strings, the quotation mark is \", the backslash
// \\, the characters below U+0020 are \u00xx in lower case, and all others stand for
// themselves. A number is an optional minus, its digits without a decimal point and
// without zeros at either end, and, unless the exponent is 0, an e and the exponent
// to the base ten: 1500 is 15e2, 0.25 is 25e-2, zero is 0. An array element that is left
// out leaves its place empty, as in [,1], unless no element follows that is not left
// out.
//
// Pairs and parts are ordered by the bytes of their names, those of one name
// as they came. The header of a part has a line for every field, ordered by name: name
// in lower case, colon, value, line feed. The value of content-disposition, and of
// content-type unless it is malformed, is spelled like the canonical content type;
// others are taken as they are, without white space around them.
type Fingerprinter struct {
	version string
	root    place
	options fingerprintOptions
}

// NewFingerprinter returns a Fingerprinter. Its errors match [backend.ErrInvalid]:
// a pointer that is none, that points to the whole body, or is selected and left out at
// once, a selection of nothing, and names that no header field can have.
func NewFingerprinter(opts ...FingerprintOption) (*Fingerprinter, error) {
	var o fingerprintOptions
	for _, opt := range opts {
		opt(&o)
	}
	root, err := o.compile()
	if err != nil {
		return nil, err
	}
	return &Fingerprinter{version: o.version(), root: root, options: o}, nil
}

// Version names the algorithm and the options; fingerprints of different
// versions can't be compared. It is "1" without options; with options it continues
// with a dot and 8 hexadecimal digits that depend on them, so that
// a change of the options is a change of the version. Neither the order of
// options nor that of their pointers and names matters. The digits are the first 4 bytes of
// the SHA-256 of a chunk with the label, the number of pointers left out as 8 bytes, a
// chunk for each, and the same for those selected, each once and ordered by their
// bytes; and, if there are header fields, the same for their names in lower case.
func (f *Fingerprinter) Version() string { return f.version }

// Sum returns the fingerprint of c. It takes any content, and time and memory
// in proportion to its size (sorting aside).
func (f *Fingerprinter) Sum(c Content) backend.Fingerprint {
	d := digests.Get().(*digest)
	defer d.free()

	mt, wellFormed := parseContentType(c.Type)
	var form bodyForm
	if wellFormed && mt.utf8() {
		form = d.read(mt, c.Body, f.root)
	}

	d.chunk(f.version)
	if wellFormed {
		d.text = mt.appendTo(d.text[:0], form == formParts || form == formWholeParts)
		d.chunkBytes(d.text)
	} else {
		d.chunk(c.Type)
	}
	d.chunk(c.Query)
	for _, name := range f.options.headers {
		values := c.Header[name.canonical]
		d.chunk(name.lower)
		d.length(len(values))
		for _, v := range values {
			d.chunk(v)
		}
	}

	d.writeBody(form, c.Body)
	d.hash.Sum(d.sum[:0])
	return backend.Fingerprint{Version: f.version, Sum: d.sum}
}

// bodyForm says how a body goes into the digest; its zero value is "raw".
type bodyForm byte

const (
	formRaw        bodyForm = 0
	formJSON       bodyForm = 'j'
	formPairs      bodyForm = 'f'
	formParts      bodyForm = 'm'
	formWholeJSON  bodyForm = 'J'
	formWholePairs bodyForm = 'F'
	formWholeParts bodyForm = 'M'
)

// digest is the working memory of one Sum.
type digest struct {
	hash   hash.Hash
	sum    [sha256.Size]byte
	head   [9]byte
	text   []byte
	json   canonical
	fields fields
}

var digests = sync.Pool{New: func() any { return &digest{hash: sha256.New()} }}

// free hands d on to the next Sum, unless a large body has bloated it.
func (d *digest) free() {
	if cap(d.text)+d.json.size()+d.fields.size() > 1<<18 {
		return
	}
	d.hash.Reset()
	d.json.reset(nil)
	d.fields.reset()
	digests.Put(d)
}

// read brings the body into its canonical form, if it has one.
func (d *digest) read(mt media, body []byte, root place) bodyForm {
	var parse func(place) (found, ok bool)
	var form, whole bodyForm
	switch {
	case mt.isJSON():
		parse = func(p place) (bool, bool) { return d.json.parse(body, p) }
		form, whole = formJSON, formWholeJSON
	case mt.kind == "application/x-www-form-urlencoded":
		parse = func(p place) (bool, bool) { return d.fields.parsePairs(body, p) }
		form, whole = formPairs, formWholePairs
	case mt.kind == "multipart/form-data":
		parse = func(p place) (bool, bool) { return d.fields.parseParts(body, mt.param("boundary"), p) }
		form, whole = formParts, formWholeParts
	default:
		return formRaw
	}
	found, ok := parse(root)
	if ok && !found {
		// An empty selection would make all such bodies equal.
		form = whole
		_, ok = parse(root.withoutSelection())
	}
	if !ok {
		return formRaw
	}
	return form
}

func (d *digest) writeBody(form bodyForm, body []byte) {
	switch form {
	case formJSON, formWholeJSON:
		d.tag(byte(form))
		d.json.writeTo(d.hash)
	case formPairs, formWholePairs, formParts, formWholeParts:
		d.tag(byte(form))
		for _, f := range d.fields.list {
			d.chunkBytes(f.name)
			if form == formParts || form == formWholeParts {
				d.chunkBytes(f.header)
			}
			d.chunkBytes(f.value)
		}
	default:
		d.tag('r')
		d.hash.Write(body)
	}
}

func (d *digest) tag(b byte) {
	d.head[8] = b
	d.hash.Write(d.head[8:])
}

func (d *digest) length(n int) {
	binary.BigEndian.PutUint64(d.head[:8], uint64(n))
	d.hash.Write(d.head[:8])
}

func (d *digest) chunkBytes(b []byte) {
	d.length(len(b))
	d.hash.Write(b)
}

func (d *digest) chunk(s string) {
	d.text = append(d.text[:0], s...)
	d.chunkBytes(d.text)
}
