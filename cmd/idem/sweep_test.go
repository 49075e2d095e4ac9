package main

import (
	"strings"
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
)

func TestSweep(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, s server) {
		sweep := func() string {
			t.Helper()
			out, _ := want(t, statusOK, s.args("sweep")...)
			return strings.TrimSpace(out)
		}
		if got := sweep(); got != "0" {
			t.Errorf("sweep of an empty store printed %q, want 0", got)
		}
		complete(t, s.b, acquire(t, s.b, request("alive")))
		c := request("abandoned")
		c.Lease, c.Retention, c.Abandon = time.Second, time.Second, time.Second
		must(t, s.b.Checkpoint(t.Context(), acquire(t, s.b, c), backend.Checkpoint{Sequence: 1, Point: "charged"}))

		// By the clock of the store: the first sweeps may come too early.
		deadline := time.After(time.Minute)
		for got := sweep(); got != "1"; got = sweep() {
			if got != "0" {
				t.Fatalf("sweep printed %q, want the 1 record that is over", got)
			}
			select {
			case <-deadline:
				t.Fatal("sweep prints 0 after a minute, want 1")
			default:
			}
		}
		if _, err := s.b.Get(t.Context(), request("alive").Key); err != nil {
			t.Errorf("Get of a record that is alive after a sweep = %v, want it", err)
		}
	})
}
