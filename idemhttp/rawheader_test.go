package idemhttp

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dunglas/httpsfv"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/memory"
)

// calls is a store that notes which keys it is asked about. Everything else takes a
// lease, which only a claim gives.
type calls struct {
	backend.Backend
	mu   sync.Mutex
	keys []string
}

func (b *calls) asked(k backend.Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keys = append(b.keys, k.Value)
}

// since returns what was asked after the first n, and how much there is now.
func (b *calls) since(n int) (keys []string, now int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.keys[n:]), len(b.keys)
}

func (b *calls) Claim(ctx context.Context, c backend.Claim) (backend.Claimed, error) {
	b.asked(c.Key)
	return b.Backend.Claim(ctx, c)
}

func (b *calls) Get(ctx context.Context, k backend.Key) (backend.Record, error) {
	b.asked(k)
	return b.Backend.Get(ctx, k)
}

// keySite is a server that shows what it makes of a key.
type keySite struct {
	*site
	store  *calls
	before int // calls of the store
	runs   func() int32
	ran    int32
}

func newKeySite(t testing.TB, syntax KeySyntax) *keySite {
	t.Helper()
	h, ran := runs(created)
	store := &calls{Backend: memory.New()}
	s := leased(t, setup{backend: store, options: []Option{WithKeySyntax(syntax)}}, h)
	return &keySite{site: s, store: store, runs: ran.Load}
}

// untouched checks that nothing has happened since the last look.
func (s *keySite) untouched(t testing.TB) {
	t.Helper()
	asked, now := s.store.since(s.before)
	if ran := s.runs(); len(asked) > 0 || ran != s.ran {
		t.Errorf("the store was asked about %q, the handler ran %d times, want neither", asked, ran-s.ran)
	}
	s.before, s.ran = now, s.runs()
}

// ranFor checks that the handler ran once since the last look, for that key.
func (s *keySite) ranFor(t testing.TB, what string, r reply, key string) {
	t.Helper()
	asked, now := s.store.since(s.before)
	if r.status != http.StatusCreated || r.header.Get(replayedHeader) != "" || !slices.Equal(asked, []string{key}) || s.runs() != s.ran+1 {
		t.Errorf("%s = %d %q, key %q, %d runs, want 201, %q and 1", what, r.status, r.body, asked, s.runs()-s.ran, key)
	}
	s.before, s.ran = now, s.runs()
}

// replayed checks that nothing ran since the last look.
func (s *keySite) replayed(t testing.TB, what string, r reply) {
	t.Helper()
	if r.status != http.StatusCreated || r.header.Get(replayedHeader) != "true" || s.runs() != s.ran {
		t.Errorf("%s = %d %q %q, %d runs, want the replay", what, r.status, r.head, r.body, s.runs()-s.ran)
	}
	_, s.before = s.store.since(s.before)
}

func (s *keySite) wants(t testing.TB, what string, r reply, want keyWant) {
	t.Helper()
	switch want.Error {
	case "":
		s.ranFor(t, what, r, want.Key)
		return
	case "missing":
		checkProblem(t, what, r, keyMissing)
	case "malformed":
		checkProblem(t, what, r, keyMalformed)
	default:
		t.Fatalf("unknown error %q in the case", want.Error)
	}
	s.untouched(t)
}

