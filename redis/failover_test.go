package redis_test

import (
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/conformance"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/redis"
)

// R-10, field report 27: the primary acknowledges what its replicas have not got, dies, and
// the sentinels put one of those in its place. The key runs twice, which is why
// DurableFailover is not claimed.
func TestFailoverConformance(t *testing.T) {
	t.Parallel()
	conformance.Run(t, func(t *testing.T) conformance.Store { return failing(t) }, onlyFailover, page.Shown())
}

// with WithReplicas the claim that no replica has is an error, and nobody is told that
// a key is his who is not the only one. DurableFailover is not claimed for all that: WAIT
// counts replicas, and the one that is promoted may be another.
func TestFailoverConformanceWithReplicas(t *testing.T) {
	t.Parallel()
	var result conformance.Result
	conformance.Run(t, func(t *testing.T) conformance.Store {
		return failing(t, redis.WithReplicas(1, 500*time.Millisecond))
	}, onlyFailover, conformance.Each(func(r conformance.Result) { result = r }), waiting.Shown())
	if len(result.Claims) != 1 || result.Claims[0].Claimed != "no" || result.Claims[0].Measured != "nothing was acknowledged that could be lost" {
		t.Errorf("claimed and measured: %+v, want that nothing was acknowledged", result.Claims)
	}
}

var onlyFailover = conformance.Only("capability/durable-failover")

// failing is a store behind sentinels that can lose its primary, once.
func failing(t *testing.T, opts ...redis.Option) conformance.Store {
	t.Helper()
	w := testenv.RedisSentinel(t, 2*time.Second, durable...)
	return conformance.Store{
		Open: func(h conformance.T) backend.Backend { return newBackend(t, ofSentinel(h, w, w.Dial), opts...) },
		Failover: func(conformance.T) func() {
			w.Sever(t)
			return func() { w.Promote(t) }
		},
	}
}
