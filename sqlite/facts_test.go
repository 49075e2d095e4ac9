package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/idem-go/idem/backend"
)

// Fact S-2: a deferred transaction that read before somebody else wrote can't
// write any more, whatever the busy_timeout.
func TestBindInADeferredTransaction(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	other := newBackend(t, openFile(t, path))
	db := dsn(t, path+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)") // no _txlock
	b := newBackend(t, db)

	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	var n int
	if err := tx.QueryRow("SELECT count(*) FROM idem_keys").Scan(&n); err != nil {
		t.Fatal(err)
	}
	mustClaim(t, other, claimOf("other"))
	_, err = b.Bind(tx).Claim(t.Context(), claimOf("key"))
	if !errors.Is(err, backend.ErrRetryTx) || !backend.NotApplied(err) {
		t.Errorf("Claim in a stale transaction = %v, want ErrRetryTx", err)
	}
	if e, ok := errors.AsType[*driver.Error](err); !ok || e.Code() != lib.SQLITE_BUSY_SNAPSHOT {
		t.Errorf("Claim in a stale transaction = %v, want the driver's error with code 517 within", err)
	}
	tx.Rollback()

	// As the first statement it takes the lock, so that nobody can get between.
	tx, err = db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	got, err := b.Bind(tx).Claim(t.Context(), claimOf("key"))
	if err != nil || !got.Acquired {
		t.Fatalf("Claim as the first statement = %+v, %v, want acquired", got, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := other.Claim(ctx, claimOf("third")); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("Claim elsewhere meanwhile = %v, want ErrUnavailable", err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// The backend's own transactions are immediate, also on a pool whose DSN doesn't
// say so.
func TestDeferredPool(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	other := openFile(t, path)
	run(t, other, "CREATE TABLE ledger (who TEXT, amount INTEGER)")
	b := newBackend(t, dsn(t, path+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)"))
	_, err := b.Transact(t.Context(), claimOf("key"), func(ctx context.Context, tx *sql.Tx, _ backend.Claimed) (backend.Effect, error) {
		ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		if _, err := other.ExecContext(ctx, "INSERT INTO ledger VALUES ('other', 1)"); err == nil {
			t.Error("another connection wrote during the effect")
		}
		return backend.Effect{Response: created}, nil
	})
	if err != nil {
		t.Errorf("Transact = %v, want nil", err)
	}
}

// Fact S-7: what a claim or a completion returned is committed.
func TestAcknowledgedIsVisible(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	b, other := newBackend(t, openFile(t, path)), newBackend(t, openFile(t, path))
	for range 20 {
		c := claimOf("key")
		l := mustClaim(t, b, c).Holder()
		if r, err := other.Get(t.Context(), c.Key); err != nil || r.ClaimID != c.ID {
			t.Fatalf("Get from another pool after Claim = %+v, %v, want the record", r, err)
		}
		if err := b.Release(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		if _, err := other.Get(t.Context(), c.Key); !errors.Is(err, backend.ErrNotFound) {
			t.Fatalf("Get from another pool after Release = %v, want ErrNotFound", err)
		}
	}
}

// Fact S-9: a key as TEXT and as BLOB would be two, and NULL no key at all.
func TestColumnsAreStrict(t *testing.T) {
	t.Parallel()
	b, db := fresh(t)
	c := claimOf("Key")
	c.Payload = []byte("payload")
	l := mustClaim(t, b, c).Holder()
	if err := b.Checkpoint(t.Context(), l, backend.Checkpoint{Sequence: 1, Point: "p", State: []byte("state")}); err != nil {
		t.Fatal(err)
	}
	if n := count(t, db, `SELECT count(*) FROM idem_keys WHERE typeof(tenant) = 'text' AND typeof(actor) = 'text' AND typeof(key) = 'text'
		AND typeof(fingerprint) = 'blob' AND typeof(claim_id) = 'blob' AND typeof(state) = 'blob' AND typeof(payload) = 'blob'`); n != 1 {
		t.Error("columns of a claimed record don't have their types")
	}
	for _, value := range []string{"CAST('blob' AS BLOB)", "NULL"} {
		_, err := db.Exec("UPDATE idem_keys SET key = " + value)
		if e, ok := errors.AsType[*driver.Error](err); !ok || e.Code()&0xff != lib.SQLITE_CONSTRAINT {
			t.Errorf("UPDATE of the key to %s = %v, want a constraint error", value, err)
		}
	}
	for _, other := range []string{"key", "Key ", " Key", "KEY"} { // field report 15
		mustClaim(t, b, claimOf(other))
	}
}

// Fact S-10: times are numbers, in one zone, and what is stored is what was
// answered.
func TestTimesAreMicroseconds(t *testing.T) {
	t.Parallel()
	b, db := fresh(t)
	zone := time.FixedZone("far", 13*60*60)
	now := time.Now()
	b.SetClock(func() time.Time { return time.UnixMicro(now.UnixMicro()).In(zone) })
	c := claimOf("key")
	c.Lease = time.Minute + time.Nanosecond // rounded up, never down
	r := mustClaim(t, b, c)
	var locked, created int64
	var lease int64
	if err := db.QueryRow("SELECT locked_until, created_at, lease FROM idem_keys WHERE typeof(locked_until) = 'integer'").Scan(&locked, &created, &lease); err != nil {
		t.Fatal(err)
	}
	if want := now.UnixMicro(); created != want || locked != want+60_000_001 || lease != 60_000_001 {
		t.Errorf("created_at, locked_until, lease = %d, +%d, %d, want %d, +60000001, 60000001", created, locked-created, lease, want)
	}
	got, err := b.Get(t.Context(), c.Key)
	if err != nil || !got.LockedUntil.Equal(r.LockedUntil) || got.LeaseLeft != r.LeaseLeft {
		t.Errorf("Get = locked until %v (%v left), %v, want what Claim said: %v (%v)", got.LockedUntil, got.LeaseLeft, err, r.LockedUntil, r.LeaseLeft)
	}
}

// Tokens grow when the clock stands still or goes back, also after the record is
// gone.
func TestTokensGrowWithoutTheClock(t *testing.T) {
	t.Parallel()
	b, _ := fresh(t)
	now := time.Now()
	var last backend.Token
	for i := range 5 {
		b.SetClock(func() time.Time { return time.UnixMicro(now.UnixMicro()).Add(-time.Duration(i) * time.Hour) })
		r := mustClaim(t, b, claimOf("key"))
		if r.Token <= last {
			t.Errorf("token = %d after %d, want a higher one", r.Token, last)
		}
		last = r.Token
		if err := b.Release(t.Context(), r.Holder()); err != nil {
			t.Fatal(err)
		}
	}
}

// Fact S-14: a reader keeps the log from being moved; after a sweep it is small
// again.
func TestSweepCutsTheLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	db := openFile(t, path)
	b := newBackend(t, db)
	start := time.Now()
	b.SetClock(func() time.Time { return time.UnixMicro(start.UnixMicro()) })

	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true}) // deferred: a reader
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	var n int
	if err := tx.QueryRow("SELECT count(*) FROM idem_keys").Scan(&n); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, 1<<20)
	for range 24 {
		c := claimOf("key")
		c.Lease, c.Retention, c.Abandon = time.Millisecond, time.Millisecond, time.Millisecond
		l := mustClaim(t, b, c).Holder()
		if err := b.Complete(t.Context(), l, backend.Completion{Sequence: 1, Response: backend.Response{Body: body}}); err != nil {
			t.Fatal(err)
		}
		start = start.Add(time.Second)
	}
	size := func() int64 {
		fi, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return fi.Size()
	}
	if size() < 16<<20 {
		t.Fatalf("log = %d bytes, want more than 16 MiB while a reader keeps it", size())
	}
	tx.Rollback()
	if n, err := b.Sweep(t.Context(), 10); n != 1 || err != nil {
		t.Fatalf("Sweep = %d, %v, want 1", n, err)
	}
	if size() != 0 {
		t.Errorf("log after the sweep = %d bytes, want 0", size())
	}
}

// A disk that is full before the COMMIT: surely nothing was done, and a write that
// fits goes on, also out of the same group.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	openFile(t, path)
	db := dsn(t, path+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=max_page_count(200)&_txlock=immediate")
	b := newBackend(t, db)
	small, large := mustClaim(t, b, claimOf("small")).Holder(), mustClaim(t, b, claimOf("large")).Holder()

	tx, err := db.BeginTx(t.Context(), nil) // so that the two gather
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	errs := make(chan error, 2)
	go func() { errs <- b.Complete(t.Context(), small, backend.Completion{Sequence: 1, Response: created}) }()
	go func() {
		err := b.Complete(t.Context(), large, backend.Completion{Sequence: 1, Response: backend.Response{Body: make([]byte, 1<<20)}})
		if !errors.Is(err, backend.ErrUnavailable) {
			err = errors.Join(errors.New("Complete beyond the disk's end, want ErrUnavailable"), err)
		} else {
			err = nil
		}
		errs <- err
	}()
	eventually(t, "both are pending", func() bool { return b.Pending() == 2 })
	tx.Rollback()
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if r, err := b.Get(t.Context(), small.Key); err != nil || r.Status != backend.Completed {
		t.Errorf("Get(small) = %v, %v, want completed", r.Status, err)
	}
	if r, err := b.Get(t.Context(), large.Key); err != nil || r.Status != backend.Started {
		t.Errorf("Get(large) = %v, %v, want started", r.Status, err)
	}
	_, err = b.Transact(t.Context(), claimOf("tx"), func(ctx context.Context, tx *sql.Tx, _ backend.Claimed) (backend.Effect, error) {
		return backend.Effect{Response: backend.Response{Body: make([]byte, 1<<20)}}, nil
	})
	if !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("Transact beyond the disk's end = %v, want ErrUnavailable", err)
	}
	mustClaim(t, b, claimOf("another")) // the connection is as good as new
}

// A deferred foreign key refuses the COMMIT: surely not applied.
func TestRefusedCommit(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	run(t, openFile(t, path), `CREATE TABLE account (id INTEGER PRIMARY KEY);
		CREATE TABLE entry (account INTEGER REFERENCES account DEFERRABLE INITIALLY DEFERRED)`)
	b := newBackend(t, dsn(t, path+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=foreign_keys(1)&_txlock=immediate"))
	_, err := b.Transact(t.Context(), claimOf("key"), func(ctx context.Context, tx *sql.Tx, _ backend.Claimed) (backend.Effect, error) {
		_, err := tx.ExecContext(ctx, "INSERT INTO entry VALUES (1)")
		return backend.Effect{Response: created}, err
	})
	if !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("Transact with a violated deferred foreign key = %v, want ErrInvalid", err)
	}
	mustClaim(t, b, claimOf("key"))
}
