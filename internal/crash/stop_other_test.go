//go:build !unix

package crash

func stop() { panic("processes can't be stopped here") }

// killed reports whether a process ended by itself: there are no signals here.
func killed(err error) bool { return err != nil }
