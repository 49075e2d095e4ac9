package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// process is the service in a process of its own, so that it can be killed. It is
// this program again.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer   // its end is the service's sign to stop, also if we are killed
	lines chan string // of its standard output
	addr  string
}

// listenLine is what the service prints when it listens, followed by its address.
const listenLine = "listening on http://"

// startService returns when the service listens, which it does until life ends.
func startService(ctx, life context.Context, dsn string, p partners) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start the service: %w", err)
	}
	cmd := exec.CommandContext(life, self, "-service", "-backend", dsn, "-gateway", p.gateway, "-board", p.board, "-careless="+strconv.FormatBool(p.careless))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the service: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start the service: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the service: %w", err)
	}
	s := &process{cmd: cmd, stdin: stdin, lines: make(chan string, 64)}
	go func() {
		defer close(s.lines)
		for in := bufio.NewScanner(stdout); in.Scan(); {
			s.lines <- in.Text()
		}
	}()
	if s.addr, err = s.await(ctx, listenLine); err != nil {
		s.kill()
		return nil, fmt.Errorf("start the service: %w", err)
	}
	return s, nil
}

// await waits for a line that begins with prefix and returns the rest of it.
func (s *process) await(ctx context.Context, prefix string) (string, error) {
	for {
		select {
		case line, ok := <-s.lines:
			if !ok {
				return "", fmt.Errorf("the service ended before it said %q", prefix)
			}
			if rest, found := strings.CutPrefix(line, prefix); found {
				return rest, nil
			}
		case <-ctx.Done():
			return "", fmt.Errorf("the service has not said %q: %w", prefix, ctx.Err())
		}
	}
}

// kill ends the service with SIGKILL: no handler, no deferred call, no rollback of
// its own.
func (s *process) kill() {
	_ = s.cmd.Process.Kill()
	_, _ = s.end()
}

// stop asks the service to end, and returns what it said that nobody has waited for.
func (s *process) stop() ([]string, error) {
	s.stdin.Close()
	said, err := s.end()
	if err != nil {
		return said, fmt.Errorf("stop the service: %w", err)
	}
	return said, nil
}

func (s *process) end() (said []string, err error) {
	for line := range s.lines { // to its end, as Wait demands
		said = append(said, line)
	}
	return said, s.cmd.Wait()
}
