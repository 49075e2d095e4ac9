package conformance

import (
	"fmt"
	"time"

	"github.com/idem-go/idem/backend"
)

var completeCases = []testCase{
	rule("complete/bytes", "Header and body come back byte by byte, whatever they hold, up to a megabyte and more.", completeBytes),
	rule("complete/empty", "An empty response is a response.", completeEmpty), // field report 22
	rule("complete/tombstone", "A tombstone is stored and told apart from a response.", completeTombstone),
	rule("complete/retention", "The retention counts from the completion, also of a record that was resumed late.", completeRetention),
	rule("complete/cold", "A process that has seen nothing of a request replays its answer, and refuses another request with the key.", completeCold), // field report 13
	rule("complete/at-once", "The same completion sent several times at once succeeds every time.", completeAtOnce),
}

func completeBytes(e *env) {
	for name, body := range map[string][]byte{
		"every byte": allBytes(256), "invalid UTF-8": []byte("a\xff\xfe\xc3"), "NUL": {0}, "NULs at the end": []byte("a\x00\x00"),
		"newlines": []byte("\r\n\n\r"), "backslash": []byte(`\x41\\`), "1 MiB": allBytes(1 << 20),
	} {
		c := request(name)
		r := e.acquire("Claim", c)
		resp := backend.Response{Status: 200, Header: append([]byte("h"), allBytes(256)...), Body: body}
		e.ok("Complete("+name+")", e.complete(r.Holder(), backend.Completion{Sequence: 1, Response: resp}))
		if got := e.get(c.Key).Response; !got.Equal(resp) {
			e.Errorf("Get(%s): response of %d+%d bytes differs from the one of %d+%d bytes stored", name, len(got.Header), len(got.Body), len(resp.Header), len(body))
		}
		if got := e.refuse("Claim("+name+")", rival(c)).Response; !got.Equal(resp) {
			e.Errorf("Claim(%s): the response returned differs from the one stored", name)
		}
	}
}

func completeEmpty(e *env) {
	for name, resp := range map[string]backend.Response{
		"nothing at all": {},
		"empty slices":   {Header: []byte{}, Body: []byte{}},
		"status only":    {Status: 204},
		"largest status": {Status: backend.MaxStatus},
	} {
		c := request(name)
		r := e.acquire("Claim", c)
		e.ok("Complete", e.complete(r.Holder(), backend.Completion{Sequence: 1, Response: resp}))
		if got := e.refuse("Claim("+name+")", rival(c)); got.Status != backend.Completed || !got.Response.Equal(resp) {
			e.Errorf("Claim(%s) = %v, %+v, want completed, %+v", name, got.Status, got.Response, resp)
		}
		e.still("Complete(again, nil for empty)", c.Key, nil, func() error {
			return e.complete(r.Holder(), backend.Completion{Sequence: 1, Response: backend.Response{Status: resp.Status}})
		})
	}
}

func completeTombstone(e *env) {
	for _, ts := range []backend.Tombstone{backend.TooLarge, backend.Streamed, backend.NotStored} {
		c := request(string(ts))
		r := e.acquire("Claim", c)
		resp := backend.Response{Tombstone: ts, Status: 201, Header: []byte("Location: /x")}
		e.ok("Complete", e.complete(r.Holder(), backend.Completion{Sequence: 1, Response: resp}))
		if got := e.refuse(fmt.Sprintf("Claim(%s)", ts), rival(c)).Response; !got.Equal(resp) {
			e.Errorf("Claim(%s) = %+v, want %+v", ts, got, resp)
		}
	}
}

func completeRetention(e *env) {
	c := hasty("k")
	c.Retention = 2 * short
	e.ok("Checkpoint", e.checkpoint(e.acquire("Claim", c).Holder(), point(1, "p", "")))
	e.lapse(c)
	e.advance(c.Retention) // it is over, but for a record that isn't completed
	next := rival(c)
	next.Lease, next.Retention = c.Lease, c.Retention
	l := e.acquire("Claim(lapsed)", next).Holder()
	sent := time.Now()
	e.ok("Complete", e.complete(l, answer(1, "done")))
	e.notBefore("the retention is over", c.Retention, sent, func() bool {
		if _, err := e.b.Sweep(e.Context(), 10); err != nil {
			e.Fatalf("Sweep = %v, want nil", err)
		}
		return e.claim("Claim", rival(c)).Acquired
	})
}

func completeAtOnce(e *env) {
	l := e.acquire("Claim", request("k")).Holder()
	other := e.open()
	for _, err := range race(8, func(i int) error {
		if i%2 == 0 {
			return other.Complete(e.Context(), l, answer(1, "done"))
		}
		return e.complete(l, answer(1, "done"))
	}) {
		e.ok("Complete(at once)", err)
	}
}

// completeCold asks handles that are opened when all is over.
func completeCold(e *env) {
	c := request("k")
	want := e.completed(c)
	for _, tt := range []struct {
		name   string
		change func(c *backend.Claim)
		part   backend.Part
	}{
		{"same request", func(*backend.Claim) {}, backend.Same},
		{"other content", func(c *backend.Claim) { c.Fingerprints = []backend.Fingerprint{fingerprint("v1", "other")} }, backend.Content},
		{"other target", func(c *backend.Claim) { c.Target.Path += "/2" }, backend.Path},
	} {
		n := rival(c)
		tt.change(&n)
		got, err := e.open().Claim(e.Context(), n)
		e.ok("Claim(new handle, "+tt.name+")", err)
		if part := n.Compare(got.Record); got.Acquired || part != tt.part {
			e.Errorf("Claim(new handle, %s): acquired = %v, the record differs in %v, want false, %v", tt.name, got.Acquired, part, tt.part)
		}
		e.same("Claim(new handle, "+tt.name+"): record returned", got.Record, want)
	}
}
