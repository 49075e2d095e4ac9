package idem

import (
	"bytes"
	"errors"
	"testing"

	"github.com/idem-go/idem/backend"
)

// Header fields that were named are part of the fingerprint, each on its own: no value
// stands for another field, a list or a part of the request.
func TestFingerprintHeaders(t *testing.T) {
	t.Parallel()
	f := fingerprinter(t, Headers("x-CURRENCY", "Accept-Language"))
	with := func(h map[string][]string) Content {
		return Content{Type: "application/json", Body: []byte(`{"a":1}`), Header: h}
	}
	type header = map[string][]string
	checkGroups(t, f, [][]Content{
		{with(nil), with(header{}), with(header{"User-Agent": {"a"}, "Date": {"b"}})},
		{with(header{"X-Currency": {"EUR"}}), with(header{"X-Currency": {"EUR"}, "User-Agent": {"a"}})},
		{with(header{"X-Currency": {"eur"}})},
		{with(header{"Accept-Language": {"EUR"}})},
		{with(header{"X-Currency": {""}})},
		{with(header{"X-Currency": {"EUR", "USD"}})},
		{with(header{"X-Currency": {"EUR,USD"}})},
		{with(header{"X-Currency": {"EUR", ""}})},
		{with(header{"Accept-Language": {"de"}, "X-Currency": {"EUR"}})},
		{with(header{"Accept-Language": {"de", "x-currency", "EUR"}})},
		{with(header{"Accept-Language": {"EUR"}, "X-Currency": {"de"}})},
		{{Type: "application/json", Query: "X-Currency=EUR", Body: []byte(`{"a":1}`)}},
	})
	if got, want := fingerprinter(t).Sum(with(header{"X-Currency": {"EUR"}})), fingerprinter(t).Sum(with(nil)); got != want {
		t.Errorf("Sum without Headers depends on the header: %v, want %v", got, want)
	}
}

// Hard case 28: which fields are covered is part of the version, their spelling and order
// is not, and versions without them are what they were.
func TestFingerprintHeadersVersion(t *testing.T) {
	t.Parallel()
	seen := map[string]int{"1": -1, "1.902d5519": -2}
	for i, opts := range [][]FingerprintOption{
		{Headers("a")},
		{Headers("b")},
		{Headers("a", "b")},
		{Headers("ab")},
		{Headers("a"), Omit("/a")},
		{Omit("/a")},
		{Select("/a")},
	} {
		v := fingerprinter(t, opts...).Version()
		if j, ok := seen[v]; ok {
			t.Errorf("Version() of options %d and %d = %q both, want different ones", j, i, v)
		}
		seen[v] = i
	}
	a, b := fingerprinter(t, Headers("A", "b")), fingerprinter(t, Headers("B"), Headers("a", "A"))
	if a.Version() != b.Version() {
		t.Errorf("Version() = %q and %q in another order, want one", a.Version(), b.Version())
	}
	if v := fingerprinter(t, Headers()).Version(); v != "1" {
		t.Errorf("Version() without fields = %q, want 1", v)
	}
	for _, name := range []string{"", "a b", "a:", "ä"} {
		if _, err := NewFingerprinter(Headers(name)); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("NewFingerprinter(Headers(%q)) = %v, want ErrInvalid", name, err)
		}
	}
}

// What is published of a fingerprint names every part of it.
func TestFingerprinterParts(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]*Fingerprinter{
		"content type|query|body":                                       fingerprinter(t),
		"content type|query|body, without /sent /trace":                 fingerprinter(t, Omit("/trace"), Omit("/sent")),
		"content type|query|body, of it /amount /to, without /to/label": fingerprinter(t, Select("/to", "/amount"), Omit("/to/label")),
		"content type|query|body|header field X-A|header field X-B":     fingerprinter(t, Headers("x-b", "X-A")),
	} {
		var got [][]byte
		for _, p := range f.Parts() {
			got = append(got, []byte(p))
		}
		if s := string(bytes.Join(got, []byte("|"))); s != want {
			t.Errorf("Parts() = %q, want %q", s, want)
		}
	}
}
