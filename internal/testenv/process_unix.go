//go:build unix

package testenv

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// program says how to run a server that is installed on this machine.
type program struct {
	path string
	args []string
	env  []string
	user string // who runs it where the tests run as root; "" for root

	quit  syscall.Signal // asks it to end in order
	crash syscall.Signal // what it gets when the test process dies
}

// process is a program that runs, or ran.
type process struct {
	program
	dir     string // removed by close
	address string

	cmd     *exec.Cmd
	done    chan struct{}
	members []int // what pause has stopped
}

// startProcess runs the program with dir as its working directory.
func startProcess(p program, dir, address string) (*process, error) {
	proc := &process{program: p, dir: dir, address: address}
	return proc, proc.start()
}

func (p *process) addr() string            { return p.address }
func (p *process) exited() <-chan struct{} { return p.done }
func (p *process) logFile() string         { return filepath.Join(p.dir, "log") }

func (p *process) start() error {
	log, err := os.OpenFile(p.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the child has its own
	cmd, err := p.command(log)
	if err != nil {
		return err
	}
	done := make(chan struct{})
	started := make(chan error)
	go func() {
		// The kernel sends the death signal when the thread that forked ends,
		// not the process: it has to stay until the child has gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(done)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", p.path, err)
	}
	p.cmd, p.done, p.members = cmd, done, nil
	return nil
}

func (p *process) command(log *os.File) (*exec.Cmd, error) {
	cmd := exec.Command(p.path, p.args...)
	cmd.Dir = p.dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir}, p.env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is for the tests, which then stop it
	setDeathSignal(cmd.SysProcAttr, p.crash)
	cred, err := credential(p.user)
	if err != nil {
		return nil, err
	}
	cmd.SysProcAttr.Credential = cred
	return cmd, nil
}

func (p *process) stop() error {
	if err := p.signal(p.quit); err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(20 * time.Second):
		return errors.Join(fmt.Errorf("%s ignores %v", p.path, p.quit), p.kill())
	}
}

func (p *process) kill() error {
	// Stopped first, it can't fork a child that is not on the list.
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	children := childrenOf(p.cmd.Process.Pid)
	err := p.signal(syscall.SIGKILL)
	for _, pid := range children {
		_ = syscall.Kill(pid, syscall.SIGKILL) // may have ended by itself
	}
	<-p.done
	return errors.Join(err, waitGone(children))
}

func (p *process) pause() error {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	p.members = childrenOf(p.cmd.Process.Pid)
	for _, pid := range p.members {
		_ = syscall.Kill(pid, syscall.SIGSTOP) // may have ended by itself
	}
	return nil
}

func (p *process) resume() error {
	for _, pid := range p.members {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	p.members = nil
	return p.signal(syscall.SIGCONT)
}

func (p *process) close() error {
	var err error
	if p.done != nil {
		select {
		case <-p.done:
		default:
			err = p.kill() // nobody reads its data again
		}
	}
	return errors.Join(err, os.RemoveAll(p.dir))
}

// signal does nothing to a process that has ended.
func (p *process) signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%v to %s: %w", s, p.path, err)
	}
	return nil
}

func (p *process) log() string {
	const tail = 2000
	text, err := os.ReadFile(p.logFile())
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(text[max(0, len(text)-tail):]))
}

// credential is that of a user for programs that refuse to run as root, nil where
// the tests don't run as root.
func credential(name string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 || name == "" {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// serverDir makes a directory that belongs to the user who runs the server.
func serverDir(name, owner string) (string, error) {
	base, err := workDir()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(base, name+"-")
	if err != nil {
		return "", err
	}
	cred, err := credential(owner)
	if err != nil || cred == nil {
		return dir, err
	}
	return dir, os.Chown(dir, int(cred.Uid), int(cred.Gid))
}

// waitGone waits for processes that are nobody's children here to disappear.
func waitGone(pids []int) error {
	deadline := time.Now().Add(10 * time.Second)
	for _, pid := range pids {
		for running(pid) {
			if time.Now().After(deadline) {
				return fmt.Errorf("process %d survives SIGKILL", pid)
			}
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// killLeftovers ends the servers of a work directory whose owner is gone. They
// are found by the file that a server keeps its process id in, with its data.
func killLeftovers(dir string) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "data", "*.pid"))
	if err != nil {
		return
	}
	for _, file := range files {
		pid, ok := serverOf(file)
		if !ok {
			continue
		}
		for _, child := range childrenOf(pid) {
			_ = syscall.Kill(child, syscall.SIGKILL)
		}
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// serverOf returns the process that such a file names, if it is still the
// server of that directory: the number may be another process's by now.
func serverOf(file string) (pid int, ok bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	data, err := filepath.EvalSymlinks(filepath.Dir(file))
	if err != nil {
		return 0, false
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err = strconv.Atoi(first)
	if err != nil || pid <= 1 || workingDir(pid) != data {
		return 0, false
	}
	return pid, true
}
