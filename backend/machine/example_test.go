package machine_test

import (
	"fmt"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
)

// An adapter reads a record, takes the step and writes what comes out, in one
// atomic step of its store.
func ExampleStep() {
	now := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	claim := machine.Claim{Claim: backend.Claim{
		Key: backend.Key{Tenant: "acme", Actor: "alice", Value: "8e03978e"}, ID: backend.ClaimID{1},
		Fingerprints: []backend.Fingerprint{{Version: "v1"}},
		Lease:        30 * time.Second, Retention: 24 * time.Hour, Abandon: 7 * 24 * time.Hour,
	}}
	record, out := machine.Step(nil, claim, now)
	fmt.Println("first:", out.Claimed.Acquired, record.Status)

	claim.ID = backend.ClaimID{2}
	_, out = machine.Step(record, claim, now.Add(10*time.Second))
	fmt.Println("duplicate:", out.Claimed.Acquired, "- lease left:", out.Claimed.Record.LeaseLeft)

	record, out = machine.Step(record, claim, now.Add(30*time.Second))
	fmt.Println("after the lease:", out.Claimed.Acquired, "- attempt:", record.Attempt)
	// Output:
	// first: true started
	// duplicate: false - lease left: 20s
	// after the lease: true - attempt: 2
}