// The cases of the key's header, as bytes on a socket. What is no key gets its 400 before
// the store is asked, and what is one is one key in every spelling, on either wire.
func TestKeyCasesOnTheWire(t *testing.T) {
	t.Parallel()
	for _, syntax := range []KeySyntax{strictKeys, lenientKeys} {
		for _, wire := range wires {
			t.Run(fmt.Sprintf("%s/strict %v", wire.name, syntax.Strict), func(t *testing.T) {
				t.Parallel()
				s := newKeySite(t, syntax)
				for i, c := range keyCases(t) {
					want := c.Lenient
					if syntax.Strict {
						want = c.Strict
					}
					user := fmt.Sprintf("X-User: user %d", i) // many cases have one key
					q := request{keys: c.Lines, header: []string{user}}
					s.wants(t, c.Name, wire.send(t, s.site, q), want)
					if want.Error != "" {
						continue
					}
					quoted, err := httpsfv.Marshal(httpsfv.NewItem(want.Key))
					if err != nil {
						t.Fatal(err)
					}
					spellings := []string{c.Lines[0], quoted}
					if isBare(want.Key) {
						spellings = append(spellings, want.Key)
					}
					for _, again := range wires {
						for _, line := range spellings {
							q.keys = []string{line}
							what := fmt.Sprintf("%s, then %.40s over %s", c.Name, line, again.name)
							r := again.send(t, s.site, q)
							if syntax.Strict && line == want.Key {
								s.wants(t, what, r, keyWant{Error: "malformed"})
							} else {
								s.replayed(t, what, r)
							}
						}
					}
				}
			})
		}
	}
}

// refused is what net/http itself says to a request that no handler sees.
type refused struct {
	status int           // on HTTP/1.1
	reset  http2.ErrCode // on HTTP/2, of the stream and without an answer
}

// What net/http does with the bytes of HTTP/1.1 before the middleware sees them, or
// instead.
func TestRawHTTP1(t *testing.T) {
	t.Parallel()
	const name = "Idempotency-Key: "
	badRequest := &refused{status: http.StatusBadRequest}
	s := newKeySite(t, lenientKeys)
	for i, c := range []struct {
		what  string
		lines string // of the header
		want  keyWant
		by    *refused
	}{
		{what: "blanks and tabs around, which are dropped", lines: name + "\t \"aaaaaaaa\" \t\r\n", want: keyWant{Key: "aaaaaaaa"}},
		{what: "no blank after the colon", lines: "Idempotency-Key:aaaaaaaa\r\n", want: keyWant{Key: "aaaaaaaa"}},
		{what: "a name in other letters", lines: "iDEMPOTENCY-kEY: aaaaaaaa\r\n", want: keyWant{Key: "aaaaaaaa"}},
		{what: "two names in different letters", lines: "IDEMPOTENCY-KEY: aaaaaaaa\r\nidempotency-key: aaaaaaaa\r\n", want: keyWant{Error: "malformed"}},
		{what: "lines that end in LF", lines: name + "aaaaaaaa\n", want: keyWant{Key: "aaaaaaaa"}},
		{what: "a folded line", lines: name + "aaaa\r\n aaaa\r\n", want: keyWant{Error: "malformed"}},
		{what: "a folded quoted line, which is unfolded", lines: name + "\"aaaa\r\n\t bbbb\"\r\n", want: keyWant{Key: "aaaa bbbb"}},
		{what: "an underscore in the name", lines: "Idempotency_Key: aaaaaaaa\r\n", want: keyWant{Error: "missing"}},
		{what: "bytes above ASCII", lines: name + "\"aaaaaaa\xe9\"\r\n", want: keyWant{Error: "malformed"}},
		{what: "NUL", lines: name + "\"aaaa\x00aaaa\"\r\n", by: badRequest},
		{what: "a control character", lines: name + "\"aaaa\x01aaaa\"\r\n", by: badRequest},
		{what: "DEL", lines: name + "\"aaaa\x7faaaa\"\r\n", by: badRequest},
		{what: "CR", lines: name + "\"aaaa\raaaa\"\r\n", by: badRequest},
		{what: "a blank before the colon", lines: "Idempotency-Key : aaaaaaaa\r\n", by: badRequest},
		{what: "no colon", lines: "Idempotency-Key aaaaaaaa\r\n", by: badRequest},
		{what: "a megabyte", lines: name + strings.Repeat("a", 2<<20) + "\r\n", by: &refused{status: http.StatusRequestHeaderFieldsTooLarge}},
	} {
		raw := fmt.Sprintf("POST /orders HTTP/1.1\r\nHost: shop.example\r\nX-User: user %d\r\nConnection: close\r\n%s\r\n", i, c.lines)
		r := sendRaw(t, s.site, []byte(raw))
		if c.by == nil {
			s.wants(t, c.what, r, c.want)
			continue
		}
		if r.status != c.by.status || strings.Contains(r.header.Get("Content-Type"), "problem") {
			t.Errorf("%s = %d %q, want %d of the server itself", c.what, r.status, r.head, c.by.status)
		}
		s.untouched(t)
	}
	raw := request{}.chunked(1)
	raw = append(bytes.TrimSuffix(raw, []byte("\r\n")), name+"aaaaaaaa\r\n\r\n"...)
	s.wants(t, "a key in the trailer", sendRaw(t, s.site, raw), keyWant{Error: "missing"})
}

