package redis_test

import (
	"testing"

	"github.com/idem-go/idem/backend"
)

// Hashes of somebody else under the prefix, or broken ones, don't keep the others from
// being found.
func TestLapsedAmongForeignKeys(t *testing.T) {
	t.Parallel()
	b, client, _ := started(t)
	r := acquire(t, b, request("lapsed"))
	must(t, b.Checkpoint(t.Context(), r.Holder(), point(1, "p")))
	must(t, b.Release(t.Context(), r.Holder()))
	for name, locked := range map[string]string{b.KeyOf(request("broken").Key): "word", b.KeyOf(request("bare").Key): ""} {
		must(t, client.HSet(t.Context(), name, "status", "started", "operation", "o", "token", "1", "attempt", "1").Err())
		if locked != "" {
			must(t, client.HSet(t.Context(), name, "locked_until", locked).Err())
		}
	}
	var found []backend.Key
	if err := b.Lapsed(t.Context(), func(l backend.Lapse) bool { found = append(found, l.Key); return true }); err != nil {
		t.Fatalf("Lapsed = %v", err)
	}
	if len(found) != 1 || found[0] != r.Key {
		t.Errorf("Lapsed found %v, want the one record", found)
	}
}
