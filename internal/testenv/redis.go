package testenv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// RedisServer is a running Redis server and a prefix of keys on it that the test
// has for itself.
type RedisServer struct {
	// URL reaches the server as a user who may do everything.
	URL string

	// Addr is the server's "host:port".
	Addr string

	// Prefix is what the names of the test's keys begin with. They are deleted when
	// the test ends.
	Prefix string

	peer string
	controls
}

// Redis returns the server of this test process with a new prefix. A test that
// stops, kills or configures the server wants [RedisPrivate].
func Redis(t testing.TB) *RedisServer {
	t.Helper()
	sharedRedis.Lock()
	if !sharedRedis.tried {
		sharedRedis.tried = true
		sharedRedis.server, sharedRedis.err = choose(t, "Redis", providers(t), func(p provider) (*redisServer, error) { return startRedis(p, redisConfig{}) })
		if sharedRedis.err == nil && sharedRedis.server.instance != nil {
			onShutdown(sharedRedis.server.close)
		}
	}
	srv, err := sharedRedis.server, sharedRedis.err
	sharedRedis.Unlock()
	if err != nil {
		Unavailable(t, "redis", err)
	}
	s := newRedis(srv, false)
	t.Cleanup(func() {
		if err := deleteKeys(s.URL, s.Prefix); err != nil {
			t.Errorf("deleting the test's keys: %v", err)
		}
	})
	return s
}

// RedisPrivate starts a server for this test alone, with settings such as
// "maxmemory=8mb", and stops it when the test ends.
func RedisPrivate(t testing.TB, settings ...string) *RedisServer {
	t.Helper()
	return redisPrivate(t, redisConfig{settings: settings})
}

func redisPrivate(t testing.TB, conf redisConfig) *RedisServer {
	t.Helper()
	srv, err := choose(t, "Redis", ours(t), func(p provider) (*redisServer, error) { return startRedis(p, conf) })
	if err != nil {
		Unavailable(t, "redis", err)
	}
	t.Cleanup(func() {
		if err := srv.close(); err != nil {
			t.Errorf("stopping Redis: %v", err)
		}
	})
	return newRedis(srv, true)
}

var sharedRedis struct {
	sync.Mutex
	tried  bool
	server *redisServer
	err    error
}

// redisServer is a Redis server and how to get in.
type redisServer struct {
	instance // nil for one that is not ours
	password string
	base     *url.URL // of one that is not ours
	peer     string   // where other servers of ours reach it
}

const redisStart = 30 * time.Second // usually under a tenth of a second

// redisConfig says what kind of server to start.
type redisConfig struct {
	settings []string // "name=value"
	sentinel string   // the configuration file of a Sentinel; empty for a server with records
}

func startRedis(p provider, conf redisConfig) (*redisServer, error) {
	switch p {
	case fromEnv:
		return redisFromEnv()
	case fromDocker:
		return startDockerRedis(conf)
	default:
		return startLocalRedis(conf)
	}
}

func redisFromEnv() (*redisServer, error) {
	given := os.Getenv("IDEM_TEST_REDIS_URL")
	if given == "" {
		return nil, fmt.Errorf("IDEM_TEST_REDIS_URL is not set: %w", errNotConfigured)
	}
	base, err := url.Parse(given)
	if err != nil || base.Host == "" {
		return nil, errors.New("IDEM_TEST_REDIS_URL is not a redis://user:password@host:port/database URL")
	}
	if base.Port() == "" {
		base.Host += ":6379"
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := ping(ctx, base.String()); err != nil {
		return nil, fmt.Errorf("the server of IDEM_TEST_REDIS_URL: %w", err)
	}
	return &redisServer{base: base}, nil
}

// redisArgs are the arguments of redis-server. Snapshots are off unless a setting
// turns them on.
func redisArgs(password string, settings []string) []string {
	args := []string{"--requirepass", password, "--masterauth", password, "--save", ""}
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		args = append(args, "--"+name)
		args = append(args, strings.Split(value, " ")...)
	}
	return args
}

// redisPassword is one for all servers of the process: a replica needs its primary's.
var redisPassword = sync.OnceValue(rand.Text)

func redisURL(password, addr string) *url.URL {
	return &url.URL{Scheme: "redis", User: url.UserPassword("default", password), Host: addr, Path: "/0"}
}

func asksRedis(password string) func(addr string) func(context.Context) error {
	return func(addr string) func(context.Context) error {
		return func(ctx context.Context) error { return ping(ctx, redisURL(password, addr).String()) }
	}
}

func newRedis(srv *redisServer, private bool) *RedisServer {
	u := srv.base
	if u == nil {
		u = redisURL(srv.password, srv.addr())
	}
	s := &RedisServer{
		URL: u.String(), Addr: u.Host, Prefix: "test_" + strings.ToLower(rand.Text()[:12]) + ":", peer: srv.peer,
		controls: controls{what: "Redis", own: "RedisPrivate", within: redisStart, ask: asksRedis(srv.password)(u.Host)},
	}
	if private {
		s.in = srv.instance
	}
	return s
}

// Via is URL with another "host:port", a proxy's.
func (s *RedisServer) Via(addr string) string {
	u, err := url.Parse(s.URL)
	if err != nil {
		panic(err) // it was made by url.URL.String
	}
	u.Host = addr
	return u.String()
}

// Peer is the "host:port" at which another server of [RedisPrivate] reaches
// this private one.
func (s *RedisServer) Peer() string { return s.peer }

// Proxy puts a proxy in front of the server. A command is one unit of it as long as
// it is small and its connection not shared. Connect through it with s.Via(proxy.Addr()).
func (s *RedisServer) Proxy(t testing.TB) *Proxy {
	t.Helper()
	return NewProxy(t, s.Addr)
}

// While a server starts, its client has a line to say about every try.
func init() { redis.SetLogger(silent{}) }

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// redisClient is for one purpose at a time.
func redisClient(target string) (*redis.Client, error) {
	opts, err := redis.ParseURL(target)
	if err != nil {
		return nil, err
	}
	opts.MaxRetries, opts.DialerRetries = -1, 1
	opts.PoolSize = 10 // as many failed dials start a goroutine that outlives Close by a second
	opts.ContextTimeoutEnabled = true
	return redis.NewClient(opts), nil
}

func ping(ctx context.Context, target string) error {
	client, err := redisClient(target)
	if err != nil {
		return err
	}
	return errors.Join(client.Ping(ctx).Err(), client.Close())
}

func deleteKeys(target, prefix string) error {
	client, err := redisClient(target)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var cursor uint64
	for {
		keys, next, err := client.Scan(ctx, cursor, prefix+"*", 1000).Result()
		if err == nil && len(keys) > 0 {
			err = client.Unlink(ctx, keys...).Err()
		}
		if err != nil || next == 0 {
			return err
		}
		cursor = next
	}
}
