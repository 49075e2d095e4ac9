package backend_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/idem-go/idem/backend"
)

// A caller that can't tell whether its write was applied has to ask the store
// before it does anything again.
func ExampleNotApplied() {
	for _, err := range []error{
		&backend.Error{Op: "mystore: complete", Kind: backend.ErrLeaseLost},
		&backend.Error{Op: "mystore: complete", Err: errors.New("connection reset by peer")},
		context.DeadlineExceeded,
	} {
		fmt.Println(err, "| surely not applied:", backend.NotApplied(err))
	}
	// Output:
	// mystore: complete: lease lost | surely not applied: true
	// mystore: complete: outcome unknown: connection reset by peer | surely not applied: false
	// context deadline exceeded | surely not applied: false
}

// An adapter checks the context before it sends anything.
func ExampleContextDone() {
	ctx, cancel := context.WithCancel(context.Background())
	fmt.Println(backend.ContextDone(ctx, "mystore: claim"))
	cancel()
	fmt.Println(backend.ContextDone(ctx, "mystore: claim"))
	// Output:
	// <nil>
	// mystore: claim: unavailable: context canceled
}

// A record is compared in the fingerprint version that it was stored with.
func ExampleClaim_Compare() {
	v1, v2 := backend.Fingerprint{Version: "v1", Sum: [32]byte{1}}, backend.Fingerprint{Version: "v2", Sum: [32]byte{2}}
	target := backend.Target{Method: "POST", Path: "/payments"}
	r := backend.Record{Target: target, Fingerprint: v1}

	same := backend.Claim{Target: target, Fingerprints: []backend.Fingerprint{v2, v1}}
	fmt.Println("differs:", same.Compare(r) != backend.Same)

	altered := backend.Claim{Target: target, Fingerprints: []backend.Fingerprint{{Version: "v1", Sum: [32]byte{9}}}}
	fmt.Println("differs in:", altered.Compare(r))

	tooNew := backend.Claim{Target: target, Fingerprints: []backend.Fingerprint{v2}}
	fmt.Println("differs in:", tooNew.Compare(r))
	// Output:
	// differs: false
	// differs in: content
	// differs in: unknown fingerprint version
}