// The same for the fields of HTTP/2, which have no lines that could be taken for
// something else, and whose values are not trimmed.
func TestRawHTTP2(t *testing.T) {
	t.Parallel()
	key := func(values ...string) (fields []hpack.HeaderField) {
		for _, v := range values {
			fields = append(fields, hpack.HeaderField{Name: "idempotency-key", Value: v})
		}
		return fields
	}
	protocol := &refused{reset: http2.ErrCodeProtocol}
	s := newKeySite(t, lenientKeys)
	for i, c := range []struct {
		what   string
		fields []hpack.HeaderField
		want   keyWant
		by     *refused
	}{
		{what: "blanks around, which the key's syntax drops", fields: key("  aaaaaaaa "), want: keyWant{Key: "aaaaaaaa"}},
		{what: "tabs around", fields: key("\t\"aaaaaaaa\"\t"), want: keyWant{Error: "malformed"}},
		{what: "a field that is not to be indexed", fields: []hpack.HeaderField{{Name: "idempotency-key", Value: "aaaaaaaa", Sensitive: true}}, want: keyWant{Key: "aaaaaaaa"}},
		{what: "two fields", fields: key("aaaaaaaa", "aaaaaaaa"), want: keyWant{Error: "malformed"}},
		{what: "no value", fields: key(""), want: keyWant{Error: "malformed"}},
		{what: "an underscore in the name", fields: []hpack.HeaderField{{Name: "idempotency_key", Value: "aaaaaaaa"}}, want: keyWant{Error: "missing"}},
		{what: "bytes above ASCII", fields: key("\"aaaaaaa\xe9\""), want: keyWant{Error: "malformed"}},
		{what: "NUL", fields: key("\"aaaa\x00aaaa\""), by: protocol},
		{what: "a control character", fields: key("\"aaaa\x01aaaa\""), by: protocol},
		{what: "DEL", fields: key("\"aaaa\x7faaaa\""), by: protocol},
		{what: "CR", fields: key("\"aaaa\raaaa\""), by: protocol},
		{what: "a second line in the value", fields: key("aaaaaaaa\r\nidempotency-key: bbbbbbbb"), by: protocol},
		{what: "a name in other letters", fields: []hpack.HeaderField{{Name: "Idempotency-Key", Value: "aaaaaaaa"}}, by: protocol},
	} {
		q := request{header: []string{fmt.Sprintf("X-User: user %d", i)}}
		conn := dial2(t, s.site)
		conn.writeHeaders(t, append(q.fields2(), c.fields...), true)
		r := conn.read(t)
		conn.Close()
		if c.by == nil {
			s.wants(t, c.what, r, c.want)
			continue
		}
		if !r.wasReset(c.by.reset) {
			t.Errorf("%s = %d %q, %v, want the stream to be reset by %v", c.what, r.status, r.head, r.cut, c.by.reset)
		}
		s.untouched(t)
	}
	conn := dial2(t, s.site)
	defer conn.Close()
	conn.writeHeaders(t, request{}.fields2(), false)
	conn.writeHeaders(t, key("aaaaaaaa"), true)
	s.wants(t, "a key in the trailer", conn.read(t), keyWant{Error: "missing"})
}
