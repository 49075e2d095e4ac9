package redis

import (
	"context"
	"errors"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/idem-go/idem/backend"
)

// Describe implements [backend.Backend]. On a cluster it asks every primary: a
// promise is made if all of them keep it. It reports a server that evicts, that
// keeps no append-only file or syncs it later than it answers, that is a replica,
// nearly full or too old, and one whose configuration it may not read.
func (b *Backend) Describe(ctx context.Context) (backend.Description, error) {
	const what = "describe"
	d := backend.Description{
		Name: "redis",
		Capabilities: backend.Capabilities{
			DurableKill:   true, // until a server says otherwise
			Shared:        true,
			NativeExpiry:  true,
			Clock:         backend.ClockServer,
			FreshReads:    true,
			MaxValue:      MaxValue,
			TokensBreakOn: []string{"failover", "clock step", "restore"},
		},
	}
	if err := backend.ContextDone(ctx, op+what); err != nil {
		return backend.Description{}, err
	}
	all, err := await(ctx, func() (all []server, err error) {
		err = b.primaries(ctx, func(ctx context.Context, c goredis.Cmdable) error {
			s, err := ask(ctx, c)
			all = append(all, s)
			return err
		})
		return all, err
	})
	if err != nil {
		return backend.Description{}, changesNothing(callError(ctx, what, err))
	}
	seen := make(map[string]bool)
	for _, s := range all {
		d.Server = s.info["redis_version"]
		d.Capabilities.DurableKill = d.Capabilities.DurableKill && s.aof() && s.fsync == "always"
		for _, f := range s.findings() {
			if !seen[f.ID] {
				d.Findings = append(d.Findings, f)
			}
			seen[f.ID] = true
		}
	}
	return d, nil
}

// server is what one of them says of itself.
type server struct {
	info  map[string]string
	fsync string // empty: it may not be asked
}

func ask(ctx context.Context, c goredis.Cmdable) (server, error) {
	text, err := c.Info(ctx).Result()
	if err != nil {
		return server{}, err
	}
	s := server{info: make(map[string]string)}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		s.info[name] = value
	}
	config, err := c.ConfigGet(ctx, "appendfsync").Result()
	var reply goredis.Error
	if err != nil && !errors.As(err, &reply) {
		return server{}, err
	}
	s.fsync = config["appendfsync"]
	return s, nil
}

func (s server) aof() bool { return s.info["aof_enabled"] == "1" }

// number is 0 where the server says none.
func (s server) number(name string) int64 {
	n, _ := strconv.ParseInt(s.info[name], 10, 64) // other servers leave fields out
	return n
}

func (s server) findings() (all []backend.Finding) {
	found := func(when bool, id string, severity backend.Severity, text, advice string) {
		if when {
			all = append(all, backend.Finding{ID: "redis/" + id, Severity: severity, Text: text, Advice: advice})
		}
	}
	if s.info["redis_mode"] == "sentinel" {
		found(true, "sentinel", backend.Unsafe,
			"this is a Sentinel: it keeps no records", "connect to the primary, in a service with a failover client that asks the Sentinels for it")
		return all
	}
	major, _, _ := strings.Cut(s.info["redis_version"], ".")
	version, err := strconv.Atoi(major)
	found(err == nil && version < 7, "version", backend.Unsafe,
		"the server is older than Redis 7.0 and can't run the scripts", "use Redis 7.0 or newer")
	policy := s.info["maxmemory_policy"]
	found(policy != "" && policy != "noeviction", "maxmemory-policy", backend.Unsafe,
		"maxmemory-policy is "+policy+": when memory is short, claims and stored answers are thrown away and keys run again", "set maxmemory-policy noeviction")
	found(!s.aof(), "appendonly", backend.Unsafe,
		"there is no append-only file: a crash takes back what was acknowledged since the last snapshot", "set appendonly yes and appendfsync always")
	found(s.aof() && s.fsync != "" && s.fsync != "always", "appendfsync", backend.Unsafe,
		"appendfsync is "+s.fsync+": a crash can take back what was acknowledged in the last second or more", "set appendfsync always")
	found(s.fsync == "", "config", backend.Warning,
		"CONFIG GET is not allowed, so that nothing is known about appendfsync", "allow CONFIG GET, or ask the operator whether it is always")
	found(s.info["role"] == "slave", "replica", backend.Unsafe,
		"this server is a replica: it refuses writes", "connect to the primary")
	limit := s.number("maxmemory")
	found(limit > 0 && s.number("used_memory") >= limit/10*9, "memory", backend.Warning,
		"nine tenths of maxmemory are used: a full server refuses new claims", "raise maxmemory or shorten the retention")
	return all
}
