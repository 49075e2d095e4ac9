package httpsuite_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/idem-go/idem/conformance"
	"github.com/idem-go/idem/conformance/httpsuite"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		want   string
		config httpsuite.Config
	}{
		{"URL", httpsuite.Config{Body: body}},
		{"URL", httpsuite.Config{Body: body, URL: "ftp://shop.example"}},
		{"URL", httpsuite.Config{Body: body, URL: "http://shop.example/%zz"}},
		{"holds a user", httpsuite.Config{Body: body, URL: "http://ada:secret@shop.example"}},
		{"Body is nil", httpsuite.Config{URL: "http://shop.example"}},
		{"Path", httpsuite.Config{Body: body, URL: "http://shop.example", Path: "http://other.example/"}},
		{"Method", httpsuite.Config{Body: body, URL: "http://shop.example", Method: "a b"}},
		{"keys of 7", httpsuite.Config{Body: body, URL: "http://shop.example", Claims: httpsuite.Claims{MinKey: 7}}},
		{"keys of 0 to 39", httpsuite.Config{Body: body, URL: "http://shop.example", Claims: httpsuite.Claims{MaxKey: 39}}},
	} {
		r, err := httpsuite.Check(t.Context(), tt.config)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("Check(%+v) = %v, %v, want an error that says %q", tt.config.Claims, r, err, tt.want)
		}
	}
}

// The report of a server that isn't there would be full of failures of its own.
func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	_, err = httpsuite.Check(t.Context(), httpsuite.Config{URL: "http://" + l.Addr().String(), Body: body})
	if err == nil || !strings.Contains(err.Error(), "nobody answers at "+l.Addr().String()) {
		t.Errorf("Check of an address where nobody is = %v, want that said", err)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	a := newApp()
	c := a.serve(t, newLayer(a, none), planted{})
	var told []string
	r, err := httpsuite.Check(t.Context(), c, httpsuite.Only("first", "replay/answer"), httpsuite.Without("first/new-key"),
		httpsuite.Each(func(r conformance.Result) { told = append(told, r.ID) }))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(told, " "), "first/run replay/answer"; got != want || len(r.Results) != 2 {
		t.Errorf("told of %q with %d results, want %q", got, len(r.Results), want)
	}
	if want := "POST " + c.URL + "/payments"; r.Server != want {
		t.Errorf("Server = %q, want %q", r.Server, want)
	}
	if _, err := httpsuite.Check(t.Context(), c, httpsuite.Only("fist/run")); err == nil {
		t.Error("Check(Only(a misspelt id)) = nil, want an error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, err = httpsuite.Check(ctx, c, httpsuite.Only("first"), httpsuite.Each(func(conformance.Result) { cancel() }))
	if err != nil || len(r.Results) != 2 || r.Results[1].Verdict != conformance.NotRun {
		t.Errorf("Check that is ended after a case = %+v, %v, want the second case not run", r, err)
	}
}

// A server that hangs up or breaks off is told as what it does.
func TestBrokenServers(t *testing.T) {
	t.Parallel()
	a := newApp()
	for name, h := range map[string]http.HandlerFunc{
		"hangs up": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"breaks off": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			_, _ = w.Write([]byte("8 bytes"))
		},
	} {
		r, err := httpsuite.Check(t.Context(), a.serve(t, h, planted{}), httpsuite.Only("first/run"))
		if err != nil {
			t.Fatal(err)
		}
		if res := r.Results[0]; res.Verdict != conformance.Failed || len(res.Log) != 1 || !strings.Contains(res.Log[0], "want an answer") {
			t.Errorf("a server that %s: %s, %q, want failed for want of an answer", name, res.Verdict, res.Log)
		}
	}
}

// A function of the Config that panics fails the case it is called for.
func TestPanics(t *testing.T) {
	t.Parallel()
	a := newApp()
	c := a.serve(t, newLayer(a, none), planted{})
	c.Effects = func(context.Context, int) (int, error) { panic("no database") }
	r, err := httpsuite.Check(t.Context(), c, httpsuite.Only("first/run"))
	if err != nil || r.Results[0].Verdict != conformance.Failed || !strings.Contains(r.Results[0].Log[0], "no database") {
		t.Errorf("Check with an Effects that panics = %+v, %v, want the case failed for it", r, err)
	}
}
