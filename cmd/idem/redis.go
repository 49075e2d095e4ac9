package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	goredis "github.com/redis/go-redis/v9"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/conformance"
	"github.com/idem-go/idem/redis"
)

type redisPlace struct {
	server *goredis.Options
	prefix string // empty: the default
}

func locateRedis(dsn string, o options) (place, error) {
	server, err := goredis.ParseURL(dsn)
	if err != nil { // it can repeat the DSN
		return nil, errors.New("the DSN is no URL of a Redis server: write redis://user@host:6379/0, with special characters in user and password percent-encoded; values after ? are those of go-redis' ParseURL")
	}
	server.PoolSize = poolSize
	return redisPlace{server, o.prefix}, nil
}

func (p redisPlace) String() string {
	return fmt.Sprintf("%s, database %d", p.server.Addr, p.server.DB)
}

// client takes a copy of the options, since NewClient changes them.
func (p redisPlace) client() *goredis.Client {
	o := *p.server
	return goredis.NewClient(&o)
}

func (p redisPlace) open(context.Context) (backend.Backend, func(), error) {
	var opts []redis.Option
	if p.prefix != "" {
		opts = append(opts, redis.WithPrefix(p.prefix))
	}
	client := p.client()
	done := func() { client.Close() }
	b, err := redis.New(client, opts...)
	if err != nil {
		done()
		return nil, nil, err
	}
	return b, done, nil
}

// redisLab is a prefix. Every case has a longer one.
type redisLab struct {
	redisPlace
	name    string
	harness *goredis.Client
	cases   atomic.Int64
}

func (p redisPlace) lab(ctx context.Context) (*lab, error) {
	start := p.prefix
	if start == "" {
		start = "idem-conformance:"
	}
	l := &redisLab{redisPlace: p, name: start + strings.ToLower(rand.Text()) + ":", harness: p.client()}
	if err := l.harness.Ping(ctx).Err(); err != nil {
		l.harness.Close()
		return nil, cantAsk(p, err)
	}
	return &lab{name: "keys that begin with " + l.name, remove: l.remove, store: l.store}, nil
}

// remove deletes every key of the prefix, and looks until there is none: a write that
// was under way when its case ended may arrive late.
func (l *redisLab) remove(ctx context.Context) error {
	defer l.harness.Close()
	for {
		n, err := l.unlink(ctx)
		if n == 0 || err != nil {
			return err
		}
	}
}

func (l *redisLab) unlink(ctx context.Context) (n int, err error) {
	for cursor := uint64(0); ; {
		keys, next, err := l.harness.Scan(ctx, cursor, glob(l.name)+"*", 500).Result()
		if err != nil {
			return n, err
		}
		if len(keys) > 0 {
			if err := l.harness.Unlink(ctx, keys...).Err(); err != nil {
				return n, err
			}
		}
		n += len(keys)
		if cursor = next; cursor == 0 {
			return n, nil
		}
	}
}

func (l *redisLab) store(conformance.T) conformance.Store {
	prefix := fmt.Sprintf("%s%d:", l.name, l.cases.Add(1))
	return conformance.Store{Open: func(t conformance.T) backend.Backend {
		client := l.client()
		t.Cleanup(func() { client.Close() })
		b, err := redis.New(client, redis.WithPrefix(prefix))
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		return b
	}}
}

// glob escapes what SCAN's MATCH would take for a pattern.
func glob(prefix string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(prefix)
}

// The client has a line to say about every try to connect; its error says it once.
func init() { goredis.SetLogger(silent{}) }

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
