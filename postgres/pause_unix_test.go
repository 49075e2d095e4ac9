//go:build unix

package postgres_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/idem-go/idem"
)

// Field report 3: SIGSTOP past the lease, and another process took over. What the
// first one does when it wakes up is refused: its answer is not published, and what
// it wrote in its transaction is not committed.
func TestPausedProcessLosesItsRecord(t *testing.T) {
	t.Parallel()
	for path, says := range map[string]string{
		"Do": `answer "", replayed false, lease lost true, error true`,
		// Its transaction is gone, and what it finds on trying again is the other's.
		"DoTx": `answer "payment 1", replayed true, lease lost false, error false`,
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			b, pool, srv := migrated(t)
			effectsTable(t, pool)
			p := &payments{pool: pool}
			e := executor(t, b, idem.WithWait(time.Minute))
			paused := start(t, path, srv.URL)
			stop := func(s syscall.Signal) {
				if err := paused.cmd.Process.Signal(s); err != nil {
					t.Error(err)
				}
			}
			wake := func() {
				stop(syscall.SIGCONT)
				_ = paused.stdin.Close()
				paused.wantLine(t, says)
			}
			stop(syscall.SIGSTOP)
			var res idem.Result[string]
			var err error
			attempt, effects := 2, 2
			if path == "DoTx" {
				attempt, effects = 1, 1
				res, err = idem.DoTx(t.Context(), e, intent("key-0001"), p.inTx)
				wake()
			} else {
				res, err = idem.Do(t.Context(), e.Executor, intent("key-0001"), func(ctx context.Context, run *idem.Run) (string, error) {
					wake() // while the other one still runs
					return p.leased(ctx, run)
				})
			}
			wantResult(t, path+" of another process", res, err, "payment 1", false, attempt)
			res, err = idem.DoTx(t.Context(), e, intent("key-0001"), p.inTx)
			wantResult(t, "a retry", res, err, "payment 1", true, attempt)
			wantEffects(t, pool, effects)
		})
	}
}
