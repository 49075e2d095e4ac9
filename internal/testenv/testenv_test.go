package testenv

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// outcome is a testing.TB that notes how a test ended.
type outcome struct {
	testing.TB
	skipped, failed string
}

func (o *outcome) Helper() {}
func (o *outcome) Skipf(format string, args ...any) {
	o.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (o *outcome) Fatalf(format string, args ...any) {
	o.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// ended runs f as a test of its own.
func ended(f func(t testing.TB)) *outcome {
	o := new(outcome)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(o)
	}()
	<-done
	return o
}

func TestUnavailable(t *testing.T) {
	for _, tc := range []struct {
		require string
		fails   bool
	}{
		{"", false},
		{"all", true},
		{"postgres", true},
		{"redis, postgres", true},
		{"redis", false},
		{"postgresql", false},
	} {
		t.Run(tc.require, func(t *testing.T) {
			t.Setenv("IDEM_TEST_REQUIRE", tc.require)
			o := ended(func(t testing.TB) { Unavailable(t, "postgres", errors.New("install it")) })
			if got := o.failed != ""; got != tc.fails || o.skipped != "" == tc.fails {
				t.Errorf("Unavailable = failed %q, skipped %q, want failed: %t", o.failed, o.skipped, tc.fails)
			}
			if said := o.failed + o.skipped; !strings.Contains(said, "install it") || !strings.Contains(said, "postgres") {
				t.Errorf("Unavailable says %q, want what is missing and why", said)
			}
		})
	}
}

func TestProviders(t *testing.T) {
	for _, tc := range []struct{ forced, want string }{
		{"", "[env docker local]"},
		{"env", "[env]"},
		{"docker", "[docker]"},
		{"local", "[local]"},
	} {
		t.Run(tc.forced, func(t *testing.T) {
			t.Setenv("IDEM_TEST_PROVIDER", tc.forced)
			if got := fmt.Sprint(providers(t)); got != tc.want {
				t.Errorf("providers() = %s, want %s", got, tc.want)
			}
		})
	}
	t.Run("nonsense", func(t *testing.T) {
		t.Setenv("IDEM_TEST_PROVIDER", "cloud")
		if o := ended(func(t testing.TB) { providers(t) }); !strings.Contains(o.failed, "cloud") {
			t.Errorf("providers() failed with %q, want it to name the value", o.failed)
		}
	})
}

// A server of the environment's is used, with a database for each test, and is
// not for killing.
func TestPostgresFromTheEnvironment(t *testing.T) {
	lender := Postgres(t)
	t.Setenv("IDEM_TEST_POSTGRES_URL", lender.URL)
	srv, err := startPostgresFrom(fromEnv, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := newDatabase(t, srv, false)
	if got.Addr != lender.Addr || got.URL == lender.URL {
		t.Errorf("newDatabase() = %s on %s, want another database on %s", got.URL, got.Addr, lender.Addr)
	}
	mustExec(t, connect(t, got.URL), "CREATE TABLE t ()")

	t.Setenv("IDEM_TEST_POSTGRES_URL", "not a url")
	if _, err := startPostgresFrom(fromEnv, nil); err == nil {
		t.Error("startPostgresFrom(env) with nonsense = nil, want an error")
	}
	t.Setenv("IDEM_TEST_POSTGRES_URL", "")
	if _, err := startPostgresFrom(fromEnv, nil); !errors.Is(err, errNotConfigured) {
		t.Errorf("startPostgresFrom(env) with nothing = %v, want errNotConfigured", err)
	}

	t.Setenv("IDEM_TEST_PROVIDER", "env")
	t.Setenv("IDEM_TEST_REQUIRE", "")
	o := ended(func(t testing.TB) { PostgresPrivate(t) })
	if !strings.Contains(o.skipped, "server of its own") {
		t.Errorf("PostgresPrivate with IDEM_TEST_PROVIDER=env skipped with %q, want it to say why", o.skipped)
	}
}

func TestPostgresRefusesToKillTheSharedServer(t *testing.T) {
	t.Parallel()
	srv := Postgres(t)
	if o := ended(srv.Kill); !strings.Contains(o.failed, "PostgresPrivate") {
		t.Errorf("Kill of the shared server failed with %q, want what to use instead", o.failed)
	}
}

// An engine without the image, and without a way to it, counts as none.
func TestDockerWithoutTheImage(t *testing.T) {
	t.Parallel()
	cli, err := docker()
	if err != nil {
		t.Skipf("Docker is optional: %v", err)
	}
	const nowhere = "127.0.0.1:1/none:none"
	if err := haveImage(cli, nowhere); err == nil || !strings.Contains(err.Error(), nowhere) {
		t.Errorf("haveImage(%s) = %v, want an error that names it", nowhere, err)
	}
}
