//go:build !race

package idemhttp

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/memory"
)

// What the middleware on memory costs beside the bare handler, for a JSON body of
// 1 KiB: allocations of a first request, and of a replay. Not under the race
// detector, which makes sync.Pool drop at random.
func TestAllocations(t *testing.T) {
	const (
		rounds      = 1000
		firstLimit  = 25
		replayLimit = 12
	)
	body := fmt.Sprintf(`{"item": "tea", "count": 1, "note": %q}`, strings.Repeat("x", 1024))[:1022] + `"}`
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Location", "/orders/1")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"id": 1}`)
	})
	keys := make([]string, 2*rounds)
	for i := range keys {
		keys[i] = fmt.Sprintf("%q", fmt.Sprintf("key-number-%08d", i))
	}
	measure := func(h http.Handler, keys []string, replayed string) float64 {
		i := 0
		return testing.AllocsPerRun(rounds, func() {
			r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Idempotency-Key", keys[i%len(keys)])
			i++
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != http.StatusCreated || w.Header().Get(replayedHeader) != replayed {
				t.Fatalf("request %d = %d %q", i, w.Code, w.Body)
			}
		})
	}
	ex, err := idem.New(memory.New())
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(ex, byUser)
	if err != nil {
		t.Fatal(err)
	}
	bare := measure(h, keys, "")
	first := measure(m.Wrap(h), keys, "") - bare
	replay := measure(m.Wrap(h), keys[:1], "true") - bare
	t.Logf("bare handler %v, first request %+v, replay %+v", bare, first, replay)
	if first > firstLimit {
		t.Errorf("a first request makes %v allocations more than the bare handler, want at most %d", first, firstLimit)
	}
	if replay > replayLimit {
		t.Errorf("a replay makes %v allocations more than the bare handler, want at most %d", replay, replayLimit)
	}
}
