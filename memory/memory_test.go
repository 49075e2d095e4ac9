package memory_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/memory"
)

func TestClock(t *testing.T) {
	t.Parallel()
	start := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	c := memory.NewClock(start)
	c.Advance(time.Hour)
	c.Advance(-time.Minute)
	if got, want := c.Now(), start.Add(59*time.Minute); !got.Equal(want) || !c.Now().Equal(got) {
		t.Errorf("Now = %v, then %v, want %v and that it stands still", got, c.Now(), want)
	}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { c.Advance(time.Second); c.Now() })
	}
	wg.Wait()
	if got, want := c.Now(), start.Add(59*time.Minute+50*time.Second); !got.Equal(want) {
		t.Errorf("Now after 50 moves at once = %v, want %v", got, want)
	}
}

// Tokens grow also while the clock stands still or goes back, over all keys.
func TestTokensWithAClockThatGoesBack(t *testing.T) {
	t.Parallel()
	clock := memory.NewClock(time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC))
	b := memory.New(memory.WithClock(clock))
	var last backend.Token
	for i := range byte(5) {
		got, err := b.Claim(t.Context(), claim(i+1))
		if err != nil || !got.Acquired || got.Record.Token <= last {
			t.Fatalf("Claim = acquired %v, token %d, %v, want acquired with more than %d", got.Acquired, got.Record.Token, err, last)
		}
		last = got.Record.Token
		if err := b.Release(t.Context(), got.Record.Holder()); err != nil {
			t.Fatal(err)
		}
		clock.Advance(-time.Minute)
	}
}

// The methods of one backend from many goroutines: the race detector looks on.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	b := memory.New()
	var wg sync.WaitGroup
	var mu sync.Mutex
	completed := 0
	for i := range byte(40) {
		wg.Go(func() {
			ctx := t.Context()
			got, err := b.Claim(ctx, claim(i+1))
			if err != nil {
				t.Errorf("Claim = %v, want nil", err)
				return
			}
			l := backend.Lease{Key: got.Record.Key, ClaimID: backend.ClaimID{i + 1}, Token: got.Record.Token}
			_ = b.Renew(ctx, l, time.Minute)
			_ = b.Checkpoint(ctx, l, backend.Checkpoint{Sequence: 1, Point: "p"})
			err = b.Complete(ctx, l, backend.Completion{Sequence: 2, Response: backend.Response{Body: []byte{i}}})
			if err == nil {
				mu.Lock()
				completed++
				mu.Unlock()
			} else if !errors.Is(err, backend.ErrLeaseLost) {
				t.Errorf("Complete = %v, want nil or ErrLeaseLost", err)
			}
			_ = b.Release(ctx, l)
			_, _ = b.Sweep(ctx, 10)
			if _, err := b.Get(ctx, l.Key); err != nil {
				t.Errorf("Get = %v, want the record", err)
			}
			_, _ = b.Describe(ctx)
		})
	}
	wg.Wait()
	if completed != 1 {
		t.Errorf("%d of 40 runs completed, want 1", completed)
	}
}

// It never calls itself durable.
func TestDescribe(t *testing.T) {
	t.Parallel()
	d, err := memory.New().Describe(t.Context())
	if c := d.Capabilities; err != nil || c.DurableKill || c.DurableFailover || c.Shared || c.Transactions || c.Clock != backend.ClockProcess {
		t.Errorf("Describe = %+v, %v, want nothing durable, shared or transactional", c, err)
	}
	if len(d.Findings) != 1 || d.Findings[0].Severity != backend.Unsafe {
		t.Errorf("Describe: findings %+v, want that it is unsafe", d.Findings)
	}
}
