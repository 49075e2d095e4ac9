package idem

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// peek returns the next byte, or 0 at the end; a NUL in the text is as wrong in
// every place where peek is used.
func (c *canonical) peek() byte {
	if c.pos < len(c.src) {
		return c.src[c.pos]
	}
	return 0
}

func (c *canonical) space() {
	for c.pos < len(c.src) {
		switch c.src[c.pos] {
		case ' ', '\t', '\n', '\r':
			c.pos++
		default:
			return
		}
	}
}

// begin passes an opening brace and reports whether anything follows it but the
// closing one, which it passes too.
func (c *canonical) begin(closing byte) bool {
	c.pos++
	c.space()
	if c.peek() != closing {
		return true
	}
	c.pos++
	return false
}

// another passes what follows a member or an element: a comma, and there is more, or the
// closing brace.
func (c *canonical) another(closing byte) (more, ok bool) {
	c.space()
	b := c.peek()
	c.pos++
	return b == ',', b == ',' || b == closing
}

func (c *canonical) literal(word string) bool {
	if !bytes.HasPrefix(c.src[c.pos:], []byte(word)) {
		return false
	}
	c.pos += len(word)
	c.out = append(c.out, word...)
	return true
}

// quoted passes a string and returns what is between the quotation marks.
func (c *canonical) quoted() (s []byte, escaped, ok bool) {
	if c.peek() != '"' {
		return nil, false, false
	}
	start := c.pos + 1
	for i := start; i < len(c.src); i++ {
		switch b := c.src[i]; {
		case b == '"':
			c.pos = i + 1
			return c.src[start:i], escaped, true
		case b == '\\':
			escaped = true
			i++
		case b < ' ':
			return nil, false, false
		}
	}
	return nil, false, false
}

func (c *canonical) string() bool {
	s, escaped, ok := c.quoted()
	if escaped && ok {
		c.text, ok = appendUnescaped(c.text[:0], s)
		s = c.text
	}
	c.out = appendString(c.out, s, escaped)
	return ok
}

// name reads a member's name with its colon and keeps it in names as well.
func (c *canonical) name() bool {
	c.space()
	s, escaped, ok := c.quoted()
	start := len(c.names)
	if escaped && ok {
		c.names, ok = appendUnescaped(c.names, s)
	} else {
		c.names = append(c.names, s...)
	}
	c.out = appendString(c.out, c.names[start:], escaped)
	c.space()
	ok = ok && c.peek() == ':'
	c.pos++
	c.out = append(c.out, ':')
	return ok
}

// appendUnescaped appends a string without its escapes. It is not ok if one is invalid
// or stands for half a surrogate pair.
func appendUnescaped(dst, s []byte) ([]byte, bool) {
	for len(s) > 0 {
		i := bytes.IndexByte(s, '\\')
		if i < 0 {
			return append(dst, s...), true
		}
		dst = append(dst, s[:i]...)
		if s = s[i+1:]; len(s) == 0 {
			return dst, false
		}
		e := s[0]
		s = s[1:]
		switch e {
		case '"', '\\', '/':
			dst = append(dst, e)
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, ok := hex4(s)
			if !ok {
				return dst, false
			}
			s = s[4:]
			if utf16.IsSurrogate(r) {
				if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
					return dst, false
				}
				low, ok := hex4(s[2:])
				if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
					return dst, false
				}
				s = s[6:]
			}
			dst = utf8.AppendRune(dst, r)
		default:
			return dst, false
		}
	}
	return dst, true
}

func hex4(s []byte) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	var r rune
	for _, b := range s[:4] {
		d, ok := hexDigit(b)
		if !ok {
			return 0, false
		}
		r = r<<4 | rune(d)
	}
	return r, true
}

func hexDigit(b byte) (byte, bool) {
	switch {
	case '0' <= b && b <= '9':
		return b - '0', true
	case 'a' <= b && b <= 'f':
		return b - 'a' + 10, true
	case 'A' <= b && b <= 'F':
		return b - 'A' + 10, true
	default:
		return 0, false
	}
}

// appendString appends a string in its canonical spelling. One that had no escapes
// needs none.
func appendString(dst, s []byte, escape bool) []byte {
	const hexDigits = "0123456789abcdef"
	dst = append(dst, '"')
	if !escape {
		return append(append(dst, s...), '"')
	}
	for _, b := range s {
		switch {
		case b == '"' || b == '\\':
			dst = append(dst, '\\', b)
		case b < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[b>>4], hexDigits[b&15])
		default:
			dst = append(dst, b)
		}
	}
	return append(dst, '"')
}

// number reads a number as digits and an exponent to the base ten. Neither is ever
// held in a machine's number, so none is lost or expanded.
func (c *canonical) number() bool {
	start := len(c.out)
	if c.peek() == '-' {
		c.pos++
		c.out = append(c.out, '-')
	}
	first := len(c.out)
	whole := c.digits()
	if len(whole) == 0 || whole[0] == '0' && len(whole) > 1 {
		return false
	}
	c.out = append(c.out, whole...)
	var fraction, exponent []byte
	negative := false
	if c.peek() == '.' {
		c.pos++
		if fraction = c.digits(); len(fraction) == 0 {
			return false
		}
		c.out = append(c.out, fraction...)
	}
	if b := c.peek(); b == 'e' || b == 'E' {
		c.pos++
		if b = c.peek(); b == '-' || b == '+' {
			negative = b == '-'
			c.pos++
		}
		if exponent = c.digits(); len(exponent) == 0 {
			return false
		}
	}

	digits := bytes.TrimRight(c.out[first:], "0")
	shift := len(c.out) - first - len(digits) - len(fraction)
	digits = bytes.TrimLeft(digits, "0")
	if len(digits) == 0 {
		c.out = append(c.out[:start], '0')
		return true
	}
	c.out = append(c.out[:first], digits...) // moves them to the left, if at all
	c.out = appendExponent(c.out, negative, bytes.TrimLeft(exponent, "0"), shift)
	return true
}

func (c *canonical) digits() []byte {
	start := c.pos
	for c.pos < len(c.src) && '0' <= c.src[c.pos] && c.src[c.pos] <= '9' {
		c.pos++
	}
	return c.src[start:c.pos]
}

// appendExponent appends the sum of a written exponent, which has no leading zeros, and
// a shift, which is never larger than a body.
func appendExponent(dst []byte, negative bool, written []byte, shift int) []byte {
	if len(written) <= 18 {
		var e int64
		for _, b := range written {
			e = e*10 + int64(b-'0')
		}
		if negative {
			e = -e
		}
		if e += int64(shift); e == 0 {
			return dst
		}
		return strconv.AppendInt(append(dst, 'e'), e, 10)
	}
	// The shift can't change the sign of 19 digits, so it is added to their
	// magnitude, from the right and with a carry of either sign.
	dst = append(dst, 'e')
	carry := int64(shift)
	if negative {
		dst = append(dst, '-')
		carry = -carry
	}
	dst = append(dst, '0')
	first := len(dst) - 1
	dst = append(dst, written...)
	for i := len(dst) - 1; carry != 0; i-- {
		sum := int64(dst[i]-'0') + carry
		digit := (sum%10 + 10) % 10
		dst[i] = '0' + byte(digit)
		carry = (sum - digit) / 10
	}
	return append(dst[:first], bytes.TrimLeft(dst[first:], "0")...)
}
