package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"

	"github.com/idem-go/idem"
)

// farSide is the system that steps have their effects in. It knows a charge that it
// gets twice by its downstream key, a transfer it does not, but tells what became of it.
// Everything else it only counts.
type farSide struct {
	url string

	mu  sync.Mutex
	all map[deed]*tally
}

// deed is what a request asked for.
type deed struct{ what, request string }

// tally is how often it was asked for, how often it was done, and the keys.
type tally struct {
	asked, done int
	keys        map[string]bool
}

func newFarSide(t *testing.T) *farSide {
	f := &farSide{all: make(map[deed]*tally)}
	srv := httptest.NewServer(f)
	t.Cleanup(srv.Close)
	f.url = srv.URL
	return f
}

func (f *farSide) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	f.mu.Lock()
	d := f.of(q.Get("what"), q.Get("request"))
	happened := d.done > 0
	if r.Method == http.MethodPost {
		known := q.Get("what") == "charge" && d.keys[q.Get("key")]
		d.asked++
		if !known {
			d.done++
		}
		d.keys[q.Get("key")] = true
	}
	f.mu.Unlock()
	_ = json.NewEncoder(w).Encode(happened)
}

// of is the tally of a deed. Called with f.mu held.
func (f *farSide) of(what, request string) *tally {
	d, ok := f.all[deed{what, request}]
	if !ok {
		d = &tally{keys: make(map[string]bool)}
		f.all[deed{what, request}] = d
	}
	return d
}

func (f *farSide) count(what, request string) (asked, done, keys int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.of(what, request)
	return d.asked, d.done, len(d.keys)
}

// far is how a child reaches the far side on behalf of a request.
type far struct{ url, request string }

func (f far) send(ctx context.Context, method, what, key string) (happened bool, err error) {
	q := url.Values{"what": {what}, "request": {f.request}, "key": {key}}
	req, err := http.NewRequestWithContext(ctx, method, f.url+"?"+q.Encode(), nil)
	if err != nil {
		return false, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	return happened, json.NewDecoder(resp.Body).Decode(&happened)
}

// do has it done, and gives its result.
func (f far) do(ctx context.Context, what, key string) (string, error) {
	_, err := f.send(ctx, http.MethodPost, what, key)
	return result(what, f.request), err
}

func (f far) inquire(ctx context.Context, what, key string) (string, idem.Outcome, error) {
	happened, err := f.send(ctx, http.MethodGet, what, key)
	switch {
	case err != nil:
		return "", idem.OutcomeUnknown, err
	case happened:
		return result(what, f.request), idem.OutcomeDone, nil
	}
	return "", idem.OutcomeNever, nil
}

func result(what, request string) string { return fmt.Sprintf("%s of %s", what, request) }
