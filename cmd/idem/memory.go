package main

import (
	"context"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/conformance"
	"github.com/idem-go/idem/memory"
)

// memoryPlace is this process: empty, and gone when it ends. It shows what the
// commands do.
type memoryPlace struct{}

func (memoryPlace) String() string { return "this process" }

func (memoryPlace) open(context.Context) (backend.Backend, func(), error) {
	return memory.New(), func() {}, nil
}

// lab has a clock that the suite moves.
func (memoryPlace) lab(context.Context) (*lab, error) {
	return &lab{
		name:   "memory of this process",
		remove: func(context.Context) error { return nil },
		store: func(conformance.T) conformance.Store {
			clock := memory.NewClock(time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC))
			b := memory.New(memory.WithClock(clock))
			return conformance.Store{Open: func(conformance.T) backend.Backend { return b }, Advance: clock.Advance}
		},
	}, nil
}
