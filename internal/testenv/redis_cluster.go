package testenv

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// clusterNodes is how many primaries a cluster has: the fewest that can agree.
const clusterNodes = 3

// slots of a cluster, a number that its protocol fixes.
const slots = 16384

// RedisCluster starts a cluster of three primaries that have a third of the slots
// each, with settings as in [RedisPrivate], and stops it when the test ends.
func RedisCluster(t testing.TB, settings ...string) *RedisGroup {
	t.Helper()
	g := &RedisGroup{Password: redisPassword()}
	var bus []string
	for range clusterNodes {
		port, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		bus = append(bus, fmt.Sprint(port))
		g.Nodes = append(g.Nodes, RedisPrivate(t, slices.Concat(settings, []string{"cluster-enabled=yes", "cluster-port=" + bus[len(bus)-1]})...))
	}
	host, port := g.Nodes[0].peerParts(t)
	for i, n := range g.Nodes {
		err := n.tell(func(ctx context.Context, c *redis.Client) error {
			if err := c.ClusterAddSlotsRange(ctx, i*slots/clusterNodes, (i+1)*slots/clusterNodes-1).Err(); err != nil || i == 0 {
				return err
			}
			return c.Do(ctx, "CLUSTER", "MEET", host, port, bus[0]).Err()
		})
		if err != nil {
			t.Fatalf("making a Redis cluster: %v", err)
		}
	}
	g.Whole(t)
	return g
}

// Whole waits until all servers of a cluster know each other and find that every slot
// is served: after a restart they take some seconds.
func (g *RedisGroup) Whole(t testing.TB) {
	t.Helper()
	g.await(t, "the cluster is whole", func(ctx context.Context, c *redis.Client) (bool, error) {
		info, err := c.ClusterInfo(ctx).Result()
		return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_size:%d", clusterNodes)), err
	})
}
