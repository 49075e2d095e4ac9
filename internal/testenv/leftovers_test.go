//go:build unix

package testenv

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

const victim = "IDEM_TESTENV_VICTIM" // set in the process that is killed

// A test process that is killed leaves no server behind, and what else it leaves
// is removed by the next one.
func TestKilledTestProcess(t *testing.T) {
	if os.Getenv(victim) != "" {
		srv := PostgresPrivate(t)
		dir, err := workDir()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("%s %s\n", srv.Addr, dir)
		select {}
	}
	t.Parallel()
	if _, err := postgresBin(); err != nil {
		Unavailable(t, "postgres", err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledTestProcess$", "-test.v=false")
	cmd.Env = append(os.Environ(), victim+"=1", "IDEM_TEST_PROVIDER=local")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var addr, dir string
	if _, err := fmt.Fscanln(bufio.NewReader(out), &addr, &dir); err != nil {
		t.Fatalf("the process says %v, want an address and a directory", err)
	}
	if !ownerAlive(dir) {
		t.Errorf("ownerAlive(%s) = false, want true while its process runs", dir)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed

	if runtime.GOOS == "linux" {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for deadline := time.Now().Add(20 * time.Second); reachable(addr); <-tick.C {
			if time.Now().After(deadline) {
				t.Fatalf("the server at %s outlives its test process", addr)
			}
		}
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(dir, old, old); err != nil {
		t.Fatal(err)
	}
	removeLeftovers()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("Stat(%s) after removeLeftovers = %v, want it gone", dir, err)
	}
	if reachable(addr) {
		t.Errorf("the server at %s runs after removeLeftovers", addr)
	}
}

func reachable(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err == nil {
		_ = conn.Close()
	}
	return !errors.Is(err, syscall.ECONNREFUSED)
}

// The processes of a killed directory's server are found by its data, and others
// that happen to have the number are not.
func TestKillLeftovers(t *testing.T) {
	t.Parallel()
	if _, err := postgresBin(); err != nil {
		Unavailable(t, "postgres", err)
	}
	in, _, err := startLocalPostgres(nil)
	if err != nil {
		t.Fatal(err)
	}
	proc := in.(*process)
	t.Cleanup(func() {
		if err := proc.close(); err != nil {
			t.Error(err)
		}
	})
	fake := filepath.Join(t.TempDir(), "postmaster.pid")
	pid := proc.cmd.Process.Pid
	if err := os.WriteFile(fake, fmt.Appendf(nil, "%d\n", pid), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, ok := serverOf(fake); ok {
		t.Errorf("serverOf(a file of another directory) = %d, want no process", got)
	}
	if got, ok := serverOf(filepath.Join(proc.dir, "data", "postmaster.pid")); got != pid || !ok {
		t.Errorf("serverOf(its own file) = %d, %t, want %d", got, ok, pid)
	}
	// Other tests' servers live beside it: show this one only.
	only := t.TempDir()
	if err := os.Symlink(proc.dir, filepath.Join(only, "server")); err != nil {
		t.Fatal(err)
	}
	if err := proc.pause(); err != nil { // it can't end by itself
		t.Fatal(err)
	}
	killLeftovers(only)
	select {
	case <-proc.done:
	case <-time.After(10 * time.Second):
		t.Error("killLeftovers left the server running")
	}
}
