package httpsuite_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/conformance/httpsuite"
	"github.com/idem-go/idem/idemhttp"
	"github.com/idem-go/idem/memory"
)

func scope(r *http.Request) (idem.Scope, error) {
	return idem.Scope{Tenant: "shop", Actor: r.Header.Get("X-User")}, nil
}

// protected is the app behind idemhttp.
func protected(t *testing.T, a *app, opts ...idemhttp.Option) http.Handler {
	t.Helper()
	ex, err := idem.New(memory.New())
	if err != nil {
		t.Fatal(err)
	}
	m, err := idemhttp.New(ex, scope, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return m.Wrap(a)
}

// The library's own middleware passes its suite, however it is set up.
func TestOurs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		opts   []idemhttp.Option
		config func(c *httpsuite.Config)
	}{
		{"defaults", nil, func(*httpsuite.Config) {}},
		{"strict", []idemhttp.Option{idemhttp.WithKeySyntax(idemhttp.KeySyntax{Strict: true})}, func(c *httpsuite.Config) { c.Strict = true }},
		{"optional", []idemhttp.Option{idemhttp.Optional()}, func(c *httpsuite.Config) { c.Optional = true }},
		{
			"other names and lengths",
			[]idemhttp.Option{idemhttp.WithHeader("X-Request-Key"), idemhttp.WithMethods("PUT"), idemhttp.WithKeySyntax(idemhttp.KeySyntax{MinLen: 20, MaxLen: 64})},
			func(c *httpsuite.Config) { c.Header, c.Method, c.MinKey, c.MaxKey = "x-request-key", "PUT", 20, 64 },
		},
		{"by the answers alone", nil, func(c *httpsuite.Config) { c.Effects = nil }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := newApp()
			c := a.serve(t, protected(t, a, tt.opts...), planted{secure: true})
			tt.config(&c)
			var opts []httpsuite.Option
			if c.Effects == nil {
				opts = append(opts, httpsuite.Without("lost/response")) // what nobody saw has to be counted
			}
			httpsuite.Run(t, c, opts...)
		})
	}
}

// A server that is asked for two seconds when it can't be made to hold a request.
func TestSlowByItself(t *testing.T) {
	t.Parallel()
	a := newApp()
	h := protected(t, a)
	c := a.serve(t, h, planted{})
	hold := c.Slow
	c.Slow = func(n int) (<-chan struct{}, func()) {
		_, release := hold(n)
		return nil, release
	}
	httpsuite.Run(t, c, httpsuite.Only("mismatch", "concurrent", "user", "lost"))
}

// What can't be checked is not run and says why; it is not passed.
func TestNotRun(t *testing.T) {
	t.Parallel()
	a := newApp()
	s := httptest.NewServer(protected(t, a, idemhttp.WithErrorHandler(func(*http.Request, error) {})))
	t.Cleanup(s.Close)
	h := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("X-User", "ada")
		h.ServeHTTP(w, r)
	})
	for _, tt := range []struct {
		name    string
		config  httpsuite.Config
		reasons map[string]string
	}{
		{"nothing but the needed", httpsuite.Config{}, map[string]string{
			"replay/marked": "Config.Replayed", "mismatch/in-flight": "Config.Slow", "concurrent/in-progress": "Config.Slow",
			"concurrent/retry-after": "Config.RetryAfter", "user/same-request": "Config.Authorize", "user/other-request": "Config.Authorize",
			"user/in-flight": "Config.Authorize", "key/length": "Config.MinKey", "lost/response": "Config.Effects", "lost/in-flight": "Config.Effects",
			"problem/form": "Config.Problems", "problem/in-progress": "Config.Problems", "problem/types": "Config.Problems",
			"problem/retryable": "Config.Retryable", "problem/retryable-in-progress": "Config.Retryable", "problem/no-store": "Config.Problems",
			"http2/replay": "https", "http2/several": "https", "http2/concurrent": "https",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.config.URL, tt.config.Body = s.URL, body
			r, err := httpsuite.Check(t.Context(), tt.config)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range r.Results {
				want, open := tt.reasons[c.ID]
				switch {
				case c.Verdict == "failed", (c.Verdict == "not run") != open, !strings.Contains(c.Reason, want):
					t.Errorf("%s is %s: %s %q, want not run: %v, for %q", c.ID, c.Verdict, c.Reason, c.Log, open, want)
				}
			}
		})
	}
}

// Where two runs have equal answers and nobody counts, nothing is shown by them.
func TestEqualAnswersShowNothing(t *testing.T) {
	t.Parallel()
	ex, err := idem.New(memory.New())
	if err != nil {
		t.Fatal(err)
	}
	m, err := idemhttp.New(ex, scope)
	if err != nil {
		t.Fatal(err)
	}
	a := newApp()
	c := a.serve(t, m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })), planted{})
	c.Effects, c.Replayed = nil, ""
	ids := []string{"first/new-key", "replay/one-effect", "concurrent/one-effect", "user/same-request"}
	r, err := httpsuite.Check(t.Context(), c, httpsuite.Only(ids...))
	if err != nil {
		t.Fatal(err)
	}
	for _, res := range r.Results {
		if res.Verdict != "not run" || !strings.Contains(res.Reason, "are equal") {
			t.Errorf("%s is %s: %q, want not run because answers are equal", res.ID, res.Verdict, res.Reason)
		}
	}
	if len(r.Results) != len(ids) {
		t.Errorf("%d results, want %d", len(r.Results), len(ids))
	}
}
