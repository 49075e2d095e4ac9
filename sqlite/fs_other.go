//go:build !linux

package sqlite

// networkFS is not known on this system.
func networkFS(string) string { return "" }
