package testenv

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"time"
)

// instance is one running server, wherever it runs. Its address never changes.
type instance interface {
	addr() string
	start() error  // again, after stop or kill
	stop() error   // as an operator would
	kill() error   // at once and without a word, all processes of it
	pause() error  // all processes of it
	resume() error // after pause
	close() error  // ends it and removes what it kept
	exited() <-chan struct{}
	log() string // the end of what it wrote
}

// errNotReady is wrapped by what a server that did not come up is reported with.
var errNotReady = errors.New("server did not get ready")

// waitReady asks until the server answers, has ended or the time is over.
func waitReady(in instance, within time.Duration, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-in.exited():
			return fmt.Errorf("%w: it ended; its last words:\n%s", errNotReady, in.log())
		case <-ctx.Done():
			return fmt.Errorf("%w in %v: %w; its last words:\n%s", errNotReady, within, err, in.log())
		case <-tick.C:
		}
	}
}

// freePort finds a TCP port below the range that the system takes the ports of
// outgoing connections from, so that a server can come back to it.
func freePort() (int, error) {
	var err error
	for range 100 {
		port := 15000 + rand.IntN(15000)
		var ln net.Listener
		if ln, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, ln.Close()
		}
	}
	return 0, fmt.Errorf("no free port: %w", err)
}
