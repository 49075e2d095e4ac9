package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
)

// PG-27: completions stay on their page. Renewals and checkpoints do too.
func TestHotUpdates(t *testing.T) {
	t.Parallel()
	b, pool, _ := migrated(t)
	const batches, together = 100, 8
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	bodies := rand.New(rand.NewPCG(seed, 0))
	for i := range batches {
		var wg sync.WaitGroup
		var recs [together]backend.Record
		for j := range together {
			wg.Go(func() { recs[j] = acquire(t, b, request(fmt.Sprintf("key-%d-%d", i, j))) })
		}
		wg.Wait()
		for j := range together {
			body := make([]byte, 300)
			for k := range body {
				body[k] = byte(bodies.Uint32())
			}
			wg.Go(func() {
				l := recs[j].Holder()
				if err := b.Renew(t.Context(), l, time.Hour); err != nil {
					t.Errorf("Renew = %v, want nil", err)
				}
				if err := b.Complete(t.Context(), l, completion(string(body))); err != nil {
					t.Errorf("Complete = %v, want nil", err)
				}
			})
		}
		wg.Wait()
	}
	pool.Reset() // sessions report what they did at their end
	var updates, hot int64
	eventually(t, "the statistics are in", func() bool {
		err := pool.QueryRow(t.Context(), `SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'idem_keys'`).Scan(&updates, &hot)
		return err == nil && updates >= 2*batches*together
	})
	t.Logf("%d of %d updates are HOT", hot, updates)
	if hot*100 < updates*70 {
		t.Errorf("HOT updates = %d of %d, want at least 70 %%", hot, updates)
	}
}
