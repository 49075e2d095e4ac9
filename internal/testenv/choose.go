package testenv

import (
	"errors"
	"fmt"
	"os"
	"testing"
)

// choose starts a server from the first place that has one.
func choose[S any](t testing.TB, what string, from []provider, start func(provider) (S, error)) (S, error) {
	t.Helper()
	var none S
	var errs []error
	for _, p := range from {
		srv, err := start(p)
		if err == nil {
			return srv, nil
		}
		if errors.Is(err, errNotConfigured) && len(from) > 1 {
			continue
		}
		err = fmt.Errorf("%s: %w", p, err)
		errs = append(errs, err)
		t.Logf("testenv: %s from %v", what, err)
	}
	if len(errs) == 0 {
		return none, fmt.Errorf("IDEM_TEST_PROVIDER=%s can't give a test a server of its own", os.Getenv("IDEM_TEST_PROVIDER"))
	}
	return none, errors.Join(errs...)
}

// ours are the places whose servers may be killed: an operator's may not.
func ours(t testing.TB) []provider {
	t.Helper()
	var from []provider
	for _, p := range providers(t) {
		if p != fromEnv {
			from = append(from, p)
		}
	}
	return from
}
