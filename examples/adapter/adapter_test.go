//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package adapter_test

import (
	"testing"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/conformance"
	"github.com/idem-go/idem/examples/adapter"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	conformance.Run(t, func(t *testing.T) conformance.Store {
		dir := t.TempDir()
		open := func(conformance.T) backend.Backend { return adapter.New(dir) }
		return conformance.Store{Open: open}
	})
}
