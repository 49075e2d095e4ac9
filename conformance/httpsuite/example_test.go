package httpsuite_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/conformance"
	"github.com/idem-go/idem/conformance/httpsuite"
	"github.com/idem-go/idem/idemhttp"
	"github.com/idem-go/idem/memory"
)

// shop is a server as somebody else has it: it is known by its address.
func shop(protect func(next http.Handler) http.Handler) *httptest.Server {
	var payments atomic.Int64
	return httptest.NewServer(protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var order struct{ Amount int }
		if err := json.NewDecoder(r.Body).Decode(&order); err != nil {
			http.Error(w, "no order", http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "payment %d of %d", payments.Add(1), order.Amount)
	})))
}

func withKeys(next http.Handler) http.Handler {
	ex, err := idem.New(memory.New())
	if err != nil {
		panic(err)
	}
	m, err := idemhttp.New(ex, func(r *http.Request) (idem.Scope, error) {
		user, _, _ := r.BasicAuth()
		return idem.Scope{Tenant: "shop", Actor: user}, nil
	})
	if err != nil {
		panic(err)
	}
	return m.Wrap(next)
}

// forgetful has the middleware of many servers: it looks the key up in a map.
func forgetful(next http.Handler) http.Handler {
	answers := make(map[string]*httptest.ResponseRecorder)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		if answers[key] == nil {
			answers[key] = httptest.NewRecorder()
			next.ServeHTTP(answers[key], r)
		}
		w.WriteHeader(answers[key].Code)
		_, _ = w.Write(answers[key].Body.Bytes())
	})
}

func config(url string) httpsuite.Config {
	return httpsuite.Config{
		URL: url, Path: "/payments",
		Body:      func(n int) (string, []byte) { return "application/json", fmt.Appendf(nil, `{"amount": %d}`, n) },
		Authorize: func(user int, r *http.Request) { r.SetBasicAuth([]string{"ada", "bob"}[user], "secret") },
		Claims:    httpsuite.Ours(),
	}
}

// The suite outside of a test, first on a server that is right, then on one that
// looks right.
func ExampleCheck() {
	for _, protect := range []func(http.Handler) http.Handler{withKeys, forgetful} {
		s := shop(protect)
		r, err := httpsuite.Check(context.Background(), config(s.URL), httpsuite.Only("first", "replay/answer", "mismatch", "user/same-request"))
		s.Close()
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(r.Summary())
		for _, c := range r.Results {
			if c.Verdict == conformance.Failed {
				fmt.Println("-", c.ID, "broken:", c.Rule)
			}
		}
	}
	// Output:
	// 6 verified; 1 not run
	// 3 verified; 2 refuted; 2 not run
	// - mismatch/done broken: A key that was used for another request is refused with 422, and the first request keeps its answer. (draft-ietf-httpapi-idempotency-key-header-07, section 2.7)
	// - user/same-request broken: The same request with the same key from another user is carried out for that user, and never gets the first one's answer. (draft-ietf-httpapi-idempotency-key-header-07, section 5)
}

// In a test of the service, with all there is to say.
func ExampleRun() {
	TestIdempotency := func(t *testing.T) {
		s := shop(withKeys)
		defer s.Close()
		httpsuite.Run(t, config(s.URL), httpsuite.Without("http2"))
	}
	_ = TestIdempotency
}

func ExampleCases() {
	for _, c := range httpsuite.Cases()[:2] {
		fmt.Println(c.ID, "-", c.Rule)
	}
	// Output:
	// first/run - The first request with a key is carried out.
	// first/new-key - Another key is another request, also with the same content.
}
