package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// An interrupt in the middle of a case leaves nothing behind either.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, s server) {
		self, err := os.Executable()
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, self, s.conformance("-run", "^(claim|lifecycle|sweep)/")...)
		cmd.Env = append(os.Environ(), asProgram+"=1")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		must(t, cmd.Start())

		// More than the namespace itself: a case is under way.
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for len(s.left(t)) < 2 {
			select {
			case <-tick.C:
			case <-ctx.Done():
				t.Fatal("a run of the suite has stored nothing after a minute")
			}
		}
		must(t, cmd.Process.Signal(os.Interrupt))
		err = cmd.Wait()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != statusSignal || !strings.Contains(out.String(), "interrupted") {
			t.Errorf("conformance after an interrupt = %v, want exit status %d; it printed\n%s", err, statusSignal, out.String())
		}
		if left := s.left(t); len(left) > 0 {
			t.Errorf("conformance left %q after an interrupt, want nothing", left)
		}
	})
}
