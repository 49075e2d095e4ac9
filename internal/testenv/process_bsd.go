//go:build unix && !linux

package testenv

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// No death signal here: what a killed test process leaves is for the next one.
func setDeathSignal(*syscall.SysProcAttr, syscall.Signal) {}

func childrenOf(parent int) []int {
	out, err := exec.Command("pgrep", "-P", strconv.Itoa(parent)).Output()
	if err != nil {
		return nil
	}
	var pids []int
	for _, word := range strings.Fields(string(out)) {
		if pid, err := strconv.Atoi(word); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func running(pid int) bool { return syscall.Kill(pid, 0) == nil }

func workingDir(pid int) string {
	out, err := exec.Command("lsof", "-a", "-p", strconv.Itoa(pid), "-d", "cwd", "-Fn").Output()
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutPrefix(line, "n"); ok {
			return strings.TrimSpace(name)
		}
	}
	return ""
}
