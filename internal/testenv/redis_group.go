package testenv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// RedisGroup is a number of private Redis servers that know each other, by addresses
// which a client may have to be told the meaning of: see [RedisGroup.Dial].
type RedisGroup struct {
	Nodes []*RedisServer

	// Password is what all of them want to hear, sentinels too.
	Password string
}

// Addrs are the addresses that the servers tell clients to go to.
func (g *RedisGroup) Addrs() []string { return addrs(g.Nodes) }

func addrs(nodes []*RedisServer) []string {
	var all []string
	for _, n := range nodes {
		all = append(all, n.Peer())
	}
	return all
}

func (s *RedisServer) peerParts(t testing.TB) (host, port string) {
	t.Helper()
	host, port, err := net.SplitHostPort(s.Peer())
	if err != nil {
		t.Fatal(err)
	}
	return host, port
}

// Dial connects a client to the server that the others know by this address. It is a
// Dialer for the options of go-redis.
func (g *RedisGroup) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return dialAs(ctx, network, addr, g.Nodes, func(n *RedisServer) string { return n.Addr })
}

// Proxied puts a proxy before each server of the group and returns a Dialer that goes
// through them.
func (g *RedisGroup) Proxied(t testing.TB) (proxies []*Proxy, dial func(ctx context.Context, network, addr string) (net.Conn, error)) {
	t.Helper()
	by := make(map[*RedisServer]*Proxy)
	for _, n := range g.Nodes {
		p := n.Proxy(t)
		proxies, by[n] = append(proxies, p), p
	}
	return proxies, func(ctx context.Context, network, addr string) (net.Conn, error) {
		return dialAs(ctx, network, addr, g.Nodes, func(n *RedisServer) string { return by[n].Addr() })
	}
}

// dialAs dials the server of that name where it is reached.
func dialAs(ctx context.Context, network, name string, nodes []*RedisServer, at func(n *RedisServer) string) (net.Conn, error) {
	for _, n := range nodes {
		if n.Peer() == name {
			return new(net.Dialer).DialContext(ctx, network, at(n))
		}
	}
	return nil, &net.OpError{Op: "dial", Net: network, Err: fmt.Errorf("%s is none of the group's servers", name)}
}

// tell uses a client for one purpose.
func (s *RedisServer) tell(f func(ctx context.Context, c *redis.Client) error) error {
	client, err := redisClient(s.URL)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), redisStart)
	defer cancel()
	return errors.Join(f(ctx, client), client.Close())
}

// await asks every server of the group until each has said yes.
func (g *RedisGroup) await(t testing.TB, what string, is func(ctx context.Context, c *redis.Client) (bool, error)) {
	t.Helper()
	for _, n := range g.Nodes {
		n.await(t, what, is)
	}
}

// await asks the server until it says yes.
func (s *RedisServer) await(t testing.TB, what string, is func(ctx context.Context, c *redis.Client) (bool, error)) {
	t.Helper()
	err := s.tell(func(ctx context.Context, c *redis.Client) error {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			yes, err := is(ctx, c)
			if yes && err == nil {
				return nil
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return errors.Join(ctx.Err(), err)
			}
		}
	})
	if err != nil {
		t.Fatalf("%s: not in %v by %s: %v", what, redisStart, s.Addr, err)
	}
}
