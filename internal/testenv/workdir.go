package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const workDirPrefix = "idem-testenv-"

// workDir returns the directory of this test process. It holds a lock for as long
// as the process lives, which is how others know whether it may be removed.
var workDir = sync.OnceValues(func() (string, error) {
	removeLeftovers()
	dir, err := os.MkdirTemp("", workDirPrefix)
	if err != nil {
		return "", err
	}
	// Servers run as another user where the tests run as root.
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	unlock, err := lockDir(dir)
	if err != nil {
		return "", fmt.Errorf("lock %s: %w", dir, err)
	}
	onShutdown(func() error {
		defer unlock()
		return os.RemoveAll(dir)
	})
	return dir, nil
})

// removeLeftovers removes what killed test processes left behind.
func removeLeftovers() {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), workDirPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		if ownerAlive(dir) {
			continue
		}
		killLeftovers(dir)
		_ = os.RemoveAll(dir) // another user's, or another process is at it too
	}
}

// ownerAlive tells whether the process that made a work directory still runs.
// One that can't be told is taken to be alive.
func ownerAlive(dir string) bool {
	info, err := os.Stat(dir)
	if err != nil {
		return !os.IsNotExist(err)
	}
	if time.Since(info.ModTime()) < time.Minute {
		return true // perhaps not locked yet
	}
	unlock, err := lockDir(dir)
	if err != nil {
		return true
	}
	unlock()
	return false
}
