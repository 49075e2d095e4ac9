package idemhttp

import (
	"cmp"
	"errors"
	"strings"

	"github.com/dunglas/httpsfv"
)

// Why a request has no key. Both are the client's mistake, 400 Bad Request;
// ErrKeyMissing only where a key is required.
var (
	// ErrKeyMissing: the request has no key header at all.
	ErrKeyMissing = errors.New("idempotency key missing")
	// ErrKeyMalformed: there is a header, but not one key that can be used.
	ErrKeyMalformed = errors.New("idempotency key malformed")
)

// malformedKeyError says what is wrong with a key without repeating it.
type malformedKeyError string

func (m malformedKeyError) Error() string { return ErrKeyMalformed.Error() + ": " + string(m) }

func (m malformedKeyError) Is(target error) bool { return target == ErrKeyMalformed }

// KeySyntax says which spellings of a key are understood. The zero KeySyntax is
// the default: keys of 8 to 255 bytes, quoted or bare.
type KeySyntax struct {
	// Strict accepts only what the Idempotency-Key draft defines, a String of RFC
	// 9651 in double quotes. Otherwise a bare key is understood as well, which is
	// what many clients send; a key is the same in both spellings.
	Strict bool

	// MinLen and MaxLen bound the length of a key in bytes, without quotes and
	// escapes. Zero stands for 8 and 255.
	MinLen, MaxLen int
}

// Parse returns the key in the lines of the header field, which may be given as
// net/http has them, one string for each line.
//
// A quoted key is a String of RFC 9651, section 3.3.3: printable ASCII,
// blanks included, where a backslash escapes a double quote or a backslash.
// Parameters may follow it; they are ignored and no part of the key. A bare key is
// visible ASCII without comma, semicolon, quotation marks of either kind and
// backslash. Spaces around either are dropped, spaces inside of the quotes are
// part of the key. Keys are case sensitive.
//
// The error matches [ErrKeyMissing] if there is no line, and else [ErrKeyMalformed]. Two lines
// are malformed even if they are equal, and so is a key of nothing but
// blanks: of a client that means to be protected, nobody should guess the key.
func (s KeySyntax) Parse(lines []string) (string, error) {
	switch len(lines) {
	case 0:
		return "", ErrKeyMissing
	case 1:
	default:
		return "", malformedKeyError("more than one line")
	}
	line := strings.Trim(lines[0], " ")
	var key string
	switch {
	case line == "":
		return "", malformedKeyError("it is empty")
	case line[0] == '"':
		var err error
		if key, err = parseQuoted(line); err != nil {
			return "", err
		}
	case s.Strict:
		return "", malformedKeyError("it is not a string in double quotes (RFC 9651, section 3.3.3)")
	case !isBare(line):
		return "", malformedKeyError("a key without double quotes can't contain blanks, commas, semicolons, quotation marks, backslashes or anything but visible ASCII")
	default:
		key = line
	}
	switch {
	case len(key) < cmp.Or(s.MinLen, 8):
		return "", malformedKeyError("it is too short")
	case len(key) > cmp.Or(s.MaxLen, 255):
		return "", malformedKeyError("it is too long")
	case strings.Trim(key, " ") == "":
		return "", malformedKeyError("it is blank")
	}
	return key, nil
}

func parseQuoted(line string) (string, error) {
	if key, ok := plainQuoted(line); ok {
		return key, nil
	}
	item, err := httpsfv.UnmarshalItem([]string{line})
	key, ok := item.Value.(string)
	if err != nil || !ok {
		return "", malformedKeyError("it is not a valid string (RFC 9651, section 3.3.3)")
	}
	return key, nil
}

// plainQuoted is the usual case, without escapes and parameters and without allocating.
func plainQuoted(line string) (string, bool) {
	if len(line) < 2 || line[0] != '"' || line[len(line)-1] != '"' {
		return "", false
	}
	key := line[1 : len(line)-1]
	for i := range len(key) {
		if c := key[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return "", false
		}
	}
	return key, true
}

func isBare(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c <= ' ' || c > '~', c == ',', c == ';', c == '"', c == '\'', c == '\\':
			return false
		}
	}
	return true
}
