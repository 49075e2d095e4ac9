package bound_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idem-go/idem/internal/bound"
)

var errTest = errors.New("test")

type key struct{}

// ways are the ones in which somebody finds out that a context ended.
var ways = map[string]func(context.Context) error{
	"Err":  context.Context.Err,
	"Done": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	"child": func(ctx context.Context) error {
		child, cancel := context.WithCancel(ctx)
		defer cancel()
		<-child.Done()
		return child.Err()
	},
}

// Context is compared with what the standard library makes of the same calls.
func TestLikeWithDeadline(t *testing.T) {
	type pair struct {
		parentCancel func(error)
		cancel       func(error)
	}
	ends := map[string]struct {
		end   func(p pair)
		err   error
		cause error
	}{
		"cancel":            {func(p pair) { p.cancel(nil) }, context.Canceled, context.Canceled},
		"cancel with cause": {func(p pair) { p.cancel(errTest) }, context.Canceled, errTest},
		"cancel twice":      {func(p pair) { p.cancel(errTest); p.cancel(nil) }, context.Canceled, errTest},
		"parent":            {func(p pair) { p.parentCancel(errTest) }, context.Canceled, errTest},
		"deadline":          {func(pair) { time.Sleep(time.Minute + 1) }, context.DeadlineExceeded, context.DeadlineExceeded},
		"deadline, cancel":  {func(p pair) { time.Sleep(time.Minute + 1); p.cancel(nil) }, context.DeadlineExceeded, context.DeadlineExceeded},
		"parent, cancel":    {func(p pair) { p.parentCancel(errTest); p.cancel(nil) }, context.Canceled, errTest},
	}
	for endName, end := range ends {
		for wayName, way := range ways {
			for _, early := range []bool{false, true} {
				name := endName + "/" + wayName
				if early {
					name += "/waited for before"
				}
				t.Run(name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						parent, parentCancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, 1))
						defer parentCancel(nil)
						c := bound.With(parent, time.Now().Add(time.Minute))
						defer c.Cancel(nil)
						if early {
							_ = c.Done()
						}
						if err := c.Err(); err != nil {
							t.Fatalf("Err() before the end = %v, want nil", err)
						}
						if cause := context.Cause(c); cause != nil {
							t.Fatalf("Cause() before the end = %v, want nil", cause)
						}
						end.end(pair{parentCancel, c.Cancel})
						synctest.Wait()
						if err := way(c); err != end.err {
							t.Errorf("%s after %s = %v, want %v", wayName, endName, err, end.err)
						}
						if cause := context.Cause(c); cause != end.cause {
							t.Errorf("Cause() after %s = %v, want %v", endName, cause, end.cause)
						}
						if v := c.Value(key{}); v != 1 {
							t.Errorf("Value() = %v, want 1", v)
						}
					})
				})
			}
		}
	}
}

// A detached context has its parent's values, and neither its end nor its cause.
func TestDetached(t *testing.T) {
	for wayName, way := range ways {
		t.Run(wayName, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parent, cancel := context.WithTimeoutCause(context.WithValue(t.Context(), key{}, 1), time.Second, errTest)
				defer cancel()
				c := bound.Detached(parent, time.Now().Add(time.Minute))
				defer c.Cancel(nil)
				if d, _ := c.Deadline(); !d.Equal(time.Now().Add(time.Minute)) {
					t.Errorf("Deadline() = %v, want its own", d)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if err, cause := c.Err(), context.Cause(c); err != nil || cause != nil {
					t.Errorf("Err(), Cause() after the parent's end = %v, %v; want nil", err, cause)
				}
				if v := c.Value(key{}); v != 1 {
					t.Errorf("Value() = %v, want 1", v)
				}
				time.Sleep(time.Minute)
				if cause := context.Cause(c); cause != context.DeadlineExceeded {
					t.Errorf("Cause() after the deadline = %v, want %v", cause, context.DeadlineExceeded)
				}
				if err := way(c); err != context.DeadlineExceeded {
					t.Errorf("%s after the deadline = %v, want %v", wayName, err, context.DeadlineExceeded)
				}
				if v := c.Value(key{}); v != 1 {
					t.Errorf("Value() after the deadline = %v, want 1", v)
				}
			})
		})
	}
}

func TestDeadline(t *testing.T) {
	now := time.Now()
	early, late := now.Add(time.Hour), now.Add(2*time.Hour)
	withEarly, cancel := context.WithDeadline(t.Context(), early)
	defer cancel()
	for _, c := range []struct {
		name   string
		parent context.Context
		d      time.Time
		want   time.Time
	}{
		{"none", context.Background(), time.Time{}, time.Time{}},
		{"own", context.Background(), late, late},
		{"parent's", withEarly, late, early},
		{"parent's alone", withEarly, time.Time{}, early},
		{"own before the parent's", withEarly, now, now},
	} {
		got, ok := bound.With(c.parent, c.d).Deadline()
		if !got.Equal(c.want) || ok != !c.want.IsZero() {
			t.Errorf("Deadline() with %s = %v, %v; want %v", c.name, got, ok, c.want)
		}
	}
}

func TestAllocations(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := testing.AllocsPerRun(100, func() {
		c := bound.With(parent, time.Now().Add(time.Minute))
		if c.Err() != nil || c.Value(key{}) != nil {
			t.Error("it has ended")
		}
		c.Cancel(nil)
	})
	if got > 1 {
		t.Errorf("With, Err, Value, Cancel make %.0f allocations, want at most 1", got)
	}
}
