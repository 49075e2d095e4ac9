//go:build unix

package crash

import (
	"errors"
	"os/exec"
	"syscall"
)

// stop is kill -STOP. It may return a moment before it works.
func stop() {
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGSTOP); err != nil {
		panic(err)
	}
}

// killed reports whether a process ended by kill -9.
func killed(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signal() == syscall.SIGKILL
}
