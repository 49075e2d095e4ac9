package redis

import (
	"context"
	"errors"
	"strings"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"github.com/idem-go/idem/backend"
)

// sweepPage is about how many keys one SCAN looks at.
const sweepPage = 500

// Sweep implements [backend.Backend]. The server deletes by itself what is over;
// what a sweep looks for is abandoned runs with a recovery point, which it makes
// tombstones. It walks all keys of the prefix.
func (b *Backend) Sweep(ctx context.Context, limit int) (int, error) {
	const what = "sweep"
	if err := backend.ValidateSweep(limit); err != nil {
		return 0, err
	}
	if err := backend.ContextDone(ctx, op+what); err != nil {
		return 0, err
	}
	n, err := await(ctx, func() (int, error) {
		changed := 0
		err := b.primaries(ctx, func(ctx context.Context, c goredis.Cmdable) error {
			n, err := b.sweepServer(ctx, c, limit-changed)
			changed += n
			return err
		})
		return changed, err
	})
	return n, callError(ctx, what, err)
}

// primaries calls f for every server that has records, one after the other.
func (b *Backend) primaries(ctx context.Context, f func(ctx context.Context, c goredis.Cmdable) error) error {
	cluster, ok := b.client.(*goredis.ClusterClient)
	if !ok {
		return f(ctx, b.client)
	}
	var one sync.Mutex
	return cluster.ForEachMaster(ctx, func(ctx context.Context, c *goredis.Client) error {
		one.Lock()
		defer one.Unlock()
		return f(ctx, c)
	})
}

func (b *Backend) sweepServer(ctx context.Context, c goredis.Cmdable, limit int) (changed int, err error) {
	if err := b.do.sweep.Load(ctx, c).Err(); err != nil { // pipelines can't fall back to EVAL
		return 0, err
	}
	var cursor uint64
	for changed < limit {
		if err := ctx.Err(); err != nil {
			return changed, err
		}
		var keys []string
		keys, cursor, err = c.ScanType(ctx, cursor, glob(b.cfg.prefix)+"*", sweepPage, "hash").Result()
		if err != nil {
			return changed, err
		}
		if keys, err = lasting(ctx, c, keys); err != nil {
			return changed, err
		}
		for len(keys) > 0 && changed < limit {
			some := keys[:min(len(keys), limit-changed)]
			keys = keys[len(some):]
			n, err := b.sweepKeys(ctx, c, some)
			changed += n
			if err != nil {
				return changed, err
			}
		}
		if cursor == 0 {
			break
		}
	}
	return changed, nil
}

// lasting returns those keys that the server will not delete by itself.
func lasting(ctx context.Context, c goredis.Cmdable, keys []string) ([]string, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	ttls, err := c.Pipelined(ctx, func(p goredis.Pipeliner) error {
		for _, k := range keys {
			p.PTTL(ctx, k)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var out []string
	for i, cmd := range ttls {
		if ttl, ok := cmd.(*goredis.DurationCmd); ok && ttl.Val() == -1 { // no expiry; -2: gone meanwhile
			out = append(out, keys[i])
		}
	}
	return out, nil
}

func (b *Backend) sweepKeys(ctx context.Context, c goredis.Cmdable, keys []string) (changed int, err error) {
	cmds, err := c.Pipelined(ctx, func(p goredis.Pipeliner) error {
		for _, k := range keys {
			b.do.sweep.EvalSha(ctx, p, []string{k})
		}
		return nil
	})
	var errs []error
	for _, cmd := range cmds {
		if one, ok := cmd.(*goredis.Cmd); ok {
			n, err := one.Int()
			changed += n
			errs = append(errs, err)
		}
	}
	return changed, errors.Join(append(errs, err)...)
}

// glob escapes what SCAN's MATCH would take for a pattern.
func glob(prefix string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(prefix)
}
