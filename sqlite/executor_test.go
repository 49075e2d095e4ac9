package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/sqlite"
)

// intent is a request of one user, as a service gets it.
func intent(key string) idem.Request {
	return idem.Request{
		Scope: idem.Scope{Tenant: "tenant", Actor: "actor"}, Key: key, Operation: "POST /payments",
		Method: "POST", Path: "/payments", Content: idem.Content{Type: "application/json", Body: []byte(`{"amount":5}`)},
	}
}

func keyOf(r idem.Request) backend.Key {
	return backend.Key{Tenant: r.Scope.Tenant, Actor: r.Scope.Actor, Value: r.Key}
}

func executor(t testing.TB, b *sqlite.Backend, opts ...idem.Option) *idem.TxExecutor[*sql.Tx] {
	t.Helper()
	e, err := idem.NewTx(b, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// payments are effects that leave a row each, and are counted.
type payments struct {
	db   *sql.DB
	runs atomic.Int32
}

func (p *payments) inTx(ctx context.Context, tx *sql.Tx) (string, error) {
	n := p.runs.Add(1)
	return fmt.Sprint("payment ", n), charge(ctx, tx, "paid")
}

func (p *payments) leased(ctx context.Context, _ *idem.Run) (string, error) {
	n := p.runs.Add(1)
	_, err := p.db.ExecContext(ctx, "INSERT INTO ledger (who, amount) VALUES ('paid', 1)")
	return fmt.Sprint("payment ", n), err
}

func (p *payments) wantRuns(t testing.TB, want int32) {
	t.Helper()
	if n := p.runs.Load(); n != want {
		t.Errorf("the effect ran %d times, want %d", n, want)
	}
}

func wantResult(t testing.TB, call string, res idem.Result[string], err error, value string, replayed bool, attempt int) {
	t.Helper()
	if want := (idem.Result[string]{Value: value, Replayed: replayed, Attempt: attempt}); err != nil || res != want {
		t.Errorf("%s = %+v, %v, want %+v", call, res, err, want)
	}
}

// eventually polls a condition.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	limit, tick := time.NewTimer(20*time.Second), time.NewTicker(time.Millisecond)
	defer limit.Stop()
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("%s: not after 20s", what)
		}
	}
}

// until waits until the lease of a key lapses.
func until(t testing.TB, b backend.Backend, k backend.Key) {
	t.Helper()
	eventually(t, "the lease lapses", func() bool {
		r, err := b.Get(t.Context(), k)
		return err == nil && r.LeaseLeft == 0
	})
}

// Field report 23 and fact S-10: the host's clock is an hour off and its zone is not
// UTC, but it is one for all who use the file, and only it decides.
func TestClockOfTheHost(t *testing.T) {
	t.Parallel()
	for _, offset := range []time.Duration{time.Hour, -time.Hour} {
		path := filepath.Join(t.TempDir(), "a.db")
		db := openFile(t, path)
		run(t, db, "CREATE TABLE ledger (who TEXT, amount INTEGER)")
		zone := time.FixedZone("far", 12*60*60+45*60)
		moved := func() time.Time { return time.UnixMicro(time.Now().Add(offset).UnixMicro()).In(zone) }
		b, b2 := newBackend(t, db), newBackend(t, openFile(t, path))
		b.SetClock(moved)
		b2.SetClock(func() time.Time { return moved().UTC() })
		p := &payments{db: db}
		const lease = time.Minute
		opts := []idem.Option{idem.WithLease(lease), idem.WithRetryAfter(time.Hour), idem.WithWait(0)}
		e, rival := executor(t, b, opts...), executor(t, b2, opts...)
		res, err := idem.Do(t.Context(), e.Executor, intent("key-0001"), func(ctx context.Context, run *idem.Run) (string, error) {
			_, err := idem.Do(t.Context(), rival.Executor, intent("key-0001"), p.leased)
			var busy *idem.InProgressError
			if !errors.As(err, &busy) || busy.RetryAfter < lease/2 || busy.RetryAfter > lease {
				t.Errorf("Do of a duplicate = %v, want InProgressError with what is left of the lease", err)
			}
			answer, err := p.leased(ctx, run)
			return answer, errors.Join(err, ctx.Err())
		})
		wantResult(t, "Do", res, err, "payment 1", false, 1)
		res, err = idem.DoTx(t.Context(), e, intent("key-0002"), p.inTx)
		wantResult(t, "DoTx", res, err, "payment 2", false, 1)
		short := executor(t, b, idem.WithLease(2*time.Second), idem.WithWait(0))
		_, err = idem.Do(t.Context(), short.Executor, intent("key-0003"), func(context.Context, *idem.Run) (string, error) {
			return "", idem.MaybeDone(errBoom)
		})
		if !errors.Is(err, errBoom) {
			t.Errorf("Do = %v, want the effect's error", err)
		}
		if n, err := rival.Sweep(t.Context()); n != 0 || err != nil {
			t.Errorf("Sweep = %d, %v, want nothing to be over", n, err)
		}
		for key, want := range map[string]string{"key-0001": "payment 1", "key-0002": "payment 2"} {
			res, err := idem.Do(t.Context(), rival.Executor, intent(key), p.leased)
			wantResult(t, "Do of a retry", res, err, want, true, 1)
		}
		until(t, b2, keyOf(intent("key-0003")))
		res, err = idem.Do(t.Context(), rival.Executor, intent("key-0003"), p.leased)
		wantResult(t, "Do after the lease", res, err, "payment 3", false, 2)
	}
}

