package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/sqlite"
)

// shortLease is one that tests wait for.
const shortLease = 3 * time.Second

// serve is another process of a service that runs one request. Its effect says that
// it runs and goes on when its standard input is closed.
func serve(path, file string) error {
	ctx := context.Background()
	db, err := sqlite.Open(file)
	if err != nil {
		return err
	}
	defer db.Close()
	b, err := sqlite.New(db)
	if err != nil {
		return err
	}
	e, err := idem.NewTx(b, idem.WithLease(shortLease))
	if err != nil {
		return err
	}
	const insert = "INSERT INTO ledger (who, amount) VALUES ('child', 1)"
	wait := func(err error) (string, error) {
		fmt.Println("running", err)
		untilClosed(os.Stdin)
		return "by the child", err
	}
	call := func() (idem.Result[string], error) {
		if path == "DoTx" {
			return idem.DoTx(ctx, e, intent("key-0001"), func(ctx context.Context, tx *sql.Tx) (string, error) {
				_, err := tx.ExecContext(ctx, insert)
				return wait(err)
			})
		}
		return idem.Do(ctx, e.Executor, intent("key-0001"), func(ctx context.Context, _ *idem.Run) (string, error) {
			_, err := db.ExecContext(ctx, insert)
			return wait(err)
		})
	}
	res, err := call()
	for errors.Is(err, idem.ErrUnavailable) { // surely not done: the client tries again
		res, err = call()
	}
	fmt.Printf("answer %q, replayed %v, lease lost %v, error %v\n", res.Value, res.Replayed, errors.Is(err, idem.ErrLeaseLost), err != nil)
	return nil
}

// service starts a child whose effect runs, on a file of its own.
func service(t *testing.T, path string, opts ...sqlite.Option) (*process, *sqlite.Backend, *sql.DB) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "a.db")
	db := openFile(t, file)
	run(t, db, "CREATE TABLE ledger (who TEXT, amount INTEGER)")
	p := start(t, path, file)
	p.wantLine(t, "running <nil>")
	return p, newBackend(t, db, opts...), db
}

func (p *process) wantLine(t *testing.T, want string) {
	t.Helper()
	if got := p.line(t); got != want {
		t.Errorf("the child says %s, want %s", got, want)
	}
}

// Field report 1: kill -9 while the effect runs. On the leased path a retry is told
// to wait while the lease holds and takes over when it is over; on the transaction
// path nothing is left of the dead run and the retry needs no lease to end.
func TestKilledProcessIsTakenOver(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"Do", "DoTx"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			dead, b, db := service(t, path)
			p := &payments{db: db}
			e := executor(t, b, idem.WithLease(time.Minute), idem.WithRetryAfter(time.Minute))
			_ = dead.cmd.Process.Kill()
			_ = dead.cmd.Wait()
			if path == "DoTx" {
				res, err := idem.DoTx(t.Context(), e, intent("key-0001"), p.inTx)
				wantResult(t, "DoTx after the kill", res, err, "payment 1", false, 1)
				if n := charges(t, db); n != 1 {
					t.Errorf("charges = %d, want 1", n)
				}
				return
			}
			_, err := idem.Do(t.Context(), e.Executor, intent("key-0001"), p.leased)
			var busy *idem.InProgressError
			if !errors.As(err, &busy) || busy.RetryAfter <= 0 || busy.RetryAfter > shortLease {
				t.Errorf("Do while the dead run's lease holds = %v, want InProgressError with at most %v", err, shortLease)
			}
			p.wantRuns(t, 0)
			before, err := b.Get(t.Context(), keyOf(intent("key-0001")))
			if err != nil {
				t.Fatal(err)
			}
			until(t, b, before.Key)
			res, err := idem.Do(t.Context(), e.Executor, intent("key-0001"), p.leased)
			wantResult(t, "Do just after the lease", res, err, "payment 1", false, 2)
			after, err := b.Get(t.Context(), before.Key)
			if err != nil || after.UpdatedAt.Before(before.LockedUntil) || after.Token <= before.Token {
				t.Errorf("record after the takeover = %+v, %v, want a higher token, later than %v", after, err, before.LockedUntil)
			}
		})
	}
}
