package redis

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/idem-go/idem/backend"
)

//go:embed scripts/*.lua
var sources embed.FS

// script is a Lua script, called by its digest. The zero script is none.
type script = goredis.Script

// scripts are the state machine of package machine, one script a message.
type scripts struct{ claim, renew, checkpoint, complete, release, get, sweep, lapsed *script }

var shipped = load(source("clock"))

// load puts the scripts together: the first line says what the server must know
// before it runs one, the functions they share come next.
func load(clock string) scripts {
	assemble := func(name string) *script {
		flags, body, _ := strings.Cut(source(name), "\n")
		return goredis.NewScript(flags + "\n" + clock + source("record") + body)
	}
	return scripts{
		claim: assemble("claim"), renew: assemble("renew"), checkpoint: assemble("checkpoint"), complete: assemble("complete"),
		release: assemble("release"), get: assemble("get"), sweep: assemble("sweep"),
		lapsed: assemble("lapsed"),
	}
}

func source(name string) string {
	text, err := sources.ReadFile("scripts/" + name + ".lua")
	if err != nil {
		panic(err) // it is embedded
	}
	return string(text)
}

// run runs a script on a record and returns its answer.
func (b *Backend) run(ctx context.Context, what string, s *script, k backend.Key, args ...string) (any, error) {
	if err := backend.ContextDone(ctx, op+what); err != nil {
		return nil, err
	}
	reply, err := await(ctx, func() (any, error) {
		key := b.key(k)
		if b.cfg.replicas > 0 {
			return b.runReplicated(ctx, s, key, args)
		}
		return s.Run(ctx, once{b.client, b.client}, []string{key}, words(args)...).Result()
	})
	return reply, callError(ctx, what, err)
}

// words are the arguments as go-redis wants them.
func words(args []string) []any {
	out := make([]any, len(args))
	for i, a := range args {
		out[i] = a
	}
	return out
}

// await returns what f does, or the context's error when that ends first:
// go-redis waits for a reply whatever becomes of the context.
func await[T any](ctx context.Context, f func() (T, error)) (T, error) {
	if ctx.Done() == nil {
		return f()
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
	}
	select {
	case r := <-done: // both, and the answer tells more
		return r.value, r.err
	default:
		var none T
		return none, context.Cause(ctx)
	}
}

// once sends scripts without go-redis's own retries. With them the last of several
// errors is returned ("connection refused"), which proves nothing about the tries before.
type once struct {
	goredis.Scripter
	to processor
}

type processor interface {
	Process(ctx context.Context, cmd goredis.Cmder) error
}

func (o once) Eval(ctx context.Context, source string, keys []string, args ...any) *goredis.Cmd {
	return o.send(ctx, "eval", source, keys, args)
}

func (o once) EvalSha(ctx context.Context, digest string, keys []string, args ...any) *goredis.Cmd {
	return o.send(ctx, "evalsha", digest, keys, args)
}

func (o once) send(ctx context.Context, name, what string, keys []string, args []any) *goredis.Cmd {
	all := []any{name, what, len(keys)}
	for _, k := range keys {
		all = append(all, k)
	}
	cmd := goredis.NewCmd(ctx, append(all, args...)...)
	if err := o.to.Process(ctx, command{cmd}); err != nil {
		cmd.SetErr(err)
	}
	return cmd
}

// command is a command that go-redis does not repeat.
type command struct{ *goredis.Cmd }

// NoRetry implements [goredis.Cmder].
func (command) NoRetry() bool { return true }

var errReplicas = errors.New("too few replicas confirmed the write in time")

// runReplicated runs the script and waits for replicas. WAIT speaks of the writes
// of its own connection, so both need the same one.
func (b *Backend) runReplicated(ctx context.Context, s *script, key string, args []string) (any, error) {
	conn, err := b.connection(ctx, key)
	if err != nil {
		return nil, err
	}
	defer conn.Close() // back to the pool
	reply, err := s.Run(ctx, once{conn, conn}, []string{key}, words(args)...).Result()
	if err != nil {
		b.moved(ctx, err)
		return nil, err
	}
	n, err := conn.Wait(ctx, b.cfg.replicas, b.cfg.timeout).Result()
	switch {
	case err != nil:
		return nil, &waitError{err}
	case n < int64(b.cfg.replicas):
		return nil, &waitError{fmt.Errorf("%w: %d of %d", errReplicas, n, b.cfg.replicas)}
	}
	return reply, nil
}

// connection returns one to the server that has the key.
func (b *Backend) connection(ctx context.Context, key string) (*goredis.Conn, error) {
	switch c := b.client.(type) {
	case *goredis.ClusterClient:
		node, err := c.MasterForKey(ctx, key)
		if err != nil {
			return nil, &backend.Error{Op: op + "connect", Kind: backend.ErrUnavailable, Err: err}
		}
		return node.Conn(), nil
	case *goredis.Client:
		return c.Conn(), nil
	}
	return nil, invalid("WithReplicas needs a *Client or a *ClusterClient") // New has seen to it
}

// moved lets the client look for the key anew: a connection does not follow it.
func (b *Backend) moved(ctx context.Context, err error) {
	if cluster, ok := b.client.(*goredis.ClusterClient); ok && elsewhere(err) {
		cluster.ReloadState(ctx)
	}
}
