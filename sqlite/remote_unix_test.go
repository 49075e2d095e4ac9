//go:build unix

package sqlite_test

import (
	"context"
	"errors"
	"io"
	"net/rpc"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/conformance"
	"github.com/idem-go/idem/sqlite"
)

// Call is a call to a backend in another process, and Answer what it returned.
type Call struct {
	Op         string
	Key        backend.Key
	Claim      backend.Claim
	Lease      backend.Lease
	TTL        time.Duration
	Checkpoint backend.Checkpoint
	Completion backend.Completion
	Limit      int
}

// Answer to a Call.
type Answer struct {
	Claimed     backend.Claimed
	Record      backend.Record
	Swept       int
	Description backend.Description
	Failure     string // the text of an error
	Kind        int    // of kinds, from 1
}

var kinds = []error{
	backend.ErrLeaseLost, backend.ErrConflict, backend.ErrInvalid, backend.ErrTooLarge,
	backend.ErrNotFound, backend.ErrUnavailable, backend.ErrRetryTx,
}

// Served is a backend that answers another process.
type Served struct{ b *sqlite.Backend }

// Do makes a call.
func (s *Served) Do(c Call, a *Answer) error {
	ctx, err := context.Background(), error(nil)
	switch c.Op {
	case "claim":
		a.Claimed, err = s.b.Claim(ctx, c.Claim)
	case "renew":
		err = s.b.Renew(ctx, c.Lease, c.TTL)
	case "checkpoint":
		err = s.b.Checkpoint(ctx, c.Lease, c.Checkpoint)
	case "complete":
		err = s.b.Complete(ctx, c.Lease, c.Completion)
	case "release":
		err = s.b.Release(ctx, c.Lease)
	case "get":
		a.Record, err = s.b.Get(ctx, c.Key)
	case "sweep":
		a.Swept, err = s.b.Sweep(ctx, c.Limit)
	case "describe":
		a.Description, err = s.b.Describe(ctx)
	}
	if err != nil {
		a.Failure = err.Error()
		for i, kind := range kinds {
			if errors.Is(err, kind) {
				a.Kind = i + 1
			}
		}
	}
	return nil
}

func init() { roles["remote"] = remoteRole }

// remoteRole serves a backend on the standard streams until it is killed.
func remoteRole(path string) error {
	db, err := sqlite.Open(path)
	if err != nil {
		return err
	}
	defer db.Close()
	b, err := sqlite.New(db)
	if err != nil {
		return err
	}
	server := rpc.NewServer()
	if err := server.Register(&Served{b}); err != nil {
		return err
	}
	server.ServeConn(streams{os.Stdin, os.Stdout})
	return nil
}

type streams struct {
	io.ReadCloser
	io.Writer
}

// remote is a handle in a process of its own, which the next call starts again
// after it was killed.
type remote struct {
	path string

	mu     sync.Mutex
	cmd    *exec.Cmd
	client *rpc.Client
}

func (r *remote) start() (*rpc.Client, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.client != nil {
		return r.client, nil
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(context.Background(), exe)
	cmd.Env, cmd.Stderr = append(os.Environ(), child+"=remote "+r.path), os.Stderr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r.cmd, r.client = cmd, rpc.NewClient(struct {
		io.Reader
		io.WriteCloser
	}{out, in})
	return r.client, nil
}

// kill ends the process with SIGKILL.
func (r *remote) kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.client == nil {
		return
	}
	_ = r.cmd.Process.Kill()
	_ = r.client.Close()
	_ = r.cmd.Wait()
	r.client = nil
}

func (r *remote) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if _, err := r.start(); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.cmd.Process.Signal(s); err != nil {
		t.Error(err)
	}
}

