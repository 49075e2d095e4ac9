//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/sqlite"
)

func init() { roles["cramped"] = crampedRole }

// Field report 3: SIGSTOP past the lease, and another process took over. What the
// first one does when it wakes up is refused, and its answer is not published.
func TestPausedProcessLosesItsRecord(t *testing.T) {
	t.Parallel()
	paused, b, db := service(t, "Do")
	p := &payments{db: db}
	e := executor(t, b, idem.WithWait(time.Minute))
	if err := paused.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	res, err := idem.Do(t.Context(), e.Executor, intent("key-0001"), func(ctx context.Context, run *idem.Run) (string, error) {
		if err := paused.cmd.Process.Signal(syscall.SIGCONT); err != nil { // while this one still runs
			return "", err
		}
		paused.stdin.Close()
		paused.wantLine(t, `answer "", replayed false, lease lost true, error true`)
		return p.leased(ctx, run)
	})
	wantResult(t, "Do of another process", res, err, "payment 1", false, 2)
	res, err = idem.DoTx(t.Context(), e, intent("key-0001"), p.inTx)
	wantResult(t, "a retry", res, err, "payment 1", true, 2)
}

// A process that is stopped in its transaction keeps the file: others are told that
// the store is unavailable, and run nothing. Since nobody could take over, what it
// commits when it goes on is the answer.
func TestProcessPausedInItsTransaction(t *testing.T) {
	t.Parallel()
	paused, b, db := service(t, "DoTx", sqlite.WithBusyBudget(200*time.Millisecond))
	p := &payments{db: db}
	e := executor(t, b, idem.WithLease(time.Second))
	if err := paused.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := idem.DoTx(t.Context(), e, intent("key-0001"), p.inTx); !errors.Is(err, idem.ErrUnavailable) {
		t.Errorf("DoTx while the file is held by a stopped process = %v, want ErrUnavailable", err)
	}
	p.wantRuns(t, 0)
	if err := paused.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	paused.stdin.Close()
	paused.wantLine(t, `answer "by the child", replayed false, lease lost false, error false`)
	res, err := idem.DoTx(t.Context(), e, intent("key-0001"), p.inTx)
	wantResult(t, "DoTx after it", res, err, "by the child", true, 1)
	if n := charges(t, db); n != 1 {
		t.Errorf("charges = %d, want 1", n)
	}
}

// crampedRole runs requests whose COMMIT fails with an I/O error, because the log
// may not grow.
func crampedRole(path string) error {
	signal.Ignore(syscall.SIGXFSZ)
	ctx := context.Background()
	var free syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &free); err != nil {
		return err
	}
	cramped := func(yes bool) error {
		limit := free
		if yes {
			info, err := os.Stat(path + "-wal")
			if err != nil {
				return err
			}
			limit.Cur = uint64(info.Size()) + 100
		}
		return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit)
	}
	db, err := sqlite.Open(path)
	if err != nil {
		return err
	}
	defer db.Close()
	b, err := sqlite.New(db)
	if err != nil {
		return err
	}

	_, err = b.Transact(ctx, claimOf("adapter"), func(ctx context.Context, tx *sql.Tx, _ backend.Claimed) (backend.Effect, error) {
		return backend.Effect{Response: created}, errors.Join(charge(ctx, tx, "lost"), cramped(true))
	})
	e, ok := errors.AsType[*driver.Error](err)
	fmt.Printf("Transact: I/O error %v, surely not applied %v\n", ok && e.Code()&0xff == lib.SQLITE_IOERR, backend.NotApplied(err))

	ex, err := idem.NewTx(b, idem.WithLease(20*time.Second))
	if err != nil {
		return err
	}
	runs := 0
	res, err := idem.DoTx(ctx, ex, intent("key-0001"), func(ctx context.Context, tx *sql.Tx) (string, error) {
		runs++
		return fmt.Sprint("payment ", runs), errors.Join(charge(ctx, tx, "paid"), cramped(runs == 1))
	})
	fmt.Println("DoTx:", res.Value, res.Replayed, err, runs)
	runs = 0
	res, err = idem.Do(ctx, ex.Executor, intent("key-0002"), func(context.Context, *idem.Run) (string, error) {
		runs++
		time.AfterFunc(300*time.Millisecond, func() { _ = cramped(false) })
		return fmt.Sprint("payment ", runs), cramped(true)
	})
	fmt.Println("Do:", res.Value, res.Replayed, err, runs)
	return nil
}

// Fact S-15: a COMMIT that ends with an I/O error may have happened. It is looked at
// before anything runs again, and the answer is right.
func TestInputOutputErrorAtCommit(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	db := openFile(t, path)
	run(t, db, "CREATE TABLE ledger (who TEXT, amount INTEGER)")
	p := start(t, "cramped", path)
	p.wantLine(t, "Transact: I/O error true, surely not applied false")
	p.wantLine(t, "DoTx: payment 2 false <nil> 2")
	p.wantLine(t, "Do: payment 1 false <nil> 1")
	if n := charges(t, db); n != 1 {
		t.Errorf("charges = %d, want 1", n)
	}
	e := executor(t, newBackend(t, db))
	for key, want := range map[string]string{"key-0001": "payment 2", "key-0002": "payment 1"} {
		res, err := idem.DoTx(t.Context(), e, intent(key), (&payments{}).inTx)
		wantResult(t, "DoTx of a retry", res, err, want, true, 1)
	}
}
