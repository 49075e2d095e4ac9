package redis

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/idem-go/idem/backend"
)

var _ backend.Lister = (*Backend)(nil)

// Lapsed implements [backend.Lister]. It walks all keys of the prefix, and keeps what it
// finds until it is through: go-redis can't be interrupted where it waits.
func (b *Backend) Lapsed(ctx context.Context, yield func(backend.Lapse) bool) error {
	const what = "lapsed"
	if err := backend.ContextDone(ctx, op+what); err != nil {
		return err
	}
	all, err := await(ctx, func() ([]backend.Lapse, error) {
		found := make(map[backend.Key]backend.Lapse) // SCAN can give a key twice
		err := b.primaries(ctx, func(ctx context.Context, c goredis.Cmdable) error { return b.lapsedOn(ctx, c, found) })
		return slices.Collect(maps.Values(found)), err
	})
	if err != nil {
		return changesNothing(callError(ctx, what, err))
	}
	for _, l := range all {
		if !yield(l) {
			break
		}
	}
	return nil
}

// lapsedOn adds what is lapsed on one server.
func (b *Backend) lapsedOn(ctx context.Context, c goredis.Cmdable, found map[backend.Key]backend.Lapse) error {
	if err := b.do.lapsed.Load(ctx, c).Err(); err != nil { // pipelines can't fall back to EVAL
		return err
	}
	var cursor uint64
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		keys, next, err := c.ScanType(ctx, cursor, glob(b.cfg.prefix)+"*", sweepPage, "hash").Result()
		if err != nil {
			return err
		}
		cmds, err := c.Pipelined(ctx, func(p goredis.Pipeliner) error {
			for _, k := range keys {
				b.do.lapsed.EvalSha(ctx, p, []string{k})
			}
			return nil
		})
		if err != nil {
			return err
		}
		for i, cmd := range cmds {
			one, _ := cmd.(*goredis.Cmd)
			l, ok := lapse(one)
			if l.Key, ok = b.keyOf(keys[i], ok); ok {
				found[l.Key] = l
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// lapse reads what the script lapsed answers.
func lapse(cmd *goredis.Cmd) (l backend.Lapse, ok bool) {
	words, err := cmd.StringSlice()
	if err != nil || len(words) != 3 {
		return l, false
	}
	f := fields{"token": words[1], "attempt": words[2]}
	return backend.Lapse{Operation: words[0], Token: backend.Token(f.int("token")), Attempt: int(f.int("attempt"))}, true
}

// keyOf is the key whose record has this name; false if it is no name of ours.
func (b *Backend) keyOf(name string, is bool) (k backend.Key, ok bool) {
	rest, ours := strings.CutPrefix(name, b.cfg.prefix)
	k.Tenant, rest = counted(rest)
	k.Actor, k.Value = counted(rest)
	return k, is && ours && b.key(k) == name
}

// counted takes a text with its length before it, as key writes it, from s.
func counted(s string) (text, rest string) {
	length, rest, _ := strings.Cut(s, ":")
	n, err := strconv.Atoi(length)
	if err != nil || n < 0 || n >= len(rest) {
		return "", ""
	}
	return rest[:n], rest[n+1:]
}
