package redis_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/redis"
)

// retrying is a client that sends a command again whose reply was lost, as go-redis does with
// those that don't forbid it.
type retrying struct {
	goredis.UniversalClient
	again *atomic.Int32
}

func (r retrying) Process(ctx context.Context, cmd goredis.Cmder) error {
	err := r.UniversalClient.Process(ctx, cmd)
	if errors.Is(err, io.EOF) {
		r.again.Add(1)
		cmd.SetErr(nil)
		err = r.UniversalClient.Process(ctx, cmd)
	}
	return err
}

// a script that the client has sent twice, because the first reply was lost, does one thing
// and says that it was done: on one server, and on a cluster.
func TestClientSendsAgain(t *testing.T) {
	t.Parallel()
	_, _, srv := started(t)
	one := srv.Proxy(t)
	g := testenv.RedisCluster(t)
	nodes, dial := g.Proxied(t)
	for name, tt := range map[string]struct {
		client, direct goredis.UniversalClient
		proxies        []*testenv.Proxy
	}{
		"one server": {connect(t, srv.Via(one.Addr())), connect(t, srv.URL), []*testenv.Proxy{one}},
		"a cluster":  {ofCluster(t, g, dial), ofCluster(t, g, g.Dial), nodes},
	} {
		prefix := redis.WithPrefix(srv.Prefix)
		var again atomic.Int32
		far := newBackend(t, retrying{tt.client, &again}, prefix)
		for call, do := range calls(t, newBackend(t, tt.direct, prefix)) {
			before := again.Load()
			var armed []*testenv.Armed
			for _, p := range tt.proxies {
				armed = append(armed, p.Add(testenv.Rule{On: testenv.ToServer, Match: testenv.Contains("evalsha"), Do: testenv.CutAfter}))
			}
			if err := do(far); err != nil {
				t.Errorf("%s on %s, sent again = %v, want nil", call, name, err)
			}
			if n := again.Load() - before; n < 1 {
				t.Errorf("%s on %s was sent again %d times, want at least once", call, name, n)
			}
			for _, a := range armed {
				a.Remove()
			}
		}
	}
}
