package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/internal/testenv"
)

func TestDoctor(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, s server) {
		d, err := s.b.Describe(t.Context())
		must(t, err)
		status, said := statusOK, []string{d.Name + " " + d.Server, "clock", string(d.Capabilities.Clock)}
		for _, f := range d.Findings {
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
