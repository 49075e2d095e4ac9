//go:build !race

package idem

import "testing"

// Not under the race detector, which makes sync.Pool drop at random.
func TestFingerprintAllocations(t *testing.T) {
	f := fingerprinter(t)
	c := Content{Type: "application/json", Body: body1K(t)}
	if got := testing.AllocsPerRun(1000, func() { f.Sum(c) }); got > 1 {
		t.Errorf("Sum of %d bytes of JSON allocates %v times, want at most 1", len(c.Body), got)
	}
}
