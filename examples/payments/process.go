package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// process is the server in a process of its own, so that it can be killed. It is
// this program again, with -serve and -demo.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer   // its end is the server's sign to stop, also if we are killed
	lines chan string // of its standard output
	addr  string
}

// listenLine is what the server prints when it listens, followed by its address.
const listenLine = "listening on http://"

// startServer returns when the server listens, which it does until life ends.
func startServer(ctx, life context.Context, dsn string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	cmd := exec.CommandContext(life, self, "-demo", "-serve", "127.0.0.1:0", "-backend", dsn)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	p := &process{cmd: cmd, stdin: stdin, lines: make(chan string, 16)}
	go func() {
		defer close(p.lines)
		for s := bufio.NewScanner(stdout); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	if p.addr, err = p.await(ctx, listenLine); err != nil {
		p.kill()
		return nil, fmt.Errorf("start the server: %w", err)
	}
	return p, nil
}

// await waits for a line that begins with prefix and returns the rest of it.
func (p *process) await(ctx context.Context, prefix string) (string, error) {
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				return "", fmt.Errorf("the server ended before it said %q", prefix)
			}
			if rest, found := strings.CutPrefix(line, prefix); found {
				return rest, nil
			}
		case <-ctx.Done():
			return "", fmt.Errorf("the server has not said %q: %w", prefix, ctx.Err())
		}
	}
}

// kill ends the server with SIGKILL: no handler, no deferred call, no rollback of
// its own.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.wait()
}

// stop asks the server to end.
func (p *process) stop() error {
	p.stdin.Close()
	if err := p.wait(); err != nil {
		return fmt.Errorf("stop the server: %w", err)
	}
	return nil
}

func (p *process) wait() error {
	for range p.lines { // to its end, as Wait demands
	}
	return p.cmd.Wait()
}
