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
	needs    []Power  // of the harness
	claims   []string // the fields of backend.Capabilities that it tests
}

func (s scenario) about() scenario { return s }

var errBound = errors.New("the case exceeded its time bound")

// run executes one case and gives its result. A case that doesn't come back when
// its context has ended is given up, with its goroutine.
func run(ctx context.Context, s scenario, seed uint64, play func(r *recorder)) Result {
	ctx, cancel := context.WithTimeoutCause(ctx, s.bound, errBound)
	defer cancel()
	r := &recorder{ctx: ctx, seed: seed, done: make(chan struct{})}
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
	seed uint64 // of its random choices
	done chan struct{}

	mu       sync.Mutex
	failed   bool
	skipped  Verdict // what the case is instead of run; empty: it is run
	finished bool
	log      []string
	cleanups []func()
	note     Result // what it is to say besides
}

func (r *recorder) execute(play func(r *recorder)) {
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
	res := r.note
	res.ID, res.Rule, res.Needs, res.Verdict, res.Log = s.id, s.rule, s.needs, Failed, slices.Clone(r.log)
	if r.skipped == "" || r.failed {
		res.Reason, res.Lacks = "", nil
	}
	switch {
	case r.failed:
	case r.skipped != "":
		res.Verdict = r.skipped
	case r.finished:
		res.Verdict = Passed
		if res.unclaimed() {
			res.Reason = unclaimed
		}
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

func (r *recorder) Skipf(format string, args ...any) { r.skip(NotRun, format, args...) }

// skip ends the case, which is not run or shows nothing.
func (r *recorder) skip(v Verdict, format string, args ...any) {
	r.Logf(format, args...)
	r.mu.Lock()
	r.skipped, r.note.Reason = v, fmt.Sprintf(format, args...)
	r.mu.Unlock()
	runtime.Goexit()
}

// lacking ends a case whose harness has not all powers it needs. One that tests a
// claim goes on: it depends on the claim what has to be shown.
func (r *recorder) lacking(s scenario, has map[Power]bool) {
	var lacks []Power
	for _, p := range s.needs {
		if !has[p] {
			lacks = append(lacks, p)
		}
	}
	r.remark(func(note *Result) { note.Lacks = lacks })
	if len(lacks) > 0 && s.claims == nil {
		r.skip(NotRun, "the harness lacks %s", list(lacks))
	}
}

// remark changes what the result says besides the verdict.
func (r *recorder) remark(f func(note *Result)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.note)
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
