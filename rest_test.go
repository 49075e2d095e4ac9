package idem_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/memory"
)

// telling is a store that tells of changes, or fails to.
type telling struct {
	*faulty
	await func(ctx context.Context) error
	looks int
}

func (s *telling) Await(ctx context.Context, _ backend.Key) error { return s.await(ctx) }

func (s *telling) Claim(ctx context.Context, c backend.Claim) (backend.Claimed, error) {
	s.looks++
	return s.faulty.Claim(ctx, c)
}

var errDeaf = errors.New("the watch broke")

// Hard case 14: a duplicate of another process waits by the store's word and is there
// when the first run ends. A store that has no word to give, one that breaks off
// silently, and one that tells of changes that are none: the duplicate polls, less and
// less often, and misses nothing.
func TestWaitingByTheStoresWord(t *testing.T) {
	const runs = 20 * time.Second
	for name, tt := range map[string]struct {
		await         func(ended <-chan struct{}) func(ctx context.Context) error
		late          time.Duration // after the end of the first run, at most
		fewest, looks int
	}{
		"tells": {func(ended <-chan struct{}) func(context.Context) error {
			return func(ctx context.Context) error {
				select {
				case <-ended:
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
		}, 0, 5, 9}, // at least every five seconds, whatever it tells
		"can't tell": {func(<-chan struct{}) func(context.Context) error {
			return func(context.Context) error { return errDeaf }
		}, time.Second, 20, 60},
		"breaks silently": {func(<-chan struct{}) func(context.Context) error {
			return func(ctx context.Context) error {
				<-ctx.Done()
				return context.Cause(ctx)
			}
		}, 5 * time.Second, 5, 10},
		"tells for no reason": {func(<-chan struct{}) func(context.Context) error {
			return func(context.Context) error { return nil }
		}, time.Second, 20, 60},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, ended := memory.New(), make(chan struct{})
				s := &telling{faulty: &faulty{Backend: m}, await: tt.await(ended)}
				a, b := newExecutor(t, m), newExecutor(t, s, idem.WithWait(time.Minute))
				var dups chan answer
				if _, err := idem.Do(t.Context(), a, request("key-0001"), func(context.Context, *idem.Run) (string, error) {
					dups = duplicates(t, b, request("key-0001"), 1, never(t))
					time.Sleep(runs)
					return "ok", nil
				}); err != nil {
					t.Fatal(err)
				}
				over := time.Now()
				close(ended)
				if d := <-dups; d.err != nil || d.res.Value != "ok" || !d.res.Replayed {
					t.Errorf("the duplicate got %+v, %v, want the replay", d.res, d.err)
				}
				if late := time.Since(over); late > tt.late {
					t.Errorf("the duplicate was answered %v after the first run, want at most %v", late, tt.late)
				}
				if s.looks < tt.fewest || s.looks > tt.looks {
					t.Errorf("%d looks in %v, want %d to %d", s.looks, runs, tt.fewest, tt.looks)
				}
			})
		})
	}
}

// A wait by the store's word ends with the time that was given for it, and with its
// caller.
func TestWaitingByTheStoresWordEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.New()
		s := &telling{faulty: &faulty{Backend: m}, await: func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}}
		a, b := newExecutor(t, m), newExecutor(t, s, idem.WithWait(12*time.Second))
		if _, err := idem.Do(t.Context(), a, request("key-0001"), func(context.Context, *idem.Run) (string, error) {
			before := time.Now()
			_, err := idem.Do(t.Context(), b, request("key-0001"), never(t))
			wantError(t, "Do", err, idem.ErrInProgress)
			if d := time.Since(before); d < 12*time.Second || d > 12100*time.Millisecond {
				t.Errorf("Do waited %v, want 12 s", d)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			before = time.Now()
			_, err = idem.Do(ctx, b, request("key-0001"), never(t))
			wantError(t, "Do of a caller that goes away", err, context.DeadlineExceeded)
			wantError(t, "Do of a caller that goes away", err, idem.ErrUnavailable)
			if d := time.Since(before); d != time.Second {
				t.Errorf("Do waited %v, want 1 s", d)
			}
			return "ok", nil
		}); err != nil {
			t.Error(err)
		}
	})
}
