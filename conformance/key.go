package conformance

import (
	"slices"
	"strings"
	"sync"

	"github.com/idem-go/idem/backend"
)

var keyCases = []testCase{
	rule("key/scope", "Tenant, actor and key together are the identity.", func(e *env) { // field report 14
		distinct(e, []backend.Key{
			{Tenant: "t1", Actor: "a1", Value: "key-0001"},
			{Tenant: "t2", Actor: "a1", Value: "key-0001"},
			{Tenant: "t1", Actor: "a2", Value: "key-0001"},
			{Tenant: "a1", Actor: "t1", Value: "key-0001"},
			{Tenant: "t1", Actor: "key-0001", Value: "a1"},
		})
	}),
	rule("key/separators", "Separators inside the parts make no two keys one.", keySeparators),                 // field report 14
	rule("key/bytes", "Keys are compared byte by byte: no case folding, trimming or normalisation.", keyBytes), // field report 15
	rule("key/longest", "Every part may be as long as the contract allows, all at once, and comes back exactly.", keyLongest),
}

// distinct checks that the keys are those of independent records.
func distinct(e *env, keys []backend.Key) {
	e.Helper()
	for i, k := range keys {
		c := request("")
		c.Key = k
		got := e.claim("Claim", c)
		if !got.Acquired {
			e.Fatalf("Claim(%q): acquired = false after claims of other keys, want true", k)
		}
		e.ok("Complete", e.complete(got.Record.Holder(), answer(1, strings.Repeat("x", i))))
	}
	for i, k := range keys {
		if r := e.get(k); r.Key != k || len(r.Response.Body) != i {
			e.Errorf("Get(%q) = record of %q with a body of %d bytes, want its own with %d", k, r.Key, len(r.Response.Body), i)
		}
	}
}

func keySeparators(e *env) {
	var keys []backend.Key
	for _, sep := range []string{":", "/", "|", "\\", "\"", ",", ";", "-", "_", ".", "\u00a0", "\u2028", "%3A", "}{", "][", "' '", "\ufffd"} {
		keys = append(
			keys,
			backend.Key{Tenant: "a" + sep + "b", Actor: "c", Value: "d"},
			backend.Key{Tenant: "a", Actor: "b" + sep + "c", Value: "d"},
			backend.Key{Tenant: "a", Actor: "b", Value: "c" + sep + "d"},
			backend.Key{Tenant: "a" + sep, Actor: "b", Value: "d"},
			backend.Key{Tenant: "a", Actor: sep + "b", Value: "d"},
		)
	}
	distinct(e, append(
		keys,
		backend.Key{Tenant: "1", Actor: "11", Value: "1"},
		backend.Key{Tenant: "11", Actor: "1", Value: "1"},
		backend.Key{Tenant: "1", Actor: "1", Value: "11"},
	))
}

func keyBytes(e *env) {
	values := []string{
		"key", "Key", "KEY", "key ", " key", "key  ", "\u00a0key", "key\u00a0", "key\u200b",
		"é", "e\u0301", "É", "E\u0301", "ß", "ss", "ẞ", "ı", "i", "İ", "I", "K", "\u212a", "ｋｅｙ",
		"1", "01", "1.0", "1e0", "0x1", "null", "NULL", "true", "%", "_", "k%", "k_y", "*", "k*", "?",
		"'", "''", "\"", "\\", "\\\\", "\\x00", "%00", "$1", "{}", "{key}", "🔑", "\U0010ffff", "\ufeffkey",
	}
	keys := make([]backend.Key, 0, 2*len(values))
	for _, v := range values {
		keys = append(keys,
			backend.Key{Tenant: "t", Actor: "a", Value: v},
			backend.Key{Tenant: v, Actor: "a", Value: "value of a tenant"})
	}
	distinct(e, keys)
}

func keyLongest(e *env) {
	long := strings.Repeat("🔑", 63) + "abc"
	c := request("")
	c.Key = backend.Key{Tenant: long, Actor: strings.Repeat("a", 255), Value: strings.Repeat("\\", 255)}
	c.Operation = long
	c.Target = backend.Target{Method: strings.Repeat("M", backend.MaxMethod), Path: strings.Repeat("/", backend.MaxPath)}
	c.Fingerprints = nil
	for i := range backend.MaxVersions {
		c.Fingerprints = append(c.Fingerprints, fingerprint(strings.Repeat(string(rune('a'+i)), backend.MaxVersion), "content"))
	}
	c.Payload = allBytes(backend.MaxPayload)
	r := e.acquire("Claim(longest parts)", c)
	want := r
	want.Key, want.Operation, want.Target = c.Key, c.Operation, c.Target
	want.Fingerprint, want.Payload = c.Fingerprints[0], c.Payload
	e.same("Claim(longest parts)", r, want)
	e.ok("Checkpoint(longest point)", e.checkpoint(r.Holder(), point(1, long, "")))
	e.refuse("Claim(longest parts, again)", rival(c))

	// One byte less is another key.
	n := request("")
	n.Key = c.Key
	n.Key.Value = n.Key.Value[1:]
	e.acquire("Claim(one byte less)", n)
}

// allBytes is n bytes, a MiB at most, every value among them, valid as no encoding
// of text.
func allBytes(n int) []byte { return slices.Clone(mebibyte()[:n]) }

var mebibyte = sync.OnceValue(func() []byte {
	b := make([]byte, 1<<20)
	for i := range b {
		b[i] = byte(i ^ i>>8)
	}
	return b
})
