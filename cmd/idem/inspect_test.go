package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/idem-go/idem/backend"
)

var ofKey = []string{"-tenant", "acme", "-actor", "alice", "-key", "order-17"}

func TestInspect(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, s server) {
		show := func(status int, more ...string) (string, string) {
			t.Helper()
			return want(t, status, s.args("inspect", append(ofKey, more...)...)...)
		}
		if out, errs := show(statusNo); out != "" || !strings.Contains(errs, "no such record") {
			t.Errorf("inspect without record printed %q and %q, want what it can mean", out, errs)
		}

		l := acquire(t, s.b, request("order-17"))
		out, _ := show(statusOK)
		contains(t, "inspect of a run", out, `"acme"`, `"alice"`, `"order-17"`, `POST "/payments?dry=0"`, "started", "in progress")

		must(t, s.b.Checkpoint(t.Context(), l, backend.Checkpoint{Sequence: 1, Point: "charged", State: []byte("the state")}))
		must(t, s.b.Release(t.Context(), l))
		out, _ = show(statusOK)
		contains(t, "inspect of a released run", out, `"charged", 9 bytes of state`, "goes on from the recovery point")

		if strings.Contains(out, "the state") {
			t.Error("inspect without -body shows the state")
		}
		out, _ = show(statusOK, "-body")
		contains(t, "inspect -body of a released run", out, `"the state"`)

		complete(t, s.b, acquire(t, s.b, request("order-17")))
		out, _ = show(statusOK)
		contains(t, "inspect of a completed run", out, "completed", "status 201, 21 bytes of header, 14 of body", "attempt")
		for _, more := range [][]string{nil, {"-json"}} {
			out, _ := show(statusOK, more...)
			for _, secret := range []string{"the answer", "Location", "dGhlIGFuc3dlcg"} {
				if strings.Contains(out, secret) {
					t.Errorf("inspect %q without -body shows %q", more, secret)
				}
			}
		}

		out, _ = show(statusOK, "-body")
		contains(t, "inspect -body", out, `the answer\x1b[2J`, "Location: /payments/1")
		if strings.ContainsRune(out, 0x1b) {
			t.Error("inspect -body sends what a client stored to the terminal as it is")
		}
		out, _ = show(statusOK, "-body", "-json")
		var r record
		must(t, json.Unmarshal([]byte(out), &r))
		if string(r.Content.Body) != "the answer\x1b[2J" || string(r.Content.Header) != "Location: /payments/1" ||
			r.Status != "completed" || r.ResponseStatus != 201 || r.Attempt != 2 || r.CompletedAt == nil || r.Retention != 24*60*60 {
			t.Errorf("inspect -body -json = %s, want the record", out)
		}
	})
}

// What an operator has to do depends on what a retry would get.
func TestMeaning(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		r    backend.Record
		want string
	}{
		{backend.Record{Status: backend.Started, LeaseLeft: 1, RecoveryPoint: "p"}, "in progress"},
		{backend.Record{Status: backend.Started, RecoveryPoint: "p"}, "recovery point"},
		{backend.Record{Status: backend.Started}, "runs again"},
		{backend.Record{Status: backend.Completed}, "its answer"},
		{backend.Record{Status: backend.Completed, Response: backend.Response{Tombstone: backend.TooLarge}}, "ErrTombstone"},
		{backend.Record{Status: backend.Completed, Response: backend.Response{Tombstone: backend.Abandoned}}, "ErrNeedsResolution"},
	} {
		if got := meaning(c.r); !strings.Contains(got, c.want) {
			t.Errorf("meaning(%v, %q) = %q, want something with %q", c.r.Status, c.r.Response.Tombstone, got, c.want)
		}
	}
}

func TestInspectNeedsAWholeKey(t *testing.T) {
	t.Parallel()
	for i := range ofKey {
		if i%2 == 0 {
			args := append([]string{"inspect", "memory:"}, ofKey[:i]...)
			_, errs := want(t, statusError, append(args, ofKey[i+2:]...)...)
			contains(t, "inspect without "+ofKey[i], errs, "-tenant, -actor and -key")
		}
	}
}

func contains(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%s printed\n%s\nwant something with %q", what, text, p)
		}
	}
}
