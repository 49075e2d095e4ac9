package memory_test

import (
	"context"
	"fmt"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/memory"
)

func claim(id byte) backend.Claim {
	return backend.Claim{
		Key: backend.Key{Tenant: "acme", Actor: "alice", Value: "8e03978e"}, ID: backend.ClaimID{id}, Operation: "pay",
		Fingerprints: []backend.Fingerprint{{Version: "v1"}},
		Lease:        30 * time.Second, Retention: 24 * time.Hour, Abandon: 7 * 24 * time.Hour,
	}
}

func ExampleNew() {
	ctx, b := context.Background(), memory.New()
	first, err := b.Claim(ctx, claim(1))
	fmt.Println("acquired:", first.Acquired, err)
	err = b.Complete(ctx, first.Record.Holder(), backend.Completion{Sequence: 1, Response: backend.Response{Body: []byte("paid")}})
	fmt.Println("completed:", err)
	again, err := b.Claim(ctx, claim(2))
	fmt.Printf("acquired: %v, replay: %s, %v\n", again.Acquired, again.Record.Response.Body, err)
	// Output:
	// acquired: true <nil>
	// completed: <nil>
	// acquired: false, replay: paid, <nil>
}

// A test moves the clock instead of waiting for a lease to end.
func ExampleNewClock() {
	ctx, clock := context.Background(), memory.NewClock(time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC))
	b := memory.New(memory.WithClock(clock))
	_, _ = b.Claim(ctx, claim(1))
	got, _ := b.Claim(ctx, claim(2))
	fmt.Println("acquired:", got.Acquired, "- lease left:", got.Record.LeaseLeft)
	clock.Advance(30 * time.Second)
	got, _ = b.Claim(ctx, claim(2))
	fmt.Println("acquired:", got.Acquired, "- attempt:", got.Record.Attempt)
	// Output:
	// acquired: false - lease left: 30s
	// acquired: true - attempt: 2
}
