package idem

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// canonicalize returns the canonical form of a JSON text, if it has one.
func canonicalize(text string) (string, bool) {
	var c canonical
	if _, ok := c.parse([]byte(text), place{only: everything}); !ok {
		return "", false
	}
	var b strings.Builder
	c.writeTo(&b)
	return b.String(), true
}

func TestCanonicalForm(t *testing.T) {
	t.Parallel()
	for _, tt := range [][2]string{
		{` [ ] `, `[]`},
		{`{ }`, `{}`},
		{`{"b":[1,{"d":2,"c":3}],"a":{}}`, `{"a":{},"b":[1,{"c":3,"d":2}]}`},
		{`{"é":1,"z":2,"\u0065":3,"":4}`, `{"":4,"e":3,"z":2,"é":1}`},
		{`{"\uffff":1,"\ud800\udc00":2}`, "{\"\uffff\":1,\"\U00010000\":2}"}, // UTF-16 would order them the other way
		{`"\/\b\u001F\u007f\u00e9\""`, "\"/\\u0008\\u001f\x7fé\\\"\""},
		{`100`, `1e2`},
		{`0.25`, `25e-2`},
		{`-12.3400E+1`, `-1234e-1`},
		{`-0.000e5`, `0`},
		{`10`, `1e1`},
		{`1e-0`, `1`},
		{`120e-1`, `12`},
		{`1e999999999999999999`, `1e999999999999999999`},
		{`10e999999999999999999`, `1e1000000000000000000`},
		{`0.1e1000000000000000000`, `1e999999999999999999`},
		{`0.1e-9999999999999999999`, `1e-10000000000000000000`},
		{`1000e-10000000000000000000`, `1e-9999999999999999997`},
		{`1.00e-0000000000000000000000`, `1`},
	} {
		got, ok := canonicalize(tt[0])
		if !ok || got != tt[1] {
			t.Errorf("canonicalize(%s) = %s, %v, want %s", tt[0], got, ok, tt[1])
		}
		if again, ok := canonicalize(got); !ok || again != got {
			t.Errorf("canonicalize(%s) = %s, %v, want it unchanged", got, again, ok)
		}
	}
}

// TestCanonicalIsCheap: time and memory grow with the body and with nothing
// else in it. Each of these takes minutes or gigabytes where it does not hold.
func TestCanonicalIsCheap(t *testing.T) {
	t.Parallel()
	const n = 300_000
	reversed := strings.Repeat(`{"b":{"b":`, 400) + `"` + strings.Repeat("x", n) + `"` + strings.Repeat(`,"a":1},"a":1}`, 400)
	var names strings.Builder
	for i := range n / 10 {
		fmt.Fprintf(&names, `"%d":%d,`, n-i, i)
	}
	f := fingerprinter(t)
	omit := fingerprinter(t, Omit("/0", "/5/x"))
	only := fingerprinter(t, Select("/5/x", "/299999/x"))
	for name, body := range map[string]string{
		"exponent":         "1e999999999999999999",
		"digits":           "1" + strings.Repeat("0", n) + "." + strings.Repeat("0", n) + "1e" + strings.Repeat("9", n),
		"unordered levels": reversed,
		"members":          "{" + names.String() + `"":0}`,
		"empty objects":    "[" + strings.Repeat("{},", n) + "{}]",
		"elements":         "[" + strings.Repeat("1,", n) + "1]",
		"levels":           strings.Repeat("[", n),
	} {
		start := time.Now()
		for _, f := range []*Fingerprinter{f, omit, only} {
			f.Sum(Content{Type: "application/json", Body: []byte(body)})
		}
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("three sums of %s, %d bytes, took %v, want far below 10s", name, len(body), d)
		}
	}
}

