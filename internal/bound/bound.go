// Package bound makes contexts with a deadline that cost one allocation until
// somebody waits for it. Every request has several of them, and most of what runs
// under them asks at most whether it is over.
package bound

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Context ends at a deadline, with its parent, or when Cancel is called. It behaves
// as one made by context.WithDeadline, and becomes one when somebody asks for its
// channel. It must not be copied.
type Context struct {
	parent   context.Context
	detached bool      // the parent gives its values only
	deadline time.Time // zero: none

	mu    sync.Mutex
	ended bool // while there is no real one: Cancel(nil) was called
	real  atomic.Pointer[realContext]
}

type realContext struct {
	context.Context
	cancel func(cause error)
}

// With returns a child of parent that ends at the deadline; the zero time is none.
// Cancel has to be called when what runs under it is over.
func With(parent context.Context, deadline time.Time) *Context {
	c := new(Context)
	c.Init(parent, deadline)
	return c
}

// Detached is With for a child that has the parent's values and not its end, as made
// by context.WithoutCancel.
func Detached(parent context.Context, deadline time.Time) *Context {
	c := new(Context)
	c.InitDetached(parent, deadline)
	return c
}

// Init makes With of a Context that is part of something else.
func (c *Context) Init(parent context.Context, deadline time.Time) {
	c.parent, c.deadline = parent, deadline
}

// InitDetached makes Detached of a Context that is part of something else.
func (c *Context) InitDetached(parent context.Context, deadline time.Time) {
	c.parent, c.detached, c.deadline = parent, true, deadline
}

// Cancel ends the context. The first call counts, and the cause is
// context.Canceled if it has none.
func (c *Context) Cancel(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cause == nil && c.real.Load() == nil {
		c.ended = true
		return
	}
	c.makeReal().cancel(cause)
}

// wait returns the real context, and makes it if there is none yet.
func (c *Context) wait() *realContext {
	if r := c.real.Load(); r != nil {
		return r
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.makeReal()
}

// makeReal is called with c.mu held.
func (c *Context) makeReal() *realContext {
	if r := c.real.Load(); r != nil {
		return r
	}
	parent := c.parent
	if c.detached {
		parent = context.WithoutCancel(parent)
	}
	ctx, cancel := context.WithCancelCause(parent)
	r := &realContext{ctx, cancel}
	if !c.deadline.IsZero() {
		timed, stop := context.WithDeadline(ctx, c.deadline)
		r.Context = timed
		r.cancel = func(cause error) {
			cancel(cause)
			stop()
		}
	}
	if c.ended {
		r.cancel(nil)
	}
	c.real.Store(r)
	return r
}

// Deadline implements context.Context.
func (c *Context) Deadline() (time.Time, bool) {
	var d time.Time
	var ok bool
	if !c.detached {
		d, ok = c.parent.Deadline()
	}
	if !c.deadline.IsZero() && (!ok || c.deadline.Before(d)) {
		return c.deadline, true
	}
	return d, ok
}

// Done implements context.Context.
func (c *Context) Done() <-chan struct{} { return c.wait().Done() }

// Err implements context.Context.
func (c *Context) Err() error {
	if r := c.real.Load(); r != nil {
		return r.Err()
	}
	if c.over() {
		return c.wait().Err() // one answer from now on
	}
	return nil
}

// over reports whether a context that is not real has ended.
func (c *Context) over() bool {
	if !c.detached && c.parent.Err() != nil {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended || !c.deadline.IsZero() && !time.Now().Before(c.deadline)
}

// Value implements context.Context. The context package finds a context's cause
// with it, so that a context that has ended must be a real one.
func (c *Context) Value(key any) any {
	if c.real.Load() == nil && !c.over() {
		v := c.parent.Value(key)
		if v != nil && c.detached {
			v = context.WithoutCancel(c.parent).Value(key) // it may be the parent's end
		}
		return v
	}
	return c.wait().Value(key)
}
