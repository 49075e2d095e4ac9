package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
)

// while runs f during the effect of a Transact.
func while(t *testing.T, b interface {
	Transact(context.Context, backend.Claim, func(context.Context, *sql.Tx, backend.Claimed) (backend.Effect, error)) (backend.Claimed, error)
}, key string, f func(),
) {
	t.Helper()
	_, err := b.Transact(t.Context(), claimOf(key), func(context.Context, *sql.Tx, backend.Claimed) (backend.Effect, error) {
		f()
		return backend.Effect{Response: created}, nil
	})
	if err != nil {
		t.Errorf("Transact(%s) = %v, want nil", key, err)
	}
}

// Claim.Wait: a duplicate of an uncommitted claim is told so and doesn't queue up
// for the file. Hard case 11.
func TestDuplicateOfARunningTransact(t *testing.T) {
	t.Parallel()
	b, _ := fresh(t)
	while(t, b, "key", func() {
		for name, call := range map[string]func() (backend.Claimed, error){
			"Claim":    func() (backend.Claimed, error) { return b.Claim(t.Context(), claimOf("key")) },
			"Transact": func() (backend.Claimed, error) { return b.Transact(t.Context(), claimOf("key"), noEffect) },
		} {
			began := time.Now()
			got, err := call()
			if err != nil || !got.Hidden || got.Acquired || got.Record.Key != claimOf("key").Key {
				t.Errorf("%s of a key whose claim is not committed = %+v, %v, want hidden", name, got, err)
			}
			if d := time.Since(began); d > time.Second {
				t.Errorf("%s without a wait took %v", name, d)
			}
		}
	})
	waiting := make(chan struct{})
	got := make(chan backend.Claimed, 8)
	b2, _ := fresh(t)
	while(t, b2, "key", func() {
		for range cap(got) {
			c := claimOf("key")
			c.Wait = time.Minute
			go func() {
				waiting <- struct{}{}
				r, err := b2.Transact(t.Context(), c, noEffect)
				if err != nil {
					t.Error(err)
				}
				got <- r
			}()
		}
		for range cap(got) {
			<-waiting
		}
	})
	for range cap(got) {
		if r := <-got; r.Acquired || r.Hidden || !r.Record.Response.Equal(created) {
			t.Errorf("Transact that waited = %+v, want the completed record", r)
		}
	}
}

// Fact S-5: a context that ends while the write waits takes it back.
func TestCancelledWhileWaiting(t *testing.T) {
	t.Parallel()
	b, _ := fresh(t)
	while(t, b, "key", func() {
		for name, call := range map[string]func(context.Context) error{
			"Claim":    func(ctx context.Context) error { _, err := b.Claim(ctx, claimOf("other")); return err },
			"Transact": func(ctx context.Context) error { _, err := b.Transact(ctx, claimOf("other"), noEffect); return err },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			began := time.Now()
			err := call(ctx)
			cancel()
			if !errors.Is(err, backend.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s with a context that ended = %v, want ErrUnavailable and the context's error", name, err)
			}
			if d := time.Since(began); d > time.Second {
				t.Errorf("%s returned after %v, want 20ms", name, d)
			}
		}
	})
	if _, err := b.Get(t.Context(), claimOf("other").Key); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("Get of what was unavailable = %v, want ErrNotFound", err)
	}
}

