package redis_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/idem-go/idem/backend"
)

// refusals before the script runs are surely not applied, and the caller may come back.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		settings []string
		refuse   func(client *goredis.Client) error
		is       func(err error) bool
		heal     func(client *goredis.Client) error
	}{
		{
			"too few replicas",
			[]string{"min-replicas-to-write=1"},
			nil, goredis.IsNoReplicasError,
			func(client *goredis.Client) error {
				return client.ConfigSet(t.Context(), "min-replicas-to-write", "0").Err()
			},
		},
		{
			"a cluster without slots",
			[]string{"cluster-enabled=yes"},
			nil, goredis.IsClusterDownError,
			func(client *goredis.Client) error { return client.ClusterAddSlotsRange(t.Context(), 0, 16383).Err() },
		},
		{
			"a replica",
			[]string{"replicaof=127.0.0.1 1"},
			nil, goredis.IsReadOnlyError,
			func(client *goredis.Client) error { return client.ReplicaOf(t.Context(), "NO", "ONE").Err() },
		},
		{
			"a replica without its primary",
			[]string{"replica-serve-stale-data=no", "replica-read-only=no"},
			func(client *goredis.Client) error { return client.ReplicaOf(t.Context(), "127.0.0.1", "1").Err() }, goredis.IsMasterDownError,
			func(client *goredis.Client) error { return client.ReplicaOf(t.Context(), "NO", "ONE").Err() },
		},
		{
			"loading",
			[]string{"enable-debug-command=yes", "key-load-delay=50000", "loading-process-events-interval-bytes=1024", "rdbcompression=no"},
			func(client *goredis.Client) error { // it takes a second
				for i := range 20 {
					if err := client.Set(t.Context(), fmt.Sprint("filler", i), strings.Repeat("x", 2048), 0).Err(); err != nil {
						return err
					}
				}
				go client.Do(context.WithoutCancel(t.Context()), "DEBUG", "RELOAD")
				return nil
			}, goredis.IsLoadingError, nil,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b, client, _ := privately(t, tt.settings...)
			if tt.refuse != nil {
				must(t, tt.refuse(client))
			}
			for n := range 2 {
				var err error
				until(t, "the server refuses", func() bool { // or has not begun to
					_, err = b.Claim(t.Context(), request(rand.Text()))
					return err != nil
				})
				if !errors.Is(err, backend.ErrUnavailable) || !backend.NotApplied(err) || !tt.is(err) {
					t.Errorf("Claim %d = %v, want ErrUnavailable that is NotApplied, with the server's own error", n, err)
				}
			}
			if tt.heal != nil {
				must(t, tt.heal(client))
			}
			until(t, "the server takes claims again", func() bool {
				got, err := b.Claim(t.Context(), request("k"))
				return err == nil && got.Acquired
			})
		})
	}
}
