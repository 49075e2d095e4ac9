//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package adapter_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/examples/adapter"
)

const childDir = "IDEM_TEST_ADAPTER_DIR"

// TestMain makes of the test binary the process that TestKill kills.
func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		work(dir)
		return
	}
	os.Exit(m.Run())
}

// work completes one key after the other and says so of each, in four lanes.
func work(dir string) {
	for lane := range 4 {
		go func() {
			for i := 0; ; i++ {
				b, c := adapter.New(dir), request(fmt.Sprintf("%d-%d-%d", os.Getpid(), lane, i))
				got, err := b.Claim(context.Background(), c)
				if err == nil {
					err = b.Complete(context.Background(), got.Record.Holder(), done(1))
				}
				if err != nil {
					fmt.Println("failed:", err)
					return
				}
				fmt.Println(c.Key.Value)
			}
		}()
	}
	select {}
}

func request(key string) backend.Claim {
	return backend.Claim{
		Key: backend.Key{Tenant: "tenant", Actor: "actor", Value: key}, ID: backend.ClaimID{1}, Operation: "work",
		Fingerprints: []backend.Fingerprint{{Version: "v1"}},
		Lease:        100 * time.Millisecond, Retention: time.Hour, Abandon: time.Hour,
	}
}

// body is large, so that a kill has something to cut.
var body = bytes.Repeat([]byte("done"), 32<<10)

func done(seq backend.Sequence) backend.Completion {
	return backend.Completion{Sequence: seq, Response: backend.Response{Status: 201, Body: body}}
}

// What was acknowledged before a kill is there, and what was begun can be claimed.
func TestKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // for a lock that nobody gives back
	defer cancel()
	for range 5 {
		var last string
		for _, key := range killed(t, dir) {
			c := request(key)
			c.ID = backend.ClaimID{2}
			got, err := adapter.New(dir).Claim(ctx, c)
			if err != nil || got.Acquired || got.Record.Status != backend.Completed || !bytes.Equal(got.Record.Response.Body, body) {
				t.Fatalf("Claim(acknowledged, then killed) = acquired %v, %v, %v, want the response", got.Acquired, got.Record.Status, err)
			}
			last = key
		}
		pid, _, _ := strings.Cut(last, "-")
		for lane := range 4 {
			free(ctx, t, dir, pid, lane)
		}
	}
}

// killed runs a process until it has acknowledged some keys, and kills it in the
// middle of others. It returns the keys that were acknowledged.
func killed(t *testing.T, dir string) (keys []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "failed") {
			t.Errorf("in the process: %s", lines.Text())
		}
		if keys = append(keys, lines.Text()); len(keys) == 20 {
			if err := cmd.Process.Kill(); err != nil { // and read on: what was printed was acknowledged
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // killed
	if len(keys) < 20 {
		t.Fatalf("the process acknowledged %d keys, want 20 at least", len(keys))
	}
	return keys
}

// free claims the keys of a lane up to the first that the killed process never
// began, until each is to be had or completed.
func free(ctx context.Context, t *testing.T, dir, pid string, lane int) {
	t.Helper()
	b := adapter.New(dir)
	for i := 0; ; i++ {
		c := request(fmt.Sprintf("%s-%d-%d", pid, lane, i))
		c.ID = backend.ClaimID{3}
		_, err := b.Get(ctx, c.Key)
		fresh := errors.Is(err, backend.ErrNotFound)
		got, err := b.Claim(ctx, c)
		for err == nil && !got.Acquired && got.Record.Status == backend.Started { // until the lease of the dead is over
			got, err = b.Claim(ctx, c)
		}
		if err == nil && got.Acquired {
			err = b.Complete(ctx, got.Record.Holder(), done(1))
		}
		if err != nil {
			t.Fatalf("Claim, Complete(begun by a killed process) = %v, want nil", err)
		}
		if fresh {
			return
		}
	}
}

// locked holds the locks of all stripes, as stopped processes would.
func locked(t *testing.T, dir string) (unlock func()) {
	t.Helper()
	var files []*os.File
	for stripe := range 256 {
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("%02x.lock", stripe)), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return func() {
		for _, f := range files {
			f.Close()
		}
	}
}

// A call that waits for the lock ends with its context and has done nothing.
func TestContextEndsTheWaitForALock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, c := adapter.New(dir), request("k")
	unlock := locked(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := b.Claim(ctx, c); !backend.NotApplied(err) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Claim(locked by another process) = %v, want an error that is NotApplied and DeadlineExceeded", err)
	}
	unlock()
	c.ID = backend.ClaimID{2}
	if got, err := b.Claim(t.Context(), c); err != nil || !got.Acquired {
		t.Errorf("Claim(unlocked) = acquired %v, %v, want it acquired", got.Acquired, err)
	}
}

// A write that fails before the rename has not happened, and says so. A directory
// in the place of the temporary file stands for a full disk.
func TestFailedWriteChangesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, c := adapter.New(dir), request("k")
	got, err := b.Claim(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for stripe := range 256 {
		if err := os.Mkdir(filepath.Join(dir, fmt.Sprintf("%02x.tmp", stripe)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	l := got.Record.Holder()
	if err := b.Complete(t.Context(), l, done(1)); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("Complete(can't be written) = %v, want ErrUnavailable", err)
	}
	if r, err := b.Get(t.Context(), c.Key); err != nil || r.Status != backend.Started || r.Holder() != l {
		t.Errorf("Get(after a failed write) = %v, %v, want the record as it was", r.Status, err)
	}
}

func TestDescribeFindsAnOpenDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for mode, want := range map[os.FileMode]int{0o700: 0, 0o755: 1} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		d, err := adapter.New(dir).Describe(t.Context())
		if err != nil || len(d.Findings) != want {
			t.Errorf("Describe(mode %o) = findings %v, %v, want %d", mode, d.Findings, err, want)
		}
	}
	if _, err := adapter.New(filepath.Join(dir, "none")).Describe(t.Context()); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("Describe(no directory) = %v, want ErrUnavailable", err)
	}
}
