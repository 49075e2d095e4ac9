// Package testenv gives tests real servers, and a proxy to put faults between
// them and their clients. Only tests import it.
//
// # Where a server comes from
//
// The first that works, in this order:
//
//	env     an address from the environment: IDEM_TEST_POSTGRES_URL,
//	        IDEM_TEST_REDIS_URL, IDEM_TEST_ETCD_ENDPOINTS
//	docker  a container, where a Docker engine answers and has the image or can
//	        get it (IDEM_TEST_POSTGRES_IMAGE and so on; the official image by default)
//	local   the programs installed on this machine, started on a free port with
//	        their data in a temporary directory
//
// IDEM_TEST_PROVIDER=env, docker or local allows that one only. A test that finds
// no server is skipped and says what to install; where IDEM_TEST_REQUIRE is "all"
// or contains the server's name, "postgres,pgbouncer", it fails.
//
// # Lifetime
//
// A server is started when the first test of a process asks for it and stopped
// by [Main], which every test package calls from its TestMain:
//
//	func TestMain(m *testing.M) { testenv.Main(m) }
//
// On Linux a local server also ends when its test process is killed. What a
// killed process leaves behind all the same (a directory, a container) is removed
// by the next one.
package testenv

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// Main runs the tests of a package, stops the servers they started and fails if
// goroutines are left behind. It does not return.
func Main(m interface{ Run() int }, options ...goleak.Option) {
	code := m.Run()
	if err := shutdown(); err != nil {
		fmt.Fprintf(os.Stderr, "testenv: stopping servers: %v\n", err)
		code = max(code, 1)
	}
	if code == 0 {
		if err := goleak.Find(options...); err != nil {
			fmt.Fprintf(os.Stderr, "testenv: goroutines left behind: %v\n", err)
			code = 1
		}
	}
	os.Exit(code)
}

// Unavailable ends a test that needs what this machine can't provide: skipped, or
// failed where IDEM_TEST_REQUIRE asks for it.
func Unavailable(t testing.TB, what string, reason error) {
	t.Helper()
	if required(os.Getenv("IDEM_TEST_REQUIRE"), what) {
		t.Fatalf("%s is required (IDEM_TEST_REQUIRE=%s) and not available: %v", what, os.Getenv("IDEM_TEST_REQUIRE"), reason)
	}
	t.Skipf("SKIPPED, NOT TESTED: no %s: %v", what, reason)
}

func required(list, what string) bool {
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name == "all" || name == what {
			return true
		}
	}
	return false
}

// provider is a place that servers come from.
type provider string

const (
	fromEnv    provider = "env"
	fromDocker provider = "docker"
	fromLocal  provider = "local"
)

// errNotConfigured: this place has nothing to offer, which is nothing to report.
var errNotConfigured = errors.New("not configured")

// providers returns where to look for servers, in this order.
func providers(t testing.TB) []provider {
	t.Helper()
	all := []provider{fromEnv, fromDocker, fromLocal}
	forced := provider(os.Getenv("IDEM_TEST_PROVIDER"))
	switch {
	case forced == "":
		return all
	case slices.Contains(all, forced):
		return []provider{forced}
	}
	t.Fatalf("IDEM_TEST_PROVIDER=%s, want env, docker or local", forced)
	return nil
}

// atExit is what has to be stopped at the end of the process.
var atExit struct {
	sync.Mutex
	funcs []func() error
}

func onShutdown(f func() error) {
	atExit.Lock()
	defer atExit.Unlock()
	atExit.funcs = append(atExit.funcs, f)
}

func shutdown() error {
	atExit.Lock()
	defer atExit.Unlock()
	var errs []error
	for _, f := range slices.Backward(atExit.funcs) {
		errs = append(errs, f())
	}
	atExit.funcs = nil
	return errors.Join(errs...)
}
