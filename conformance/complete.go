package conformance

import (
	"fmt"
	"time"

	"github.com/idem-go/idem/backend"
)

var completeCases = []testCase{
	rule("complete/stored", "Completion stores the response, ends the lease, drops state and payload and keeps the rest.", completeStored),
	rule("complete/retry", "Completing again with the same response is a no-op (field report 8).", completeRetry),
	rule("complete/conflict", "Completing again with another response is ErrConflict.", completeConflict),
	rule("complete/late", "A completion with a lower sequence than the record's changes nothing (hard cases 2, 20).", completeLate),
	rule("complete/taken-sequence", "A completion with the sequence of a checkpoint is ErrConflict.", func(e *env) {
		r := e.acquire("Claim", request("k"))
		e.ok("Checkpoint", e.checkpoint(r.Holder(), point(2, "p", "s")))
		e.still("Complete(sequence of a checkpoint)", r.Key, backend.ErrConflict, func() error { return e.complete(r.Holder(), answer(2, "done")) })
	}),
	rule("complete/missing", "Completing a record that isn't there is ErrLeaseLost and makes none (hard case 1).", func(e *env) {
		l := backend.Lease{Key: request("k").Key, ClaimID: newID(), Token: 1}
		e.still("Complete(no record)", l.Key, backend.ErrLeaseLost, func() error { return e.complete(l, answer(1, "done")) })
	}),
	rule("complete/bytes", "Header and body come back byte by byte, whatever they hold, up to a megabyte and more.", completeBytes),
	rule("complete/empty", "An empty response is a response (field report 22).", completeEmpty),
	rule("complete/tombstone", "A tombstone is stored and told apart from a response.", completeTombstone),
	rule("complete/retention", "The retention counts from the completion, also of a record that was resumed late.", completeRetention),
	rule("complete/at-once", "The same completion sent several times at once succeeds every time.", completeAtOnce),
}

func completeStored(e *env) {
	c := request("k")
	c.Payload = []byte("payload")
	r := e.acquire("Claim", c)
	e.ok("Checkpoint", e.checkpoint(r.Holder(), point(1, "p", "state")))
	want := e.get(r.Key)
	e.ok("Complete", e.complete(r.Holder(), answer(2, "done")))
	got := e.get(r.Key)
	want.Status, want.Sequence, want.Response = backend.Completed, 2, answer(2, "done").Response
	want.State, want.Payload = nil, nil
	want.LockedUntil, want.UpdatedAt, want.CompletedAt, want.ExpiresAt = got.LockedUntil, got.UpdatedAt, got.CompletedAt, got.ExpiresAt
	e.same("Get(completed)", got, want)
	if got.LeaseLeft != 0 {
		e.Errorf("Get(completed): rest of the lease = %v, want 0", got.LeaseLeft)
	}
	if got.CompletedAt.Before(got.CreatedAt) || got.ExpiresAt.Before(got.CompletedAt.Add(got.Retention)) {
		e.Errorf("Get(completed): created %v, completed %v, expires %v, retention %v, want them in this order", got.CreatedAt, got.CompletedAt, got.ExpiresAt, got.Retention)
	}
}

func completeRetry(e *env) {
	r := e.completed(request("k"))
	for seq := backend.Sequence(1); seq <= 2; seq++ {
		e.still("Complete(again)", r.Key, nil, func() error { return e.complete(r.Holder(), answer(seq, "done")) })
	}
}

func completeConflict(e *env) {
	r := e.completed(request("k"))
	for name, change := range map[string]func(*backend.Response){
		"body":      func(o *backend.Response) { o.Body = []byte("done ") },
		"no body":   func(o *backend.Response) { o.Body = nil },
		"header":    func(o *backend.Response) { o.Header = []byte("location: /payments/1") },
		"status":    func(o *backend.Response) { o.Status = 200 },
		"tombstone": func(o *backend.Response) { o.Tombstone = backend.Streamed },
	} {
		for seq := backend.Sequence(1); seq <= 2; seq++ {
			c := answer(seq, "done")
			change(&c.Response)
			e.still("Complete(other "+name+")", r.Key, backend.ErrConflict, func() error { return e.complete(r.Holder(), c) })
		}
	}
}

func completeLate(e *env) {
	r := e.acquire("Claim", request("k"))
	e.ok("Checkpoint", e.checkpoint(r.Holder(), point(3, "p", "s")))
	e.still("Complete(2 after checkpoint 3)", r.Key, nil, func() error { return e.complete(r.Holder(), answer(2, "late")) })
	e.ok("Complete(4)", e.complete(r.Holder(), answer(4, "done")))
	if got := string(e.get(r.Key).Response.Body); got != "done" {
		e.Errorf("Get(completed): body = %q, want \"done\"", got)
	}
	e.still("Complete(2 after completion 4)", r.Key, nil, func() error { return e.complete(r.Holder(), answer(2, "late")) })
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
		"negative":       {Status: -1},
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
