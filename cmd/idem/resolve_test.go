package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/idemhttp"
)

// A message that must not be sent twice, and may have been. On every store an operator
// looks, says what became of it, and the next retry goes on from there.
func TestResolve(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, s server) {
		ex, err := idem.New(s.b, idem.WithPhases("1"), idem.WithLease(2*time.Second), idem.WithWait(time.Minute))
		must(t, err)
		sent, keys := make(map[string]int), make(map[string]string)
		notify := func(key string) (idem.Result[string], error) {
			return idem.Do(t.Context(), ex, idem.Request{Scope: idem.Scope{Tenant: "acme", Actor: "alice"}, Key: key, Operation: "notify"},
				func(ctx context.Context, run *idem.Run) (string, error) {
					return idem.Call(ctx, run, "sms", idem.Foreign[string]{Once: true, Do: func(_ context.Context, down string) (string, error) {
						keys[key] = down
						if sent[key]++; sent[key] == 1 {
							return "", errors.New("connection reset")
						}
						return "message 2", nil
					}})
				})
		}
		resolve := func(status int, key string, more ...string) (string, string) {
			t.Helper()
			return want(t, status, s.args("resolve", append([]string{"-tenant", "acme", "-actor", "alice", "-key", key}, more...)...)...)
		}
		for key, c := range map[string]struct {
			flags []string
			want  string
			sent  int
		}{
			"key-done":   {[]string{"-done", "sms", "-result", `"message 1"`}, "message 1", 1},
			"key-never":  {[]string{"-never", "sms"}, "message 2", 2},
			"key-answer": {[]string{"-answer", `"by letter"`}, "by letter", 1},
		} {
			_, err := notify(key)
			if !errors.Is(err, idem.ErrUnknownOutcome) {
				t.Fatalf("Do = %v, want an unknown outcome", err)
			}
			if _, err := notify(key); !errors.Is(err, idem.ErrNeedsResolution) {
				t.Fatalf("Do = %v, want one that needs a resolution", err)
			}
			out, _ := want(t, statusOK, s.args("inspect", "-tenant", "acme", "-actor", "alice", "-key", key)...)
			contains(t, "inspect", out, `"sms (sent)"`, keys[key], "idem resolve")
			_, errs := resolve(statusNo, key, "-done", "other", "-result", "null")
			contains(t, "resolve of another step", errs, "nothing was changed", `"other"`)
			_, errs = resolve(statusNo, key, "-nothing-done")
			contains(t, "resolve -nothing-done", errs, "nothing was changed", `"sms (sent)"`)
			if out, _ := resolve(statusOK, key, c.flags...); out != "resolved\n" {
				t.Errorf("resolve printed %q", out)
			}
			res, err := notify(key)
			if err != nil || res.Value != c.want || sent[key] != c.sent {
				t.Errorf("Do after %q = %+v, %v, sent %d times, want %q and %d", c.flags, res, err, sent[key], c.want, c.sent)
			}
			_, errs = resolve(statusNo, key, c.flags...)
			contains(t, "resolve of what is completed", errs, "nothing was changed", "completed")
		}
		_, errs := resolve(statusNo, "no-such-key", "-nothing-done")
		contains(t, "resolve of no record", errs, "nothing was changed")
	})
}

// An answer given by hand is replayed as one of the handler's would be.
func TestResolveHTTP(t *testing.T) {
	t.Parallel()
	s := sqliteServer(t)
	ex, err := idem.New(s.b, idem.WithTakeover(func(string) bool { return false }), idem.WithLease(time.Second), idem.WithWait(time.Minute))
	must(t, err)
	mw, err := idemhttp.New(ex, func(*http.Request) (idem.Scope, error) { return idem.Scope{Tenant: "acme", Actor: "alice"}, nil })
	must(t, err)
	h := mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		idemhttp.Transient(r.Context(), idem.MaybeDone(errors.New("gateway timeout")))
		w.WriteHeader(http.StatusGatewayTimeout)
	}))
	post := func() *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader("{}"))
		r.Header.Set("Idempotency-Key", "order-17")
		h.ServeHTTP(w, r)
		return w
	}
	if w := post(); w.Code != http.StatusGatewayTimeout {
		t.Fatalf("POST = %d", w.Code)
	}
	// It waits for the lease to end, and is then told to wait for a person.
	if w := post(); !strings.Contains(w.Body.String(), "needs-resolution") {
		t.Fatalf("POST = %d %s, want the problem needs-resolution", w.Code, w.Body)
	}
	args := append(append([]string{}, ofKey...), "-status", "201", "-header", "location: /payments/7", "-header", "Set-Cookie: a=b", "-body", `{"id":7}`)
	want(t, statusOK, s.args("resolve", args...)...)
	w := post()
	if w.Code != http.StatusCreated || w.Body.String() != `{"id":7}` || w.Header().Get("Location") != "/payments/7" || w.Header().Get("Set-Cookie") != "" {
		t.Errorf("POST = %d %v %s, want the answer that was given by hand, without its cookie", w.Code, w.Header(), w.Body)
	}
}

func TestResolveUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ want, flags string }{
		{"one thing", ""},
		{"one thing", "-nothing-done -never sms"},
		{"JSON", "-done sms -result message"},
		{"go together", "-done sms"},
		{"go together", "-never sms -result 5"},
		{"JSON", "-answer paid"},
		{"-status", "-body text"},
		{"status 7", "-status 7"},
		{"no body", "-status 204 -body text"},
		{"Name: value", "-status 200 -header Location"},
	} {
		args := append([]string{"resolve", "memory:"}, ofKey...)
		_, errs := want(t, statusError, append(args, strings.Fields(c.flags)...)...)
		contains(t, "resolve "+c.flags, errs, c.want)
	}
	_, errs := want(t, statusError, "resolve", "memory:", "-tenant", "acme", "-nothing-done")
	contains(t, "resolve without a key", errs, "-tenant, -actor and -key")
}
