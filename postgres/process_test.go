package postgres_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/postgres"
)

// child is the environment variable that makes the test binary play another
// process of the service: "Do url" or "DoTx url".
const child = "IDEM_POSTGRES_TEST_CHILD"

// shortLease is one that tests wait for.
const shortLease = 3 * time.Second

// playRole is called by TestMain. It returns false in the process of the tests.
func playRole() bool {
	path, url, ok := strings.Cut(os.Getenv(child), " ")
	if !ok {
		return false
	}
	if err := serve(context.Background(), path, url); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	return true
}

// serve runs one request, whose effect says that it runs and goes on when its
// standard input is closed.
func serve(ctx context.Context, path, url string) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	b, err := postgres.New(pool)
	if err != nil {
		return err
	}
	e, err := idem.NewTx(b, idem.WithLease(shortLease))
	if err != nil {
		return err
	}
	effect := func(ctx context.Context, exec func(context.Context, string) error) (string, error) {
		err := exec(ctx, `INSERT INTO effects (key) VALUES ('by the child')`)
		fmt.Println("running", err)
		_, _ = os.Stdin.Read(make([]byte, 1))
		return "by the child", err
	}
	call := func() (idem.Result[string], error) {
		if path == "DoTx" {
			return idem.DoTx(ctx, e, intent("key-0001"), func(ctx context.Context, tx pgx.Tx) (string, error) {
				return effect(ctx, func(ctx context.Context, sql string) error { _, err := tx.Exec(ctx, sql); return err })
			})
		}
		return idem.Do(ctx, e.Executor, intent("key-0001"), func(ctx context.Context, _ *idem.Run) (string, error) {
			return effect(ctx, func(ctx context.Context, sql string) error { _, err := pool.Exec(ctx, sql); return err })
		})
	}
	res, err := call()
	for errors.Is(err, idem.ErrUnavailable) { // surely not done: the client tries again
		res, err = call()
	}
	fmt.Printf("answer %q, replayed %v, lease lost %v, error %v\n", res.Value, res.Replayed, errors.Is(err, idem.ErrLeaseLost), err != nil)
	return nil
}

// process is a running child.
type process struct {
	cmd   *osexec.Cmd
	stdin io.WriteCloser
	out   *bufio.Scanner
}

// start starts a child and waits until its effect runs.
func start(t *testing.T, path, url string) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: osexec.CommandContext(context.Background(), exe)}
	p.cmd.Env = append(os.Environ(), child+"="+path+" "+url)
	p.cmd.Stderr = os.Stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewScanner(stdout)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	p.wantLine(t, "running <nil>")
	return p
}

// kill is kill -9. Twice is fine.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func (p *process) wantLine(t *testing.T, want string) {
	t.Helper()
	if !p.out.Scan() {
		t.Fatalf("the child ended: %v", p.out.Err())
	}
	if got := p.out.Text(); got != want {
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
			b, pool, srv := migrated(t)
			effectsTable(t, pool)
			p := &payments{pool: pool}
			e := executor(t, b, idem.WithLease(time.Minute), idem.WithRetryAfter(time.Minute))
			dead := start(t, path, srv.URL)
			dead.kill()
			if path == "DoTx" {
				res, err := idem.DoTx(t.Context(), e, intent("key-0001"), p.inTx)
				wantResult(t, "DoTx after the kill", res, err, "payment 1", false, 1)
				wantEffects(t, pool, 1)
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