// FuzzCanonical compares the canonical form with a naive model: what
// encoding/json reads, with numbers as fractions.
func FuzzCanonical(f *testing.F) {
	for _, s := range fingerprintSets(f) {
		for i, g := range s.Groups {
			for j := range g {
				if other := s.Groups[(i+1)%len(s.Groups)][0]; len(g[j])+len(other) < 10_000 {
					f.Add(g[j], other, uint64(j))
				}
			}
		}
	}
	f.Add(`{"b":{"d":1,"c":{"f":2,"e":[{"h":3,"g":4}]}},"a":{"z":{},"y":[]}}`, `[{"b":1,"a":1},{"a":1,"b":1}]`, uint64(1))
	f.Add(`{"\n":1,"\u000b":2,"]":3,"\\":4,"[":5}`, `"\ud83d\u0041"`, uint64(2))
	f.Add("1e99999999999999999999", "1e-999999999999999999", uint64(3))
	f.Fuzz(func(t *testing.T, a, b string, seed uint64) {
		canonA, okA := canonicalize(a)
		canonB, okB := canonicalize(b)
		modelA, errA := modelOf(a)
		modelB, errB := modelOf(b)
		if okA != (errA == nil) {
			t.Fatalf("canonicalize(%q) ok = %v, want %v (%v)", a, okA, !okA, errA)
		}
		if !okA {
			return
		}
		if !json.Valid([]byte(canonA)) {
			t.Errorf("canonicalize(%q) = %q, want JSON", a, canonA)
		}
		if again, ok := canonicalize(canonA); !ok || again != canonA {
			t.Errorf("canonicalize(%q) = %q, %v, want it unchanged", canonA, again, ok)
		}
		rng := rand.New(rand.NewPCG(seed, 0))
		other := string(respell(rng, nil, modelA))
		if got, ok := canonicalize(other); !ok || got != canonA {
			t.Errorf("canonicalize(%q) = %q, %v, want %q as for %q", other, got, ok, canonA, a)
		}
		if okB && errB == nil {
			if got, want := canonA == canonB, modelEqual(modelA, modelB); got != want {
				t.Errorf("canonical forms of %q and %q equal = %v, want %v", a, b, got, want)
			}
		}
	})
}

type modelMember struct {
	name  string
	value any
}

var halfSurrogate = regexp.MustCompile(`\\u[dD][89a-fA-F]`)

// modelOf reads a text into []any, []modelMember, json.Number, string, bool
// and nil.
func modelOf(text string) (any, error) {
	if !utf8.ValidString(text) {
		return nil, errors.New("not UTF-8")
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if !json.Valid([]byte(text)) {
		return nil, errors.New("not JSON")
	}
	v, err := modelValue(d, 0)
	if err == nil && halfSurrogate.MatchString(text) && loneSurrogate(text) {
		err = errors.New("lone surrogate")
	}
	return v, err
}

// loneSurrogate looks for one with another method than the scanner: it takes
// pairs and other escapes away, and what is left is alone.
func loneSurrogate(text string) bool {
	rest := regexp.MustCompile(`\\\\`).ReplaceAllString(text, "_")
	rest = regexp.MustCompile(`\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}`).ReplaceAllString(rest, "_")
	return halfSurrogate.MatchString(rest)
}

func modelValue(d *json.Decoder, depth int) (any, error) {
	tok, err := d.Token()
	if err != nil {
		return nil, err
	}
	delim, ok := tok.(json.Delim)
	if !ok {
		return tok, nil
	}
	if depth++; depth > maxDepth {
		return nil, errors.New("too deep")
	}
	members, elements := []modelMember{}, []any{}
	for d.More() {
		var name string
		if delim == '{' {
			tok, err := d.Token()
			if err != nil {
				return nil, err
			}
			name = tok.(string)
			if slices.ContainsFunc(members, func(m modelMember) bool { return m.name == name }) {
				return nil, errors.New("duplicate member")
			}
		}
		v, err := modelValue(d, depth)
		if err != nil {
			return nil, err
		}
		members = append(members, modelMember{name, v})
		elements = append(elements, v)
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if delim == '{' {
		return members, nil
	}
	return elements, nil
}

func modelEqual(a, b any) bool {
	switch a := a.(type) {
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, modelEqual)
	case []modelMember:
		b, ok := b.([]modelMember)
		return ok && len(a) == len(b) && !slices.ContainsFunc(a, func(m modelMember) bool {
			i := slices.IndexFunc(b, func(n modelMember) bool { return m.name == n.name })
			return i < 0 || !modelEqual(m.value, b[i].value)
		})
	case json.Number:
		b, ok := b.(json.Number)
		return ok && numbersEqual(string(a), string(b))
	default:
		switch b.(type) {
		case []any, []modelMember:
			return false
		}
		return a == b
	}
}

// numbersEqual compares fractions, after it has taken an exponent from both that
// would make them too long.
func numbersEqual(a, b string) bool {
	ma, ea := splitNumber(a)
	mb, eb := splitNumber(b)
	if ma.Sign() == 0 || mb.Sign() == 0 {
		return ma.Sign() == mb.Sign()
	}
	diff := new(big.Int).Sub(ea, eb)
	if !diff.IsInt64() || diff.Int64() > 10_000 || diff.Int64() < -10_000 {
		return false // the mantissas of short texts can't make up for it
	}
	scale := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), new(big.Int).Abs(diff), nil))
	if diff.Sign() > 0 {
		ma.Mul(ma, scale)
	} else {
		mb.Mul(mb, scale)
	}
	return ma.Cmp(mb) == 0
}

