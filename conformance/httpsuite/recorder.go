package httpsuite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/idem-go/idem/conformance"
)

// bound is how long a case may take.
const bound = time.Minute

var errBound = errors.New("the case exceeded its time bound")

// play executes one case. One that doesn't come back when its context has ended, since
// a function of the Config doesn't, is given up with its goroutine.
func (s *suite) play(ctx context.Context, c testCase) conformance.Result {
	ctx, cancel := context.WithTimeoutCause(ctx, bound, errBound)
	defer cancel()
	e := &env{suite: s, ctx: ctx, before: make(map[int]int)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.execute(c)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		grace := time.NewTimer(10 * time.Second)
		defer grace.Stop()
		select {
		case <-done:
		case <-grace.C:
			e.errorf("still running 10s after %v", context.Cause(ctx))
		}
	}
	return e.result(c)
}

// env is what a case works with. It collects what the case says.
type env struct {
	*suite
	ctx    context.Context
	before map[int]int // effects of a request before the case, by its number

	mu       sync.Mutex
	failed   bool
	notRun   string // why
	finished bool
	log      []string
	cleanups []func()
}

func (e *env) execute(c testCase) {
	defer func() {
		p := recover()
		for _, f := range slices.Backward(e.cleanups) {
			f()
		}
		if p != nil {
			buf := make([]byte, 8<<10)
			e.errorf("panic: %v\n%s", p, buf[:runtime.Stack(buf, false)])
		}
	}()
	c.f(e)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.finished = true
}

func (e *env) result(c testCase) conformance.Result {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := conformance.Result{ID: c.id, Rule: c.sentence(), Verdict: conformance.Failed, Log: slices.Clone(e.log)}
	switch {
	case e.failed:
	case e.notRun != "":
		r.Verdict, r.Reason = conformance.NotRun, e.notRun
	case e.finished:
		r.Verdict = conformance.Passed
	default:
		r.Log = append(r.Log, "the case did not come to its end")
	}
	return r
}

func (e *env) logf(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.log = append(e.log, fmt.Sprintf(format, args...))
}

func (e *env) errorf(format string, args ...any) {
	e.logf(format, args...)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failed = true
}

// fatalf is errorf and ends the case. Only the case's own goroutine calls it.
func (e *env) fatalf(format string, args ...any) {
	e.errorf(format, args...)
	runtime.Goexit()
}

// skip ends the case as not run.
func (e *env) skip(format string, args ...any) {
	e.mu.Lock()
	e.notRun = fmt.Sprintf(format, args...)
	e.mu.Unlock()
	runtime.Goexit()
}

// cleanup calls f when the case has ended, the last first.
func (e *env) cleanup(f func()) { e.cleanups = append(e.cleanups, f) }
