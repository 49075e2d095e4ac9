package conformance

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// scenario is what all kinds of cases have in common.
type scenario struct {
	id, rule string
	bound    time.Duration
}

var errBound = errors.New("the case exceeded its time bound")

// run executes one case and gives its result. A case that doesn't come back when
// its context has ended is given up, with its goroutine.
func run(ctx context.Context, s scenario, play func(t T)) Result {
	ctx, cancel := context.WithTimeoutCause(ctx, s.bound, errBound)
	defer cancel()
	r := &recorder{ctx: ctx, done: make(chan struct{})}
	go r.execute(play)
	select {
	case <-r.done:
	case <-ctx.Done():
		grace := time.NewTimer(10 * time.Second)
		defer grace.Stop()
		select {
		case <-r.done:
		case <-grace.C:
			r.Errorf("still running 10s after %v", context.Cause(ctx))
		}
	}
	cancel()
	r.clean()
	return r.result(s)
}

// recorder is the T of a case. It collects what the case says, so that the
// suite needs no package testing and can give up on a case that hangs.
type recorder struct {
	ctx  context.Context
	done chan struct{}

	mu       sync.Mutex
	failed   bool
	skipped  bool
	finished bool
	log      []string
	cleanups []func()
}

func (r *recorder) execute(play func(t T)) {
	defer close(r.done)
	defer func() {
		if p := recover(); p != nil {
			buf := make([]byte, 8<<10)
			r.Errorf("panic: %v\n%s", p, buf[:runtime.Stack(buf, false)])
		}
	}()
	play(r)
	r.mu.Lock()
	r.finished = true
	r.mu.Unlock()
}

// clean calls what the case left to Cleanup, the last first.
func (r *recorder) clean() {
	r.mu.Lock()
	fs := slices.Clone(r.cleanups)
	r.mu.Unlock()
	for _, f := range slices.Backward(fs) {
		f()
	}
}

func (r *recorder) result(s scenario) Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	res := Result{ID: s.id, Rule: s.rule, Verdict: Failed, Log: slices.Clone(r.log)}
	switch {
	case r.failed:
	case r.skipped:
		res.Verdict = NotRun
	case r.finished:
		res.Verdict = Passed
	default: // the store's own harness ended the goroutine
		res.Log = append(res.Log, "the case did not come to its end")
	}
	return res
}

func (r *recorder) Helper()                  {}
func (r *recorder) Context() context.Context { return r.ctx }

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *recorder) Logf(format string, args ...any) {
	line := caller() + fmt.Sprintf(format, args...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, line)
}

func (r *recorder) Errorf(format string, args ...any) {
	r.Logf(format, args...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Skipf(format string, args ...any) {
	r.Logf(format, args...)
	r.mu.Lock()
	r.skipped = true
	r.mu.Unlock()
	runtime.Goexit()
}

// caller is the line of the case itself that led here, however many helpers lie
// between: the outermost below start.
func caller() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	at := ""
	for {
		f, more := frames.Next()
		if strings.HasSuffix(f.Function, ".start") || !more {
			return at
		}
		if strings.Contains(f.Function, "conformance.") {
			at = fmt.Sprintf("%s:%d: ", filepath.Base(f.File), f.Line)
		}
	}
}
