package redis_test

import (
	"encoding/hex"
	"maps"
	"regexp"
	"strconv"
	"testing"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/redis"
)

// a script that fails half way keeps its first writes. Ours fail before them: with fewer
// arguments, or words where numbers belong, nothing is changed.
func TestScriptsFailBeforeTheyWrite(t *testing.T) {
	t.Parallel()
	b, client, _ := started(t)
	stored := func(k backend.Key) map[string]string {
		all, err := client.HGetAll(t.Context(), b.KeyOf(k)).Result()
		must(t, err)
		at, err := client.PExpireTime(t.Context(), b.KeyOf(k)).Result()
		must(t, err)
		all["expires by itself"] = at.String()
		return all
	}
	held := acquire(t, b, request("held"))
	must(t, b.Checkpoint(t.Context(), held.Holder(), point(1, "p")))
	lapsed := acquire(t, b, request("lapsed"))
	must(t, b.Checkpoint(t.Context(), lapsed.Holder(), point(1, "p")))
	must(t, b.Release(t.Context(), lapsed.Holder()))

	id := newID()
	claim := []string{
		hex.EncodeToString(id[:]), "POST /payments", "POST", "/payments", "payload", "60000000", "60000000", "60000000",
		"0", "0", "v1", hex.EncodeToString(append([]byte{1}, make([]byte, 31)...)),
	}
	holder := []string{hex.EncodeToString(held.ClaimID[:]), strconv.FormatInt(int64(held.Token), 10)}
	for _, tt := range []struct {
		script  string
		key     backend.Key
		args    []string
		numbers []int
	}{
		{"renew", held.Key, append(holder, "3600000000"), []int{2}},
		{"checkpoint", held.Key, append(holder, "2", "q", "state"), nil},
		{"complete", held.Key, append(holder, "3", "", "201", "header", "body"), nil},
		{"claim", lapsed.Key, claim, []int{5, 6, 7}},
		{"claim", request("fresh").Key, claim, []int{5, 6, 7}},
	} {
		before := stored(tt.key)
		wrong := make([][]string, 0, len(tt.args)+len(tt.numbers))
		for n := range tt.args {
			wrong = append(wrong, tt.args[:n])
		}
		for _, i := range tt.numbers {
			args := append([]string{}, tt.args...)
			args[i] = "word"
			wrong = append(wrong, args)
		}
		for _, args := range wrong {
			err := b.RunScript(t.Context(), tt.script, tt.key, args...)
			if after := stored(tt.key); !maps.Equal(after, before) {
				t.Fatalf("%s(%q) = %v, left %q, want %q", tt.script, args, err, after, before)
			}
		}
		must(t, b.RunScript(t.Context(), tt.script, tt.key, tt.args...))
		if maps.Equal(stored(tt.key), before) {
			t.Errorf("%s(%q) changed nothing, want it to", tt.script, tt.args)
		}
	}
}

// what a script touches is declared, and it says nothing that only some of the
// compatible servers and versions of Lua understand.
func TestScriptsArePlain(t *testing.T) {
	t.Parallel()
	for name, text := range redis.Sources() {
		for _, wrong := range []string{`KEYS\[[^1]`, `#KEYS`, `\bunpack\b`, `table\.(getn|maxn|unpack)`, `cjson`, `cmsgpack`, `loadstring`, `setfenv`, `//`, `<<`} {
			if found := regexp.MustCompile(wrong).FindString(text); found != "" {
				t.Errorf("script %s has %q in it", name, found)
			}
		}
		for _, call := range regexp.MustCompile(`redis\.call\([^,)]*,? ?([a-z]*)`).FindAllStringSubmatch(text, -1) {
			if call[1] != "key" && call[1] != "" {
				t.Errorf("script %s calls %s..., want KEYS[1] and nothing else", name, call[0])
			}
		}
	}
}
