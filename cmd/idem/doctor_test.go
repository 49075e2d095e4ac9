package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/postgres"
)

func TestDoctor(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, s server) {
		d, err := s.b.Describe(t.Context())
		must(t, err)
		status, said := statusOK, []string{d.Name + " " + d.Server, "clock", string(d.Capabilities.Clock)}
		for _, f := range d.Findings {
			if f.Text == "" || f.Advice == "" {
				t.Errorf("finding %s says %q, and to do %q, want both", f.ID, f.Text, f.Advice)
			}
			said = append(said, strings.ToUpper(string(f.Severity))+" "+f.ID, f.Text, "do: "+f.Advice)
			if f.Severity == backend.Unsafe {
				status = statusNo
			}
		}
		out, _ := want(t, status, s.args("doctor")...)
		contains(t, "doctor", out, said...)

		out, _ = want(t, status, s.args("doctor", "-json")...)
		var got diagnosis
		must(t, json.Unmarshal([]byte(out), &got))
		if got.Backend != d.Name || got.Server != d.Server || got.Schema != d.Schema || len(got.Findings) != len(d.Findings) ||
			got.Unsafe != (status == statusNo) || got.Capabilities.MaxValue != d.Capabilities.MaxValue || got.Capabilities.MinLease != d.Capabilities.MinLease.Seconds() {
			t.Errorf("doctor -json = %s, want what Describe says: %+v", out, d)
		}
	})
}

// A server that loses what it acknowledged is unsafe, one set up for it is not.
func TestDoctorOfUnsafeServers(t *testing.T) {
	t.Parallel()
	careless := testenv.RedisPrivate(t, "appendonly=no", "maxmemory-policy=allkeys-lru").URL
	out, _ := want(t, statusNo, "doctor", careless)
	contains(t, "doctor of a careless Redis", out, "UNSAFE redis/appendonly", "UNSAFE redis/maxmemory-policy", "do: set maxmemory-policy noeviction")

	safe := testenv.RedisPrivate(t, "appendonly=yes", "appendfsync=always").URL
	out, _ = want(t, statusOK, "doctor", safe)
	contains(t, "doctor of a careful Redis", out, "nothing found")

	s := postgresServer(t)
	out, _ = want(t, statusNo, "doctor", s.dsn)
	contains(t, "doctor without table", out, "UNSAFE postgres/table", "idem_keys")
	out, _ = want(t, statusNo, "doctor", s.dsn, "-schema", "elsewhere")
	contains(t, "doctor with -schema alone", out, `"elsewhere"."idem_keys"`)

	out, _ = want(t, statusNo, "doctor", "memory:")
	contains(t, "doctor memory:", out, "UNSAFE memory/volatile")
}

// What the service sees of synchronous_commit is what its connection string says.
func TestDoctorOfAnAsynchronousPostgres(t *testing.T) {
	t.Parallel()
	s := postgresServer(t)
	s.dsn += "&options=-c%20synchronous_commit%3Doff"
	out, _ := want(t, statusOK, s.args("doctor")...)
	contains(t, "doctor with synchronous_commit off", out, "WARNING postgres/synchronous_commit", "do: set synchronous_commit=on")
}

// Replicas: they answer reads, and nothing that idem writes.
func TestDoctorOfReplicas(t *testing.T) {
	t.Parallel()
	r := testenv.RedisPrivate(t, "appendonly=yes", "appendfsync=always", "replicaof=127.0.0.1 1", "replica-serve-stale-data=yes")
	out, _ := want(t, statusNo, "doctor", r.URL)
	contains(t, "doctor of a Redis replica", out, "UNSAFE redis/replica", "do: connect to the primary")

	srv := testenv.PostgresPrivate(t)
	pool, err := pgxpool.New(context.Background(), srv.URL)
	must(t, err)
	defer pool.Close()
	must(t, postgres.Migrate(t.Context(), pool))
	var dir string
	must(t, pool.QueryRow(t.Context(), "SHOW data_directory").Scan(&dir))
	// With this file a server comes up as a standby that waits for its primary.
	_, err = pool.Exec(t.Context(), "COPY (SELECT) TO '"+dir+"/standby.signal'")
	must(t, err)
	srv.Restart(t)
	out, _ = want(t, statusNo, "doctor", srv.URL)
	contains(t, "doctor of a PostgreSQL standby", out, "UNSAFE postgres/read-only", "do: connect to the primary: target_session_attrs=read-write")
}

// A quota that is nearly used up, and one that is: the alarm stays until it is disarmed.
func TestDoctorOfAFullEtcd(t *testing.T) {
	t.Parallel()
	srv := testenv.EtcdPrivate(t, "--quota-backend-bytes=67108864")
	client, err := clientv3.New(clientv3.Config{Endpoints: srv.Endpoints, Logger: zap.NewNop(), Context: context.Background()})
	must(t, err)
	defer client.Close()
	dsn := "etcd://" + strings.Join(srv.Endpoints, ",")
	out, _ := want(t, statusOK, "doctor", dsn)
	if strings.Contains(out, "etcd/quota") || strings.Contains(out, "etcd/nospace") {
		t.Errorf("doctor of an empty etcd printed\n%s\nwant nothing of its space", out)
	}
	value := strings.Repeat("x", 256<<10)
	// It counts what it has synced, and writes whole pages of values again as it goes: so
	// look after each.
	size, quota := spaceOf(t, client)
	for i := 0; size < 56<<20; i++ {
		_, err := client.Put(t.Context(), fmt.Sprint("fill/", i), value)
		must(t, err)
		size, quota = spaceOf(t, client)
	}
	if quota > 0 { // said since 3.6
		out, _ = want(t, statusOK, "doctor", dsn)
		contains(t, "doctor of an etcd that is nearly full", out, "WARNING etcd/quota", "do: compact and defragment, or raise --quota-backend-bytes")
	}
	for i := range 400 {
		if _, err = client.Put(t.Context(), fmt.Sprint("more/", i), value); err != nil {
			break
		}
	}
	if !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Fatalf("Put = %v, want ErrNoSpace in the end", err)
	}
	out, _ = want(t, statusNo, "doctor", dsn)
	contains(t, "doctor of a full etcd", out, "UNSAFE etcd/nospace", "do: ", "disarm")
}

// spaceOf gives the size of a server's database and its quota, 0 from one that doesn't
// tell.
func spaceOf(t *testing.T, client *clientv3.Client) (size, quota int64) {
	t.Helper()
	s, err := client.Status(t.Context(), client.Endpoints()[0])
	must(t, err)
	return s.DbSize, s.DbSizeQuota
}
