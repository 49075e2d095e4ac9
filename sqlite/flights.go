package sqlite

import (
	"context"
	"sync"
	"time"

	"github.com/idem-go/idem/backend"
)

// flights are the keys that a Transact of this process is busy with. Duplicates
// wait for it here, and not in the queue for the file.
type flights struct {
	mu   sync.Mutex
	keys map[backend.Key]chan struct{}
}

// commitTime is how long a claim that does not want to wait is ready to wait for
// an ordinary commit.
const commitTime = 50 * time.Millisecond

// wait returns once no Transact of the key is running, or hidden when that takes
// longer than d.
func (f *flights) wait(ctx context.Context, op string, k backend.Key, d time.Duration) (hidden bool, err error) {
	leave, hidden, err := f.join(ctx, op, k, d, false)
	leave()
	return hidden, err
}

// enter is wait, and registers the caller's own Transact until leave is called.
func (f *flights) enter(ctx context.Context, op string, k backend.Key, d time.Duration) (leave func(), hidden bool, err error) {
	return f.join(ctx, op, k, d, true)
}

func (f *flights) join(ctx context.Context, op string, k backend.Key, d time.Duration, register bool) (leave func(), hidden bool, err error) {
	none := func() {}
	var late <-chan time.Time
	for {
		f.mu.Lock()
		running, busy := f.keys[k]
		if !busy {
			defer f.mu.Unlock()
			if !register {
				return none, false, nil
			}
			if f.keys == nil {
				f.keys = make(map[backend.Key]chan struct{})
			}
			done := make(chan struct{})
			f.keys[k] = done
			return func() {
				f.mu.Lock()
				defer f.mu.Unlock()
				delete(f.keys, k)
				close(done)
			}, false, nil
		}
		f.mu.Unlock()
		if late == nil {
			t := time.NewTimer(max(d, commitTime))
			defer t.Stop()
			late = t.C
		}
		select {
		case <-running:
		case <-late:
			return none, true, nil
		case <-ctx.Done():
			return none, false, backend.ContextDone(ctx, op)
		}
	}
}
