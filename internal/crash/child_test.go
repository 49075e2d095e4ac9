package crash

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idem-go/idem"
)

// childEnv makes the test binary play a process of the service. It holds a job.
const childEnv = "IDEM_CRASH_TEST_JOB"

// job is what a child has to do.
type job struct {
	At    place
	Far   string
	Lease time.Duration
	Keys  []string
	Point string // where it ends itself; empty: nowhere
	Stop  bool   // it stops there instead, until it is told to go on
	Tell  bool   // of every point

	AtOnce  int  // how many requests; 0: all
	Persist bool // try again also after an effect that failed
}

// line is what a child says. Each has one of Point, Key, Cause and Ready.
type line struct {
	Ready bool
	Point string
	Cause string // of the end of an effect's context

	Key      string // of an answer
	Value    string
	Attempt  int
	Replayed bool

	Err string // of the point or the answer
}

// playChild is called by TestMain. It returns false in the process of the tests.
func playChild() bool {
	text, ok := os.LookupEnv(childEnv)
	if !ok {
		return false
	}
	var j job
	err := json.Unmarshal([]byte(text), &j)
	if err == nil {
		err = j.run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
	return true
}

func (j job) run(ctx context.Context) error {
	var mu sync.Mutex
	say := func(l line) {
		mu.Lock()
		defer mu.Unlock()
		_ = json.NewEncoder(os.Stdout).Encode(l)
	}
	wake := make(chan struct{}, 1)
	go func() { // the end of its input is that of the test
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			wake <- struct{}{}
		}
		os.Exit(1)
	}()
	r := runner{lease: j.Lease, far: j.Far, renewed: make(chan struct{}, 100)}
	r.p = &points{seen: make(map[string]int), hit: func(point string, err error) {
		if point == j.Point && !j.Stop {
			die()
		}
		if j.Tell {
			say(line{Point: point, Err: kind(err)})
		}
		if point == j.Point {
			stop()
			<-wake // so that nothing runs on for as long as a signal takes
		}
		if strings.HasPrefix(point, "Renew/after") {
			r.renewed <- struct{}{}
		}
	}}
	r.ended = func(ctx context.Context, err error) {
		if j.Stop && err != nil {
			<-ctx.Done()
			say(line{Cause: kind(context.Cause(ctx))})
		}
	}
	var err error
	if r.s, err = j.At.open(ctx, r.p); err != nil {
		return err
	}
	defer r.s.close()
	if r.e, err = idem.New(r.s.Backend, options(j.Lease)...); err != nil {
		return err
	}
	say(line{Ready: true})
	var all sync.WaitGroup
	free := make(chan struct{}, cmp.Or(j.AtOnce, len(j.Keys)))
	for _, key := range j.Keys {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			res, err := r.do(ctx, key)
			for !j.Stop && retry(err) || j.Persist && errors.Is(err, errFails) {
				res, err = r.do(ctx, key)
			}
			r.p.at("answer/before", err)
			say(line{Key: key, Value: res.Value, Attempt: res.Attempt, Replayed: res.Replayed, Err: kind(err)})
			r.p.at("answer/after", err)
		})
	}
	all.Wait()
	return nil
}

// die is kill -9.
func die() {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {}
}

// retry reports whether a client tries again.
func retry(err error) bool {
	for _, again := range []error{idem.ErrInProgress, idem.ErrUnavailable, idem.ErrUnknownOutcome, idem.ErrLeaseLost} {
		if errors.Is(err, again) {
			return true
		}
	}
	return false
}

// kind is what a child says of an error.
func kind(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, idem.ErrLeaseLost):
		return "lease lost"
	case errors.Is(err, idem.ErrNeedsResolution):
		return "needs resolution"
	case errors.Is(err, errFails):
		return "fails"
	}
	return err.Error()
}

// child is a process that does a job.
type child struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Scanner
}

func start(t *testing.T, j job) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: exec.CommandContext(context.Background(), exe)}
	c.cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	c.cmd.Stderr = os.Stderr
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewScanner(stdout)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	return c
}

// signal is kill -9, from any goroutine.
func (c *child) signal() { _ = c.cmd.Process.Kill() }

// kill is signal, and waits until the process is gone. Twice is fine.
func (c *child) kill() {
	c.signal()
	_ = c.cmd.Wait()
}

// next is the next line that the child says; false when it has ended.
func (c *child) next(t *testing.T) (line, bool) {
	t.Helper()
	var l line
	if !c.out.Scan() {
		return l, false
	}
	if err := json.Unmarshal(c.out.Bytes(), &l); err != nil {
		return l, false // it was killed in the middle of the line
	}
	return l, true
}

// rest is all that the child says until it ends, and how it ended.
func (c *child) rest(t *testing.T) (lines []line, err error) {
	t.Helper()
	for l, ok := c.next(t); ok; l, ok = c.next(t) {
		lines = append(lines, l)
	}
	return lines, c.cmd.Wait()
}
