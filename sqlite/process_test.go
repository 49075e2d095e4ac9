package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/sqlite"
)

// child is the environment variable that makes the test binary play another
// process: "role path".
const child = "IDEM_SQLITE_TEST_CHILD"

var roles = map[string]func(path string) error{
	"migrate": migrateRole,
	"write":   writeRole,
	"hold":    holdRole,
	"crash":   crashRole,
	"Do":      func(path string) error { return serve("Do", path) },
	"DoTx":    func(path string) error { return serve("DoTx", path) },
}

// playRole is called by TestMain. It returns false in the process of the tests.
func playRole() bool {
	role, path, ok := strings.Cut(os.Getenv(child), " ")
	if !ok {
		return false
	}
	if err := roles[role](path); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	return true
}

// process is a running child.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Scanner
}

func start(t *testing.T, role, path string) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.CommandContext(context.Background(), exe)}
	p.cmd.Env = append(os.Environ(), child+"="+role+" "+path)
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
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	return p
}

// untilClosed waits for the parent's sign.
func untilClosed(r io.Reader) { _, _ = r.Read(make([]byte, 1)) }

// line is the next line that the child prints.
func (p *process) line(t *testing.T) string {
	t.Helper()
	if !p.out.Scan() {
		t.Fatalf("the child ended: %v", p.out.Err())
	}
	if strings.HasPrefix(p.out.Text(), "error:") {
		t.Fatalf("the child: %s", p.out.Text())
	}
	return p.out.Text()
}

func openRole(path string, opts ...sqlite.Option) (*sqlite.Backend, func(), error) {
	db, err := sqlite.Open(path)
	if err != nil {
		return nil, nil, err
	}
	if err := sqlite.Migrate(context.Background(), db); err != nil {
		return nil, nil, err
	}
	b, err := sqlite.New(db, opts...)
	return b, func() { db.Close() }, err
}

func migrateRole(path string) error {
	fmt.Println("ready")
	untilClosed(os.Stdin) // all start at once
	b, stop, err := openRole(path)
	if err != nil {
		return err
	}
	defer stop()
	_, err = b.Claim(context.Background(), claimOf("shared"))
	fmt.Println("done")
	return err
}

func TestTenProcessesMigrateAtOnce(t *testing.T) { // fact S-3
	t.Parallel()
	for name, records := range map[string]int{"a new file": 1, "version 1": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "a.db")
			if records == 2 {
				oldFile(t, path)
			}
			migrateAtOnce(t, path, records)
		})
	}
}

func migrateAtOnce(t *testing.T, path string, records int) {
	t.Helper()
	ps := make([]*process, 10)
	for i := range ps {
		ps[i] = start(t, "migrate", path)
	}
	for _, p := range ps {
		p.line(t)
	}
	for _, p := range ps {
		p.stdin.Close()
	}
	for _, p := range ps {
		p.line(t)
	}
	db := openFile(t, path)
	if n := count(t, db, "SELECT count(*) FROM idem_keys"); n != records {
		t.Errorf("records = %d, want %d", n, records)
	}
	if d, err := newBackend(t, db).Describe(t.Context()); err != nil || d.Schema != sqlite.Version {
		t.Errorf("schema = %d, %v, want %d", d.Schema, err, sqlite.Version)
	}
}

const (
	writers    = 64 // per process
	sharedKeys = 60
	ownKeys    = 5 // per writer
)

// patient is for machines whose disk takes seconds for an fsync, of which a
// transaction can need several.
var patient = sqlite.WithBusyBudget(30 * time.Second)

