package idemhttp

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/idem-go/idem"
)

// response is something that a handler can do with its answer. The first answer has to
// be the bare handler's, and the retry's the first one's, but for what the fields below
// say: docs/responses.md is written from them.
type response struct {
	name    string
	method  string // POST by default
	handle  http.HandlerFunc
	options []Option
	path    string // the only one that it is for, if any
	wire    string // likewise
	why     string // the answers are not the same; required where they aren't

	// The first answer.
	first    *problem // what it is instead
	aborted  bool     // there is none
	live     bool     // it leaves while it is made
	unlike   string   // how it differs from the bare handler's otherwise
	has      []string // lines of its header that only the unlike one has
	onlyBare []string // lines of the header that it does not have
	gone     string   // where the client goes away

	// The retry.
	onlyFirst []string // lines of the header that it does not have
	again     bool     // the handler runs again, and the retry gets what that answers
	retry     *problem // what it is instead
}

// Every response on both paths and over both wires: design 9, field reports 2, 16, 18,
// 19, 20 and 22, hard cases 15 and 30.
func TestResponses(t *testing.T) {
	t.Parallel()
	for _, p := range paths {
		for _, c := range allResponses() {
			if c.path != "" && c.path != p.name {
				continue
			}
			t.Run(p.name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				if c.gone != "" {
					for _, wire := range wires {
						goneClient(t, p.name, wire.name, c.gone)
					}
					return
				}
				h, ran := runs(c.handle)
				s := p.site(t, setup{
					executor: []idem.Option{idem.WithMaxResponse(storedLimit)},
					options:  append([]Option{WithMethods("POST", "HEAD")}, c.options...),
				}, h)
				bare := serve(t, c.handle)
				for _, wire := range wires {
					if c.wire != "" && c.wire != wire.name {
						continue
					}
					ran.Store(0)
					q := withKey("key over " + wire.name)
					q.keys[0] = `"` + q.keys[0] + `"`
					q.method = c.method
					first := wire.send(t, s, q)
					c.checkFirst(t, wire.name, first, func() reply { return wire.send(t, bare, q) })
					retry := wire.send(t, s, q)
					c.checkRetry(t, wire.name, first, retry)
					want := int32(1)
					if c.again {
						want = 2
					}
					if got := ran.Load(); got != want {
						t.Errorf("%s: the handler ran %d times, want %d", wire.name, got, want)
					}
					if !c.again && c.wire == "" {
						sameOver(t, s, q, wire.name, retry)
					}
				}
				if errs := s.failures(); len(errs) > 0 && c.first == nil {
					t.Errorf("errors = %v, want none", errs)
				}
			})
		}
	}
}

func (c response) checkFirst(t *testing.T, wire string, first reply, bareReply func() reply) {
	t.Helper()
	if c.first != nil {
		checkProblem(t, wire+", first answer", first, *c.first)
		return
	}
	if c.unlike == "" {
		bare := bareReply()
		if first.status != bare.status || first.body != bare.body || (first.cut != nil) != (bare.cut != nil) {
			t.Errorf("%s: first answer = %d %q, %v, want the bare handler's, %d %q, %v", wire, first.status, first.body, first.cut, bare.status, bare.body, bare.cut)
		}
		got, want := tableSet(first.head), tableSet(without(lowerNames(bare.head), lowerNames(c.onlyBare)))
		if !slices.Equal(got, want) {
			t.Errorf("%s: header of the first answer = %q, want the bare handler's, %q", wire, got, want)
		}
	}
	for _, line := range c.has {
		if !slices.Contains(lowerNames(first.head), lowerNames([]string{line})[0]) {
			t.Errorf("%s: header of the first answer = %q, want %q", wire, first.head, line)
		}
	}
	if first.aborted() != c.aborted {
		t.Errorf("%s: first answer = %d, %v, want none %v", wire, first.status, first.cut, c.aborted)
	}
	if c.method != http.MethodHead && !c.aborted && !c.live && hasBody(first.status) && first.header.Get("Content-Length") == "" {
		t.Errorf("%s: the first answer has no Content-Length: %q", wire, first.head)
	}
	if len(first.early) > 0 || len(first.trailer) > 0 {
		t.Errorf("%s: the first answer has %v before it and %v after it, want neither", wire, first.early, first.trailer)
	}
}

