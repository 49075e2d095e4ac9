package testenv

import (
	"context"
	"testing"
	"time"
)

// controls are what a test can do to a server of its own.
type controls struct {
	what   string   // "PostgreSQL"
	own    string   // what starts one for a test alone, "PostgresPrivate"
	in     instance // nil for a server that other tests use, too
	within time.Duration
	ask    func(context.Context) error // tells that the server answers
}

// Kill ends all processes of a private server with SIGKILL.
func (c controls) Kill(t testing.TB) { t.Helper(); c.do(t, "kill", instance.kill) }

// Stop shuts a private server down: its clients are disconnected.
func (c controls) Stop(t testing.TB) { t.Helper(); c.do(t, "stop", instance.stop) }

// Pause stops all processes of a private server with SIGSTOP: connections stand,
// nothing answers.
func (c controls) Pause(t testing.TB) { t.Helper(); c.do(t, "pause", instance.pause) }

// Resume ends a Pause.
func (c controls) Resume(t testing.TB) { t.Helper(); c.do(t, "resume", instance.resume) }

// Start starts a private server after Kill or Stop, and returns when it answers.
func (c controls) Start(t testing.TB) {
	t.Helper()
	c.do(t, "start", func(in instance) error {
		if err := in.start(); err != nil {
			return err
		}
		return waitReady(in, c.within, c.ask)
	})
}

// Restart is Stop and Start.
func (c controls) Restart(t testing.TB) {
	t.Helper()
	c.Stop(t)
	c.Start(t)
}

func (c controls) do(t testing.TB, what string, f func(instance) error) {
	t.Helper()
	if c.in == nil {
		t.Fatalf("%s a server that other tests use: start it with %s", what, c.own)
	}
	if err := f(c.in); err != nil {
		t.Fatalf("%s %s: %v", what, c.what, err)
	}
}
