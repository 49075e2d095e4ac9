package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/idem-go/idem/internal/testenv"
)

// asProgram makes the test binary run as the program itself, and so do the
// servers that it starts. The value says how.
const asProgram = "PAYMENTS_TEST_PROGRAM"

const (
	protected   = "protected"
	unprotected = "unprotected" // the server runs without the middleware
)

func TestMain(m *testing.M) {
	how := os.Getenv(asProgram)
	isServer := len(os.Args) > 1 && os.Args[1] == "-demo"
	switch {
	case how == unprotected && isServer:
		if err := serveUnprotected(os.Args[len(os.Args)-1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case how != "":
		main()
	default:
		testenv.Main(m)
	}
}

func serveUnprotected(dsn string) error {
	s, err := open(context.Background(), dsn)
	if err != nil {
		return err
	}
	defer s.close()
	s.protect = func(h txHandler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h(w, r, s.pool) })
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return serve(ctx, "127.0.0.1:0", s, &crashes{os.Stdout})
}

// program is the program with a directory of its own for temporary files.
func program(t *testing.T, how string, args ...string) (_ *exec.Cmd, tmp string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	tmp = t.TempDir()
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), asProgram+"="+how, "TMPDIR="+tmp)
	return cmd, tmp
}

// play runs the scenarios, which must all be fine.
func play(t *testing.T, args ...string) (tmp string) {
	t.Helper()
	cmd, tmp := program(t, protected, args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("payments = %v, want exit status 0; it printed\n%s", err, out)
	}
	if got := strings.Count("\n"+string(out), "\nok   "); got != len(scenarios) {
		t.Errorf("payments reported %d scenarios as ok, want %d; it printed\n%s", got, len(scenarios), out)
	}
	return tmp
}

func TestScenariosOnSQLite(t *testing.T) {
	t.Parallel()
	tmp := play(t)
	if left, err := filepath.Glob(filepath.Join(tmp, "*")); err != nil || len(left) > 0 {
		t.Errorf("payments left %v (%v), want no temporary files", left, err)
	}
}

func TestScenariosOnPostgres(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t).URL
	play(t, "-backend", url)

	s, err := openPostgres(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	var left int
	if err := s.pool.get(t.Context(), "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'payments%'", nil, &left); err != nil || left != 0 {
		t.Errorf("payments left %d schemas (%v), want none", left, err)
	}
}

// Without the middleware every scenario that needs it must be seen to fail, and so
// must the ledger and the exit status.
func TestScenariosWithoutMiddleware(t *testing.T) {
	t.Parallel()
	cmd, _ := program(t, unprotected)
	raw, err := cmd.CombinedOutput()
	out := string(raw)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("payments without middleware = %v, want exit status 1", err)
	}
	for _, sc := range scenarios {
		verdict := "FAIL "
		if sc.name == "request lost on its way" {
			verdict = "ok   "
		}
		if !strings.Contains("\n"+out, "\n"+verdict+sc.name+" ") {
			t.Errorf("payments without middleware: no line begins with %q", verdict+sc.name)
		}
	}
	if !strings.Contains(out, "WRONG") {
		t.Error("payments without middleware: no figure of the ledger is marked as wrong")
	}
	if t.Failed() {
		t.Logf("it printed\n%s", out)
	}
}

func TestServe(t *testing.T) {
	t.Parallel()
	cmd, tmp := program(t, protected, "-serve", "127.0.0.1:0")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	lines.Scan()
	addr, ok := strings.CutPrefix(lines.Text(), listenLine)
	if !ok {
		t.Fatalf("payments -serve printed %q first, want %q and the address", lines.Text(), listenLine)
	}

	alice := newCustomer("alice", t.Logf)
	q := request{path: "/payments", key: newKey(), body: payBody{"alice-1", 42_00}}
	first, err := alice.send(t.Context(), addr, q)
	if err != nil || first.status != http.StatusCreated || first.replayed {
		t.Errorf("first payment = %v, %v, want 201", first, err)
	}
	second, err := alice.send(t.Context(), addr, q)
	if err != nil || !second.same(first) || !second.replayed {
		t.Errorf("second payment = %v %q, %v, want %q replayed", second, second.body, err, first.body)
	}

	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("payments -serve after an interrupt = %v, want exit status 0", err)
	}
	if left, err := filepath.Glob(filepath.Join(tmp, "*")); err != nil || len(left) > 0 {
		t.Errorf("payments -serve left %v (%v), want no temporary files", left, err)
	}
}