func (c response) checkRetry(t *testing.T, wire string, first, retry reply) {
	t.Helper()
	switch {
	case c.retry != nil:
		checkProblem(t, wire+", retry", retry, *c.retry)
		if got, want := retry.header.Get("Location"), first.header.Get("Location"); got != want {
			t.Errorf("%s: Location of the retry = %q, want %q", wire, got, want)
		}
		if retry.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: the retry got the cookie of the first: %q", wire, retry.head)
		}
	case c.again:
		if retry.status != first.status || retry.body != first.body || !slices.Equal(retry.head, first.head) {
			t.Errorf("%s: retry = %d %q %q, want %d %q %q", wire, retry.status, retry.head, retry.body, first.status, first.head, first.body)
		}
	default:
		if retry.status != first.status || retry.body != first.body {
			t.Errorf("%s: retry = %d %q, want %d %q", wire, retry.status, retry.body, first.status, first.body)
		}
		drop := lowerNames(append(slices.Clone(c.onlyFirst), "Connection: close")) // which ends each connection here
		got := byName(without(lowerNames(retry.head), drop))
		want := byName(append(without(lowerNames(first.head), drop), "idempotent-replayed: true"))
		if !slices.Equal(got, want) {
			t.Errorf("%s: header of the retry = %q, want %q", wire, got, want)
		}
		for _, line := range c.onlyFirst {
			if slices.Contains(lowerNames(retry.head), lowerNames([]string{line})[0]) && line != "Connection: close" {
				t.Errorf("%s: header of the retry = %q, want no %q", wire, retry.head, line)
			}
		}
	}
	if len(retry.early) > 0 || len(retry.trailer) > 0 {
		t.Errorf("%s: the retry has %v before it and %v after it, want neither", wire, retry.early, retry.trailer)
	}
}

// sameOver repeats a retry over the other wire.
func sameOver(t *testing.T, s *site, q request, wire string, retry reply) {
	t.Helper()
	for _, other := range wires {
		if other.name == wire {
			continue
		}
		r := other.send(t, s, q)
		drop := []string{"connection: close"}
		got, want := byName(without(lowerNames(r.head), drop)), byName(without(lowerNames(retry.head), drop))
		if r.status != retry.status || r.body != retry.body || !slices.Equal(got, want) {
			t.Errorf("retry over %s = %d %q %q, want that over %s: %d %q %q", other.name, r.status, got, r.body, wire, retry.status, want, retry.body)
		}
	}
}

// byName is a header in the order of its names. The values of one name stay in order.
func byName(lines []string) []string {
	lines = slices.Clone(lines)
	slices.SortStableFunc(lines, func(a, b string) int {
		nameA, _, _ := strings.Cut(a, ":")
		nameB, _, _ := strings.Cut(b, ":")
		return strings.Compare(nameA, nameB)
	})
	return lines
}

// tableSet is a header by name, without the two fields that say how long a body is,
// which is not what a handler answers.
func tableSet(lines []string) []string {
	return byName(slices.DeleteFunc(lowerNames(lines), func(l string) bool {
		return strings.HasPrefix(l, "content-length: ") || strings.HasPrefix(l, "transfer-encoding: ")
	}))
}

func without(lines, drop []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return slices.Contains(drop, l) })
}

func decode(t testing.TB, s string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(s), into); err != nil {
		t.Fatalf("%q is no JSON: %v", s, err)
	}
}

func text(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", n)) }
}

// pieces writes n bytes one by one, as long as it can.
func pieces(status, n int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		for range n {
			if _, err := io.WriteString(w, "x"); err != nil {
				return
			}
		}
	}
}

func zipped(s string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, s)
	_ = z.Close()
	return b.Bytes()
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Kept", "1")
		http.Error(w, "no", code)
	}
}

// lowerNames is a header with the names in lower case, as HTTP/2 has them.
func lowerNames(lines []string) []string {
	lines = slices.Clone(lines)
	for i, l := range lines {
		name, value, _ := strings.Cut(l, ":")
		lines[i] = strings.ToLower(name) + ":" + value
	}
	return lines
}
