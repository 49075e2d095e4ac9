package httpsuite

import (
	"net/http"
	"strings"
)

// spelling is one way to write the key's header field. The lines go onto the wire as
// they are. key is the key that they mean, where they mean one; empty: they are
// refused with 400.
type spelling struct {
	name  string
	lines []string
	key   string
}

const rfc9651 = "RFC 9651, section "

var keyCases = []testCase{
	{"key/missing", draft + "2.7", "A request without a key gets 400 where a key is required, and is carried out where it is optional.", func(e *env) {
		q := e.fresh()
		q.keys = nil
		if !e.cfg.Optional {
			e.refused("a request without a key", q, http.StatusBadRequest)
			return
		}
		e.ok("a request without a key", q)
		e.ok("the same request without a key", q)
		e.wantEffects(q, 2)
	}},
	{"key/field-name", "RFC 9110, section 5.1", "The name of a field means the same in lower and in upper case.", func(e *env) {
		q := e.fresh()
		first := e.ok("a first request", q)
		for _, q.field = range []string{strings.ToLower(e.cfg.Header), strings.ToUpper(e.cfg.Header)} {
			e.same("a retry with its key in "+q.field, e.send("a retry with its key in "+q.field, q), first)
		}
		e.wantEffects(q, 1)
	}},
	{"key/empty", draftKey, "A key that is empty or blank is refused: its client believes itself protected.", spellings(func(string, Claims) []spelling {
		return []spelling{
			{"empty", []string{``}, ""},
			{"blank", []string{`   `}, ""},
			{"quoted empty", []string{`""`}, ""},
			{"quoted blank", []string{`"` + strings.Repeat(" ", 36) + `"`}, ""},
		}
	})},
	{"key/several", rfc9651 + "4.2", "More than one key is refused, also if they are equal, or were joined on the way.", spellings(func(k string, _ Claims) []spelling {
		return []spelling{
			{"two lines", []string{quoted(k), quoted(newKey())}, ""},
			{"two equal lines", []string{quoted(k), quoted(k)}, ""},
			{"joined lines", []string{quoted(k) + ", " + quoted(newKey())}, ""},
			{"joined equal lines", []string{quoted(k) + "," + quoted(k)}, ""},
			{"joined bare lines", []string{k + ", " + newKey()}, ""},
			{"a string over two lines", []string{`"` + k[:18], k[18:] + `"`}, ""},
			{"an empty line and a key", []string{``, quoted(k)}, ""},
		}
	})},
	{"key/quoted", rfc9651 + "3.3.3", "What is between the quotes is the key, with blanks and commas; blanks around it are not.", func(e *env) {
		k := newKey()
		e.spelled(spelling{"quoted", []string{quoted(k)}, k})
		k = newKey()
		e.spelled(spelling{"blanks around", []string{`  ` + quoted(k) + `  `}, k})
		k = newKey()
		e.spelled(spelling{"a comma inside", []string{quoted(k[:18] + ", " + k[18:])}, k[:18] + ", " + k[18:]})
		k = newKey()
		e.distinct("blanks inside", k, "  "+k+"  ")
		k = newKey()
		e.distinct("a blank inside", k, k+" ")
	}},
	{"key/escapes", rfc9651 + "3.3.3", `A backslash escapes a quotation mark or a backslash, and nothing else.`, func(e *env) {
		k := newKey()
		for _, s := range []spelling{
			{"escapes", []string{quoted(k + `"x\y`)}, k + `"x\y`},
			{"another escaped letter", []string{`"` + k + `\n"`}, ""},
			{"an escaped comma", []string{`"` + k + `\,"`}, ""},
			{"an escape at the end", []string{`"` + k + `\"`}, ""},
		} {
			e.spelled(s)
		}
		k = newKey()
		e.distinct("an escaped backslash", k+`\`, k+`\\`)
	}},
	{"key/malformed", rfc9651 + "4.2", "What is no string is refused, and never cut down to one.", spellings(func(k string, _ Claims) []spelling {
		return []spelling{
			{"unterminated", []string{`"` + k}, ""},
			{"text after the string", []string{quoted(k) + `x`}, ""},
			{"two strings", []string{quoted(k) + " " + quoted(k)}, ""},
			{"single quotes", []string{`'` + k + `'`}, ""},
			{"a bare backslash", []string{k[:18] + `\` + k[18:]}, ""},
			{"a blank in a bare key", []string{k[:18] + ` ` + k[18:]}, ""},
			{"a quotation mark in a bare key", []string{k[:18] + `"` + k[18:]}, ""},
		}
	})},
	{"key/characters", rfc9651 + "3.3.3", "A key is printable ASCII.", spellings(func(k string, _ Claims) []spelling {
		return []spelling{
			{"not ASCII", []string{`"` + k + `é"`}, ""},
			{"bytes that are no UTF-8", []string{`"` + k + "\xff\""}, ""},
			{"a tab inside", []string{`"` + k + "\t" + k[:2] + `"`}, ""},
			{"a bare key that is not ASCII", []string{k + `é`}, ""},
		}
	})},
	{"key/parameters", rfc9651 + "3.3", "Parameters may follow a key and are no part of it; what is none is refused.", spellings(func(k string, _ Claims) []spelling {
		return []spelling{
			{"a parameter", []string{quoted(k) + `;v=1`}, k},
			{"several parameters", []string{quoted(k) + `; a; b="x;y";c=?0`}, k},
			{"a semicolon inside", []string{quoted(k + `;v=1`)}, k + `;v=1`},
			{"a name in upper case", []string{quoted(k) + `;V=1`}, ""},
			{"a blank before the semicolon", []string{quoted(k) + ` ;v=1`}, ""},
			{"no name", []string{quoted(k) + `;`}, ""},
			{"a bare key with a parameter", []string{k + `;v=1`}, ""},
		}
	})},
	{"key/case", draft + "2.2", "Keys are compared byte by byte: upper and lower case differ.", func(e *env) {
		k := strings.ToLower(newKey()) + "a"
		e.distinct("upper case", k, strings.ToUpper(k))
	}},
	{"key/bare", draftKey, "A key without quotes is refused where the server is strict, and is the same key as with them where it is not.", spellings(func(k string, c Claims) []spelling {
		all := []spelling{
			{"bare", []string{k}, k},
			{"a bare integer", []string{digits(k)}, digits(k)},
			{"bare punctuation", []string{`-_.~:/+=` + k}, `-_.~:/+=` + k},
		}
		for i := range all {
			if c.Strict {
				all[i].key = ""
			}
		}
		return all
	})},
	{"key/length", "idem, package idemhttp, KeySyntax", "Keys have the lengths that are claimed, to the byte, counted without quotes and escapes.", func(e *env) {
		if e.cfg.MinKey == 0 && e.cfg.MaxKey == 0 {
			e.skip("neither Config.MinKey nor Config.MaxKey is set: no lengths are claimed")
		}
		if n := e.cfg.MinKey; n > 0 {
			k := sized(n)
			e.spelled(spelling{"the shortest", []string{quoted(k)}, k})
			e.spelled(spelling{"too short", []string{quoted(sized(n - 1))}, ""})
		}
		if n := e.cfg.MaxKey; n > 0 {
			k, escaped := sized(n), newKey()
			escaped += strings.Repeat(`"`, n-len(escaped))
			e.spelled(spelling{"the longest", []string{quoted(k)}, k})
			e.spelled(spelling{"the longest, with escapes", []string{quoted(escaped)}, escaped})
			e.spelled(spelling{"too long", []string{quoted(k + "a")}, ""})
		}
	}},
}

// spellings is a case of several, each with a key of its own.
func spellings(of func(k string, c Claims) []spelling) func(e *env) {
	return func(e *env) {
		for i := range of(newKey(), e.cfg.Claims) {
			e.spelled(of(newKey(), e.cfg.Claims)[i])
		}
	}
}

// spelled checks what a server makes of a spelling. What is taken is sent first, so that
// the key that it means must then be known.
func (e *env) spelled(s spelling) {
	q := e.fresh()
	q.keys = s.lines
	if s.key == "" {
		e.refused("a request with a key that is malformed ("+s.name+")", q, http.StatusBadRequest)
		return
	}
	a := e.settle("a request with a key ("+s.name+")", q)
	if !a.ok() {
		e.errorf("a request with a key (%s) = %v, want 2xx", s.name, a)
		return
	}
	q.keys = []string{quoted(s.key)}
	e.same("a retry with the same key in quotes, after one with it otherwise ("+s.name+")", e.send("a retry", q), a)
	e.wantEffects(q, 1)
}

// distinct checks that two keys are those of two records.
func (e *env) distinct(name, one, other string) {
	q := e.fresh()
	q.keys = []string{quoted(one)}
	e.ok("a first request", q)
	o := e.other(q)
	o.keys = []string{quoted(other)}
	if a := e.settle("another request with another key", o); !a.ok() {
		e.errorf("another request with another key (%s) = %v, want 2xx", name, a)
	}
	e.wantEffects(o, 1)
}

// digits is a key of digits only.
func digits(k string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'f':
			return '0' + r - 'a'
		case r == '-':
			return '7'
		}
		return r
	}, k)
}

// sized is a key of n bytes.
func sized(n int) string {
	k := strings.ReplaceAll(newKey(), "-", "")
	return (k + strings.Repeat("a", n))[:n]
}
