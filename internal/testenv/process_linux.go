package testenv

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

func setDeathSignal(attr *syscall.SysProcAttr, s syscall.Signal) { attr.Pdeathsig = s }

// childrenOf lists the processes that a process has forked and that still run.
func childrenOf(parent int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if state, ppid := procStat(pid); ppid == parent && state != "Z" {
			pids = append(pids, pid)
		}
	}
	return pids
}

func running(pid int) bool {
	state, _ := procStat(pid)
	return state != "" && state != "Z"
}

// procStat reads state and parent from /proc/PID/stat (proc(5)), "" and 0 for a
// process that is gone. The name before them may contain anything.
func procStat(pid int) (state string, parent int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 2 {
		return "", 0
	}
	parent, err = strconv.Atoi(fields[1])
	if err != nil {
		return "", 0
	}
	return fields[0], parent
}

func workingDir(pid int) string {
	dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	if err != nil {
		return ""
	}
	return dir
}