// A context that ends while the write is being made leaves the outcome open, and
// claiming again with the same id finds it (field report 8).
func TestCancelledWhileWriting(t *testing.T) {
	t.Parallel()
	b, _ := fresh(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	writing, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	b.SetClock(func() time.Time { // the transaction has begun when it asks for the time
		once.Do(func() {
			close(writing)
			<-goOn
		})
		return time.UnixMicro(time.Now().UnixMicro())
	})
	c := claimOf("key")
	got := make(chan error, 1)
	go func() {
		_, err := b.Claim(ctx, c)
		got <- err
	}()
	<-writing
	cancel()
	if err := <-got; err == nil || backend.NotApplied(err) || !errors.Is(err, context.Canceled) {
		t.Errorf("Claim cancelled while it was written = %v, want an unknown outcome with the context's error", err)
	}
	close(goOn)
	first := mustClaim(t, b, c)
	if again := mustClaim(t, b, c); again.Token != first.Token || again.Attempt != 1 {
		t.Errorf("Claim again = token %d, attempt %d, want %d and 1", again.Token, again.Attempt, first.Token)
	}
}

// Writes that gather while the file is busy share a transaction.
func TestGroupCommit(t *testing.T) {
	t.Parallel()
	b, db := fresh(t)
	const n = 40
	var wg sync.WaitGroup
	var base int
	if err := db.QueryRow("PRAGMA wal_checkpoint(NOOP)").Scan(new(int), &base, new(int)); err != nil {
		t.Fatal(err)
	}
	while(t, b, "key", func() {
		for i := range n {
			wg.Go(func() {
				if _, err := b.Claim(context.Background(), claimOf(fmt.Sprint("k", i))); err != nil {
					t.Error(err)
				}
			})
		}
		eventually(t, "all of them are pending", func() bool { return b.Pending() >= n })
	})
	wg.Wait()
	var busy, frames, moved int
	if err := db.QueryRow("PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &frames, &moved); err != nil {
		t.Fatal(err)
	}
	// Alone, each claim would log at least a page of the table and one of its index.
	if frames >= base+n {
		t.Errorf("pages logged for %d claims that gathered = %d, want fewer than one each", n, frames-base)
	}
	if got := count(t, db, "SELECT count(*) FROM idem_keys"); got != n+1 {
		t.Errorf("records = %d, want %d", got, n+1)
	}
}

// Fact S-16: a pool of one connection is enough for any number of callers.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	b, db := fresh(t)
	db.SetMaxOpenConns(1)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			c := claimOf(fmt.Sprint("k", i%8))
			c.Wait = time.Minute
			if i%2 == 0 {
				if _, err := b.Transact(context.Background(), c, noEffect); err != nil {
					t.Error(err)
				}
				return
			}
			got, err := b.Claim(context.Background(), c)
			if err != nil {
				t.Error(err)
			} else if got.Acquired {
				if err := b.Release(context.Background(), got.Record.Holder()); err != nil {
					t.Error(err)
				}
			}
			if _, err := b.Sweep(context.Background(), 10); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// A replay and a claim of somebody else's key write nothing and wait for nobody.
func TestAnswersWithoutTheLock(t *testing.T) {
	t.Parallel()
	b, db := fresh(t)
	l := mustClaim(t, b, claimOf("done")).Holder()
	if err := b.Complete(t.Context(), l, backend.Completion{Sequence: 1, Response: created}); err != nil {
		t.Fatal(err)
	}
	mustClaim(t, b, claimOf("running"))
	tx, err := db.BeginTx(t.Context(), nil) // holds the file for good
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	mismatch := claimOf("done")
	mismatch.Target.Path = "/other"
	for name, c := range map[string]backend.Claim{"completed": claimOf("done"), "in progress": claimOf("running"), "mismatch": mismatch} {
		got, err := b.Claim(ctx, c)
		if err != nil || got.Acquired || got.Hidden || got.Record.Attempt != 1 {
			t.Errorf("Claim(%s) while the file is locked = %+v, %v, want the record", name, got, err)
		}
		got, err = b.Transact(ctx, c, noEffect)
		if err != nil || got.Acquired || got.Hidden {
			t.Errorf("Transact(%s) while the file is locked = %+v, %v, want the record", name, got, err)
		}
	}
	if n, err := b.Sweep(ctx, 10); n != 0 || err != nil {
		t.Errorf("Sweep with nothing due while the file is locked = %d, %v, want 0", n, err)
	}
}
