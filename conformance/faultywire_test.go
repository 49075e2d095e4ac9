package conformance_test

import (
	"context"
	"maps"
)

// send makes a call over the wire, where its answer can be late or get lost.
func send[R any](ctx context.Context, f *faulty, op string, do func() (R, error)) (R, error) {
	f.mu.Lock()
	silent, lost, kills := f.silent, f.lost, f.kills
	f.mu.Unlock()
	type answer struct {
		r   R
		err error
	}
	answered := make(chan answer, 1)
	switch {
	case lost:
	case silent == nil:
		r, err := do()
		answered <- answer{r, err}
	default:
		go func() {
			<-silent
			r, err := do()
			answered <- answer{r, err}
		}()
	}
	var none R
	select {
	case a := <-answered:
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.kills != kills {
			return none, f.cut(ctx, op)
		}
		if f.copied != nil && f.unsure != nil {
			return none, f.unsure(op)
		}
		return a.r, a.err
	case <-f.wait(ctx).Done():
		return none, f.cut(ctx, op)
	}
}

// restart kills the server.
func (f *faulty) restart() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kills++
	f.crash(f.state, f.now())
}

// pause holds calls back until resume.
func (f *faulty) pause() (resume func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	silent := make(chan struct{})
	f.silent = silent
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.silent = nil
		close(silent)
	}
}

// partition loses calls until heal.
func (f *faulty) partition() (heal func()) {
	set := func(lost bool) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.lost = lost
	}
	set(true)
	return func() { set(false) }
}

// failover lets copies get nothing any more, and then one of them take over.
func (f *faulty) failover() (promote func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.copied = maps.Clone(f.records) // records are replaced, never changed
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.inherit(f.state)
		f.copied, f.promoted = nil, true
	}
}
