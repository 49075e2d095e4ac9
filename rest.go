package idem

import (
	"context"
	"time"

	"github.com/idem-go/idem/backend"
)

// How a duplicate paces its looks at a key that another process holds.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = time.Second

	// longestAwait is when a key is looked at although the store has told nothing:
	// a watch can break so that nobody learns of it.
	longestAwait = 5 * time.Second
)

// rest lets a duplicate wait before its next look, for left at most, and gives the pause
// that comes after the next one. A store that tells of changes is listened to; a key
// that is still held soon after its word, or a store that can't tell, is looked at less
// and less often. Only the end of ctx is an error.
func (e *Executor) rest(ctx context.Context, k backend.Key, pause, left time.Duration) (next time.Duration, err error) {
	w, tells := e.b.(backend.Waiter)
	if tells {
		began := time.Now()
		once, cancel := context.WithTimeout(ctx, min(left, jitter(longestAwait)))
		err := w.Await(once, k)
		over := once.Err() != nil
		cancel()
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		if (err == nil || over) && time.Since(began) >= pause {
			return firstPause, nil
		}
		left -= time.Since(began)
	}
	return min(2*pause, lastPause), sleep(ctx, min(left, jitter(pause)))
}