func splitNumber(s string) (*big.Rat, *big.Int) {
	mantissa, exponent := s, "0"
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa, exponent = s[:i], s[i+1:]
	}
	m, _ := new(big.Rat).SetString(mantissa)
	e, _ := new(big.Int).SetString(exponent, 10)
	return m, e
}

// respell writes a value in another spelling: members in any order, white space,
// escapes, numbers with their point moved.
func respell(rng *rand.Rand, b []byte, v any) []byte {
	space := func() { b = append(b, []string{"", "", " ", "\n\t", "\r "}[rng.IntN(5)]...) }
	space()
	switch v := v.(type) {
	case []any:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = respell(rng, b, e)
		}
		space()
		b = append(b, ']')
	case []modelMember:
		b = append(b, '{')
		for i, j := range rng.Perm(len(v)) {
			if i > 0 {
				b = append(b, ',')
			}
			space()
			b = respellString(rng, b, v[j].name)
			space()
			b = append(b, ':')
			b = respell(rng, b, v[j].value)
		}
		space()
		b = append(b, '}')
	case json.Number:
		b = respellNumber(rng, b, string(v))
	case string:
		b = respellString(rng, b, v)
	default:
		text, _ := json.Marshal(v)
		b = append(b, text...)
	}
	space()
	return b
}

func respellString(rng *rand.Rand, b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r > 0xffff && rng.IntN(2) == 0:
			r -= 0x10000
			b = fmt.Appendf(b, `\u%04x\u%04X`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		case r <= 0xffff && (r < ' ' || r == '"' || r == '\\' || rng.IntN(3) == 0):
			b = fmt.Appendf(b, []string{`\u%04x`, `\u%04X`}[rng.IntN(2)], r)
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}

func respellNumber(rng *rand.Rand, b []byte, s string) []byte {
	mantissa, exponent := s, "0"
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa, exponent = s[:i], s[i+1:]
	}
	e, _ := new(big.Int).SetString(exponent, 10)
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	fraction += strings.Repeat("0", rng.IntN(4))
	if n := rng.IntN(3); n > 0 && len(whole) > 1 { // 12.5 as 1.25e1
		n = min(n, len(whole)-1)
		whole, fraction = whole[:len(whole)-n], whole[len(whole)-n:]+fraction
		e.Add(e, big.NewInt(int64(n)))
	} else if n := rng.IntN(3); n > 0 && len(fraction) > n { // 1.25 as 12.5e-1
		whole, fraction = strings.TrimLeft(whole+fraction[:n], "0"), fraction[n:]
		if whole == "" {
			whole = "0"
		}
		e.Sub(e, big.NewInt(int64(n)))
	}
	if negative {
		b = append(b, '-')
	}
	b = append(b, whole...)
	if fraction != "" {
		b = append(append(b, '.'), fraction...)
	}
	if e.Sign() != 0 || rng.IntN(2) == 0 {
		b = append(b, []string{"e", "E"}[rng.IntN(2)]...)
		if e.Sign() >= 0 {
			b = append(b, []string{"", "+", "0", "+00"}[rng.IntN(4)]...)
		}
		b = e.Append(b, 10)
	}
	return b
}
