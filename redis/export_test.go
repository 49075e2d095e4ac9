package redis

import (
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

// LoadScripts makes the scripts known to the server, which answers the first call of one with
// NOSCRIPT.
func (b *Backend) LoadScripts(t testing.TB) {
	t.Helper()
	d := b.do
	for _, s := range []*script{d.claim, d.renew, d.checkpoint, d.complete, d.release, d.get, d.sweep, d.lapsed} {
		if err := s.Load(t.Context(), b.client).Err(); err != nil {
			t.Fatal(err)
		}
	}
}
