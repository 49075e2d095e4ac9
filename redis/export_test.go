package redis

import (
	"context"
	"fmt"
	"testing"

	"github.com/idem-go/idem/backend"
)

// WithClock lets the scripts go by a clock that the test keeps on the server: the key
// name+"now", which shows a microsecond more with every look. What is to
// expire stands in the sorted set name+"due", for the test to delete.
func (b *Backend) WithClock(name string) *Backend {
	moved := *b
	moved.do = load(fmt.Sprintf(`
local key = KEYS[1]
local function clock() return redis.call('INCR', '%[1]snow') end
local function expire(at) redis.call('ZADD', '%[1]sdue', string.format('%%.0f', at), key) end
local function persist() redis.call('ZREM', '%[1]sdue', key) end
`, name))
	return &moved
}

// KeyOf is the name of a record's key.
func (b *Backend) KeyOf(k backend.Key) string { return b.key(k) }

func (d scripts) all() map[string]*script {
	return map[string]*script{
		"claim": d.claim, "renew": d.renew, "checkpoint": d.checkpoint, "complete": d.complete,
		"release": d.release, "get": d.get, "sweep": d.sweep, "lapsed": d.lapsed,
	}
}

// RunScript runs a script with arguments that no method would give it.
func (b *Backend) RunScript(ctx context.Context, name string, k backend.Key, args ...string) error {
	return b.do.all()[name].Run(ctx, b.client, []string{b.key(k)}, words(args)...).Err()
}

// Sources are the scripts as the server gets them.
func Sources() map[string]string {
	texts := make(map[string]string)
	for name := range shipped.all() {
		texts[name] = source("clock") + source("record") + source(name)
	}
	return texts
}

// LoadScripts makes the scripts known to the server, which answers the first call of one with
// NOSCRIPT.
func (b *Backend) LoadScripts(t testing.TB) {
	t.Helper()
	d := b.do
	for _, s := range d.all() {
		if err := s.Load(t.Context(), b.client).Err(); err != nil {
			t.Fatal(err)
		}
	}
}
