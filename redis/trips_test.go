package redis_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/redis"
)

// Every step of a record is one round trip.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	_, _, srv := started(t)
	proxy := srv.Proxy(t)
	b := newBackend(t, connect(t, srv.Via(proxy.Addr())), redis.WithPrefix(srv.Prefix))
	n := 0
	key := func() backend.Claim { n++; return request(fmt.Sprint("key-", n)) }
	var held backend.Record
	hold := func() { held = acquire(t, b, key()) }
	for _, tt := range []struct {
		name   string
		before func()
		do     func() error
	}{
		{"claim", func() {}, func() error { _, err := b.Claim(t.Context(), key()); return err }},
		{"renew", hold, func() error { return b.Renew(t.Context(), held.Holder(), time.Hour) }},
		{"checkpoint", hold, func() error { return b.Checkpoint(t.Context(), held.Holder(), point(1, "p")) }},
		{"complete", hold, func() error { return b.Complete(t.Context(), held.Holder(), completion("x")) }},
		{"release", hold, func() error { return b.Release(t.Context(), held.Holder()) }},
		{"replay", func() {
			hold()
			must(t, b.Complete(t.Context(), held.Holder(), completion("x")))
		}, func() error { _, err := b.Claim(t.Context(), request(held.Key.Value)); return err }},
		{"in progress", hold, func() error { _, err := b.Claim(t.Context(), request(held.Key.Value)); return err }},
		{"get", hold, func() error { _, err := b.Get(t.Context(), held.Key); return err }},
	} {
		tt.before()
		must(t, tt.do()) // the server learns the script
		tt.before()
		proxy.Reset()
		must(t, tt.do())
		if got := proxy.RoundTrips(); got != 1 {
			t.Errorf("round trips of %s = %d, want 1", tt.name, got)
		}
	}
}