var errBoom = errors.New("boom")

// Field report 5: sweepers and retries work on the same expired records. Whatever
// the sweepers saw before, a request that was answered stays answered.
func TestSweepersAgainstRetries(t *testing.T) {
	t.Parallel()
	b, db := withLedger(t)
	ctx, cancel := context.WithCancel(t.Context())
	var sweepers, callers sync.WaitGroup
	for range 2 {
		s := executor(t, b)
		sweepers.Go(func() {
			for ctx.Err() == nil {
				if _, err := s.Sweep(t.Context()); err != nil {
					t.Errorf("Sweep = %v, want nil", err)
				}
			}
		})
	}
	e, p := executor(t, b), &payments{db: db}
	const keys, rounds = 4, 25
	for k := range keys {
		callers.Go(func() {
			r := intent(fmt.Sprint("key-000", k))
			for range rounds {
				res, err := idem.DoTx(t.Context(), e, r, p.inTx)
				if err != nil || res.Replayed {
					t.Errorf("DoTx after the retention = %+v, %v, want a fresh run", res, err)
				}
				again, err := idem.Do(t.Context(), e.Executor, r, p.leased)
				wantResult(t, "Do of a retry", again, err, res.Value, true, res.Attempt)
				run(t, db, "UPDATE idem_keys SET completed_at = 1, expires_at = 1 WHERE key = ?", r.Key)
			}
		})
	}
	callers.Wait()
	cancel()
	sweepers.Wait()
	p.wantRuns(t, keys*rounds)
}

// A store that can't be used says so with ErrUnavailable and what to do, before any
// effect runs.
func TestNoEffectWithoutAStore(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spoil func(t *testing.T, db *sql.DB)
		says  string
	}{
		"a closed pool": {func(_ *testing.T, db *sql.DB) { db.Close() }, ""},
		"no table":      {func(t *testing.T, db *sql.DB) { run(t, db, "DROP TABLE idem_keys") }, "sqlite.Migrate"},
		"too old a schema": {func(t *testing.T, db *sql.DB) {
			run(t, db, "ALTER TABLE idem_keys DROP COLUMN payload")
			run(t, db, "UPDATE idem_keys_meta SET version = 0")
		}, "sqlite.Migrate"},
		"a file that stays locked": {func(t *testing.T, db *sql.DB) {
			tx, err := db.BeginTx(context.Background(), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { tx.Rollback() })
		}, "shorter"},
	} {
		for _, warm := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, used before %v", name, warm), func(t *testing.T) {
				t.Parallel()
				db := openFile(t, filepath.Join(t.TempDir(), "a.db"))
				run(t, db, "CREATE TABLE ledger (who TEXT, amount INTEGER)")
				b := newBackend(t, db, sqlite.WithBusyBudget(200*time.Millisecond))
				e, p := executor(t, b, idem.WithLease(8*time.Second)), &payments{db: db}
				if warm {
					if _, err := idem.DoTx(t.Context(), e, intent("key-0000"), p.inTx); err != nil {
						t.Fatal(err)
					}
					p.runs.Store(0)
				}
				tt.spoil(t, db)
				_, do := idem.Do(t.Context(), e.Executor, intent("key-0001"), p.leased)
				_, doTx := idem.DoTx(t.Context(), e, intent("key-0001"), p.inTx)
				for call, err := range map[string]error{"Do": do, "DoTx": doTx} {
					if !errors.Is(err, idem.ErrUnavailable) || errors.Is(err, idem.ErrUnknownOutcome) || !strings.Contains(err.Error(), tt.says) {
						t.Errorf("%s with %s = %v, want ErrUnavailable that says %q", call, name, err, tt.says)
					}
				}
				p.wantRuns(t, 0)
			})
		}
	}
}

// Field report 5: what a sweep found without the lock is looked at again under it.
func TestSweepLooksAgainUnderTheLock(t *testing.T) {
	t.Parallel()
	b, db := withLedger(t)
	e, p := executor(t, b), &payments{db: db}
	var looks atomic.Int32
	b.SetClock(func() time.Time {
		looks.Add(1)
		return time.UnixMicro(time.Now().UnixMicro())
	})
	r := intent("key-0001")
	for range 20 {
		swept := make(chan struct{})
		res, err := idem.DoTx(t.Context(), e, r, func(ctx context.Context, tx *sql.Tx) (string, error) {
			before := looks.Load()
			go func() {
				defer close(swept)
				if _, err := b.Sweep(t.Context(), 10); err != nil {
					t.Errorf("Sweep = %v, want nil", err)
				}
			}()
			eventually(t, "the sweep looks", func() bool { return looks.Load() > before })
			count(t, db, "SELECT count(*) FROM idem_keys") // about as long as its look takes
			return p.inTx(ctx, tx)
		})
		<-swept
		again, againErr := idem.DoTx(t.Context(), e, r, p.inTx)
		wantResult(t, "DoTx of a retry", again, errors.Join(err, againErr), res.Value, true, 1)
		run(t, db, "UPDATE idem_keys SET completed_at = 1, expires_at = 1")
	}
	p.wantRuns(t, 20)
}
