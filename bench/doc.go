// Package bench measures the paths of idem beside the bare driver doing the same
// writes, in one run, with equal pools: what counts is the ratio. "make bench"
// prints it. Nothing here is a gate; the counts that are (round trips, allocations)
// are tests of their packages.
package bench