// contend claims and completes every shared key and keys of its own, from many
// goroutines. It returns which shared keys it got and the longest call.
func contend(b *sqlite.Backend, who string) (got int64, longest time.Duration, err error) {
	var (
		acquired atomic.Int64
		slowest  atomic.Int64
		wg       sync.WaitGroup
		mu       sync.Mutex
		errs     []error
	)
	one := func(key string, own bool) error {
		defer func(start time.Time) {
			d := int64(time.Since(start))
			for {
				old := slowest.Load()
				if d <= old || slowest.CompareAndSwap(old, d) {
					return
				}
			}
		}(time.Now())
		c, err := b.Claim(context.Background(), claimOf(key))
		switch {
		case err != nil:
			return err
		case !c.Acquired && own:
			return errors.New("own key not acquired")
		case !c.Acquired:
			return nil
		case !own:
			acquired.Add(1)
		}
		return b.Complete(context.Background(), c.Record.Holder(), backend.Completion{Sequence: 1, Response: created})
	}
	for w := range writers {
		wg.Go(func() {
			for i := range sharedKeys {
				if err := one(fmt.Sprint("shared-", (i+w)%sharedKeys), false); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
				if i >= ownKeys {
					continue
				}
				if err := one(fmt.Sprint(who, "-", w, "-", i), true); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return acquired.Load(), time.Duration(slowest.Load()), errors.Join(errs...)
}

func writeRole(path string) error {
	b, stop, err := openRole(path, patient)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Println("ready")
	untilClosed(os.Stdin)
	n, longest, err := contend(b, "child")
	if err != nil {
		return err
	}
	fmt.Println(n, longest.Microseconds())
	return nil
}

// Field report 25, facts S-2, S-3 and S-4: nobody sees SQLITE_BUSY, every key is
// acquired once.
func TestTwoProcessesWithManyWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	p := start(t, "write", path)
	b := newBackend(t, openFile(t, path), patient)
	p.line(t)
	p.stdin.Close()
	n, longest, err := contend(b, "parent")
	if err != nil {
		t.Errorf("two processes, %d goroutines each: %v", writers, err)
	}
	var childN, childMicros int64
	if _, err := fmt.Sscan(p.line(t), &childN, &childMicros); err != nil {
		t.Fatal(err)
	}
	t.Logf("shared keys: %d here (longest call %v), %d there (%v)", n, longest, childN, time.Duration(childMicros)*time.Microsecond)
	if n+childN != sharedKeys {
		t.Errorf("shared keys acquired = %d + %d, want %d together", n, childN, sharedKeys)
	}
}

// holdRole holds the file's lock until it is told to let go.
func holdRole(path string) error {
	db, err := sqlite.Open(path)
	if err != nil {
		return err
	}
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	fmt.Println("held")
	untilClosed(os.Stdin)
	return nil
}

// A lock that outlasts the budget ends writes with ErrUnavailable, surely not
// applied; a replay doesn't notice it.
func TestAnotherProcessHoldsTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	db := openFile(t, path)
	b := newBackend(t, db, sqlite.WithBusyBudget(200*time.Millisecond))
	l := mustClaim(t, b, claimOf("done")).Holder()
	if err := b.Complete(t.Context(), l, backend.Completion{Sequence: 1, Response: created}); err != nil {
		t.Fatal(err)
	}
	p := start(t, "hold", path)
	p.line(t)

	if got, err := b.Claim(t.Context(), claimOf("done")); err != nil || !got.Record.Response.Equal(created) {
		t.Errorf("replay while the file is locked = %+v, %v, want the response", got, err)
	}
	began := time.Now()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			_, err := b.Claim(context.Background(), claimOf(fmt.Sprint("key-", i)))
			if !errors.Is(err, backend.ErrUnavailable) {
				t.Errorf("Claim while the file is locked = %v, want ErrUnavailable", err)
			}
		})
		wg.Go(func() {
			_, err := b.Transact(context.Background(), claimOf(fmt.Sprint("tx-", i)), noEffect)
			if !errors.Is(err, backend.ErrUnavailable) {
				t.Errorf("Transact while the file is locked = %v, want ErrUnavailable", err)
			}
		})
	}
	wg.Wait()
	if d := time.Since(began); d > 3*time.Second {
		t.Errorf("16 writers gave up after %v, want about one budget of 200ms and not one each", d)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond) // fact S-5
	defer cancel()
	began = time.Now()
	if _, err := newBackend(t, db).Claim(ctx, claimOf("key")); !errors.Is(err, backend.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Claim with a context that ends while it waits = %v, want ErrUnavailable and the context's error", err)
	}
	if d := time.Since(began); d > time.Second {
		t.Errorf("Claim returned %v after its context's 20ms", d)
	}
	p.stdin.Close()
	_ = p.cmd.Wait()
	if n := count(t, db, "SELECT count(*) FROM idem_keys"); n != 1 {
		t.Errorf("records = %d, want 1: what was unavailable has not been applied", n)
	}
}

// crashRole acknowledges a claim and a completion and never ends by itself.
func crashRole(path string) error {
	b, _, err := openRole(path)
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		c := claimOf(fmt.Sprint("key-", i))
		c.Lease = time.Second
		got, err := b.Claim(context.Background(), c)
		if err != nil {
			return err
		}
		fmt.Println("claimed", i)
		if err := b.Complete(context.Background(), got.Record.Holder(), backend.Completion{Sequence: 1, Response: created}); err != nil {
			return err
		}
		fmt.Println("completed", i)
	}
}

// Fact S-8 and field report 1: what was acknowledged survives kill -9, and a claim
// whose holder was killed is taken over just after its lease.
func TestKilledProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	p := start(t, "crash", path)
	for range 100 {
		p.line(t)
	}
	_ = p.cmd.Process.Kill()
	var said string
	var i int
	claimed, completed := -1, -1
	for p.out.Scan() { // what it had printed before the kill
		if n, _ := fmt.Sscan(p.out.Text(), &said, &i); n == 2 && said == "claimed" {
			claimed = i
		} else if n == 2 && said == "completed" {
			completed = i
		}
	}
	_ = p.cmd.Wait()
	b := newBackend(t, openFile(t, path))
	for k := range max(completed, 49) + 1 {
		r, err := b.Get(t.Context(), claimOf(fmt.Sprint("key-", k)).Key)
		if err != nil || r.Status != backend.Completed || !r.Response.Equal(created) {
			t.Errorf("Get(key-%d) after the kill = %v, %v, want the completed record", k, r.Status, err)
		}
	}
	if claimed > completed {
		if _, err := b.Get(t.Context(), claimOf(fmt.Sprint("key-", claimed)).Key); err != nil {
			t.Errorf("Get of the last acknowledged claim = %v, want its record", err)
		}
	}
	if n := count(t, openFile(t, path), "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"); n != 0 {
		t.Errorf("integrity_check reports %d problems", n)
	}
}