func (r *remote) do(ctx context.Context, c Call) (a Answer, err error) {
	op := "remote: " + c.Op
	if err := backend.ContextDone(ctx, op); err != nil {
		return a, err
	}
	client, err := r.start()
	if err != nil {
		return a, &backend.Error{Op: op, Kind: backend.ErrUnavailable, Err: err}
	}
	late := new(Answer) // may come when nobody waits for it any more
	select {
	case call := <-client.Go("Served.Do", c, late, make(chan *rpc.Call, 1)).Done:
		a, err = *late, call.Error
	case <-ctx.Done():
		return Answer{}, &backend.Error{Op: op, Err: context.Cause(ctx)}
	}
	switch {
	case err != nil:
		return a, &backend.Error{Op: op, Err: err}
	case a.Kind > 0:
		return a, &backend.Error{Op: op, Kind: kinds[a.Kind-1], Err: errors.New(a.Failure)}
	case a.Failure != "":
		return a, &backend.Error{Op: op, Err: errors.New(a.Failure)}
	}
	return a, nil
}

func (r *remote) Claim(ctx context.Context, c backend.Claim) (backend.Claimed, error) {
	a, err := r.do(ctx, Call{Op: "claim", Claim: c})
	return a.Claimed, err
}

func (r *remote) Renew(ctx context.Context, l backend.Lease, ttl time.Duration) error {
	_, err := r.do(ctx, Call{Op: "renew", Lease: l, TTL: ttl})
	return err
}

func (r *remote) Checkpoint(ctx context.Context, l backend.Lease, c backend.Checkpoint) error {
	_, err := r.do(ctx, Call{Op: "checkpoint", Lease: l, Checkpoint: c})
	return err
}

func (r *remote) Complete(ctx context.Context, l backend.Lease, c backend.Completion) error {
	_, err := r.do(ctx, Call{Op: "complete", Lease: l, Completion: c})
	return err
}

func (r *remote) Release(ctx context.Context, l backend.Lease) error {
	_, err := r.do(ctx, Call{Op: "release", Lease: l})
	return err
}

func (r *remote) Get(ctx context.Context, k backend.Key) (backend.Record, error) {
	a, err := r.do(ctx, Call{Op: "get", Key: k})
	return a.Record, err
}

func (r *remote) Sweep(ctx context.Context, limit int) (int, error) {
	a, err := r.do(ctx, Call{Op: "sweep", Limit: limit})
	return a.Swept, err
}

func (r *remote) Describe(ctx context.Context) (backend.Description, error) {
	a, err := r.do(ctx, Call{Op: "describe"})
	return a.Description, err
}

// There is no server: what is claimed is claimed of the processes that have the file
// open, and it is they that are killed and stopped. Nothing lies between a process
// and its file that could be cut.
func TestProcessConformance(t *testing.T) {
	t.Parallel()
	conformance.Run(t, func(t *testing.T) conformance.Store {
		path := filepath.Join(t.TempDir(), "a.db")
		handleAndPool(t, path)
		var all []*remote
		return conformance.Store{
			Open: func(h conformance.T) backend.Backend {
				r := &remote{path: path}
				h.Cleanup(r.kill)
				all = append(all, r)
				return r
			},
			Restart: func(conformance.T) {
				for _, r := range all {
					r.kill()
				}
			},
			Pause: func(conformance.T) func() {
				for _, r := range all {
					r.signal(t, syscall.SIGSTOP)
				}
				return func() {
					for _, r := range all {
						r.signal(t, syscall.SIGCONT)
					}
				}
			},
			Skewed: func(h conformance.T, by time.Duration) backend.Backend { return skewed(h, path, by) },
		}
	}, conformance.Only(ofProcesses...), conformance.Without("fault/partition"), page.Shown())
}

// Fact S-2, field report 25: one file, and every other handle of it in a process of
// its own.
func TestConformanceOfTwoProcesses(t *testing.T) {
	t.Parallel()
	conformance.Run(t, func(t *testing.T) conformance.Store {
		path := filepath.Join(t.TempDir(), "a.db")
		handleAndPool(t, path)
		opened := 0
		return conformance.Store{
			Open: func(h conformance.T) backend.Backend {
				if opened++; opened%2 == 1 {
					return handle(h, path)
				}
				r := &remote{path: path}
				h.Cleanup(r.kill)
				return r
			},
		}
	}, conformance.Without("capability", "fault")) // TestProcessConformance has them
}
