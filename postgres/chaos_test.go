package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/internal/testenv"
)

// seed is random, or that of a run to be repeated: IDEM_TEST_SEED=1.
func seed(t testing.TB) uint64 {
	t.Helper()
	s := rand.Uint64()
	if v := os.Getenv("IDEM_TEST_SEED"); v != "" {
		var err error
		if s, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("IDEM_TEST_SEED=%d", s)
	return s
}

// answers are what callers were told, by key.
type answers struct {
	mu sync.Mutex
	m  map[string]string
}

// got records an answer, and tells of one that contradicts an earlier one.
func (a *answers) got(t *testing.T, key, value string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if was, ok := a.m[key]; ok && was != value {
		t.Errorf("%s was answered with %s and with %s", key, was, value)
	}
	a.m[key] = value
}

// Promises 1 to 5 on a network that breaks at every kind of moment: many processes
// retry the same requests until they have an answer. No two answers of one request
// differ, none is taken back, no key is stuck, and on the transaction path there is
// exactly one effect.
func TestConnectionsThatBreakAllTheTime(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"DoTx", "Do"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			direct, pool, srv := migrated(t)
			effectsTable(t, pool)
			random := rand.New(rand.NewPCG(seed(t), 0))
			proxy := srv.Proxy(t)
			told := answers{m: make(map[string]string)}
			const keys, processes = 60, 4
			orders := make([][]int, processes)
			for i := range orders {
				orders[i] = random.Perm(keys)
			}

			// Connections are cut before or after whatever is sent, and every other time
			// where it hurts.
			ctx, cancel := context.WithCancel(t.Context())
			var wreckers, callers sync.WaitGroup
			cuts := 0
			wreckers.Go(func() {
				for ctx.Err() == nil {
					rule := testenv.Rule{On: testenv.ToServer, Match: commits, Do: cutWhere(random.IntN(3) > 0), Skip: random.IntN(3)}
					if path == "Do" || random.IntN(2) == 0 {
						rule.Match, rule.Skip = func(u testenv.Unit) bool { return u.Type != 0 }, random.IntN(30)
					}
					cut := proxy.Add(rule)
					select {
					case <-cut.Fired():
						cuts++
					case <-ctx.Done():
					}
				}
			})
			for _, order := range orders {
				b := newBackend(t, open(t, srv.Via(proxy.Addr()), size(4)))
				e := executor(t, b, idem.WithLease(2*time.Second), idem.WithWait(100*time.Millisecond))
				callers.Go(func() {
					for _, n := range order {
						r := intent(fmt.Sprintf("key-%04d", n))
						var res idem.Result[string]
						err := idem.ErrUnavailable
						for errors.Is(err, idem.ErrUnavailable) || errors.Is(err, idem.ErrUnknownOutcome) ||
							errors.Is(err, idem.ErrInProgress) || errors.Is(err, idem.ErrLeaseLost) {
							if res, err = breaks(ctx, e, pool, path, r); t.Failed() {
								return
							}
						}
						if err != nil {
							t.Errorf("%s = %v, want an answer or an error to retry", path, err)
							return
						}
						told.got(t, r.Key, res.Value)
					}
				})
			}
			callers.Wait()
			cancel()
			wreckers.Wait()
			t.Logf("%d cuts, %d effects of %d requests", cuts, effects(t, pool), keys)
			for key, want := range told.m {
				r := wantCompleted(t, direct, key)
				if n := value[int](t, pool, `SELECT count(*) FROM effects WHERE key = $1`, key); path == "DoTx" && n != 1 {
					t.Errorf("effects of %s = %d, want 1", key, n)
				}
				if n := value[int](t, pool, `SELECT count(*) FROM effects WHERE key = $1 AND note = $2`, key, want); n != 1 {
					t.Errorf("%s was answered with %s, which no effect did", key, want)
				}
				if got := string(r.Response.Body); got != strconv.Quote(want) {
					t.Errorf("%s was answered with %s and its record has %s", key, want, got)
				}
			}
		})
	}
}

// breaks runs a request whose effect leaves a row with the answer in it.
func breaks(ctx context.Context, e *idem.TxExecutor[pgx.Tx], pool *pgxpool.Pool, path string, r idem.Request) (idem.Result[string], error) {
	const insert = `INSERT INTO effects (key, note) VALUES ($1, $2)`
	answer := fmt.Sprintf("%x", newID())
	if path == "DoTx" {
		return idem.DoTx(ctx, e, r, func(ctx context.Context, tx pgx.Tx) (string, error) {
			answer += "+" // another run, another answer
			_, err := tx.Exec(ctx, insert, r.Key, answer)
			if err != nil {
				err = fmt.Errorf("%w: %w", idem.ErrUnavailable, err)
			}
			return answer, err
		})
	}
	return idem.Do(ctx, e.Executor, r, func(ctx context.Context, _ *idem.Run) (string, error) {
		_, err := pool.Exec(ctx, insert, r.Key, answer)
		return answer, err
	})
}

func wantCompleted(t *testing.T, b backend.Backend, key string) backend.Record {
	t.Helper()
	r, err := b.Get(t.Context(), keyOf(intent(key)))
	if err != nil || r.Status != backend.Completed {
		t.Errorf("Get(%s) = %v, %v, want a completed record", key, r.Status, err)
	}
	return r
}
