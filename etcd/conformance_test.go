package etcd_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/conformance"
	"github.com/idem-go/idem/etcd"
	"github.com/idem-go/idem/internal/testenv"
)

// Nobody can move etcd's clock: the suite waits for real leases.
func TestConformance(t *testing.T) {
	t.Parallel()
	srv := testenv.Etcd(t)
	var cases atomic.Int64
	conformance.Run(t, func(t *testing.T) conformance.Store {
		prefix := fmt.Sprintf("%scase%d/", srv.Prefix, cases.Add(1))
		return conformance.Store{Open: func(conformance.T) backend.Backend {
			return newBackend(t, connect(t, srv), etcd.WithPrefix(prefix))
		}}
	})
}
