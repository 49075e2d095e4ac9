package testenv

import (
	"net/url"
	"testing"
)

// PgBouncer starts a PgBouncer in transaction mode in front of the server and
// returns the URL of the same database through it. It has five connections to
// the server, far less than clients may open to it, and hands them from one
// transaction to the next. It stops when the test ends.
func PgBouncer(t testing.TB, s *PostgresServer) string {
	t.Helper()
	in, err := startPgBouncer(s)
	if err != nil {
		Unavailable(t, "pgbouncer", err)
	}
	t.Cleanup(func() {
		if err := in.close(); err != nil {
			t.Errorf("stopping PgBouncer: %v", err)
		}
	})
	return s.with(func(u *url.URL) { u.Host = in.addr() })
}
