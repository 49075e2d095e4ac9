package testenv

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatalf("Connect = %v, want a connection", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = conn.Close(ctx) // most tests here break it
	})
	return conn
}

func count(t *testing.T, conn *pgx.Conn, query string) (n int) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("QueryRow(%q) = %v, want a number", query, err)
	}
	return n
}

func mustExec(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("Exec(%q) = %v, want nil", sql, err)
	}
}

func TestPostgresGivesEachTestADatabase(t *testing.T) {
	t.Parallel()
	a, b := Postgres(t), Postgres(t)
	if a.Addr != b.Addr {
		t.Errorf("Addr = %s and %s, want one server", a.Addr, b.Addr)
	}
	mustExec(t, connect(t, a.URL), "CREATE TABLE only_here ()")
	if n := count(t, connect(t, b.URL), "SELECT count(*) FROM pg_tables WHERE tablename = 'only_here'"); n != 0 {
		t.Errorf("the second database has %d tables of the first, want 0", n)
	}
	mustExec(t, connect(t, a.URL), "CREATE ROLE somebody_"+t.Name()) // the owner may
	mustExec(t, connect(t, a.URL), "DROP ROLE somebody_"+t.Name())
}

func TestPostgresDropsTheDatabase(t *testing.T) {
	t.Parallel()
	srv := Postgres(t)
	conn := connect(t, srv.URL)
	var name string
	t.Run("borrower", func(t *testing.T) {
		inner := Postgres(t)
		if err := connect(t, inner.URL).QueryRow(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
			t.Fatal(err)
		}
	})
	var n int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_database WHERE datname = $1", name).Scan(&n); err != nil || n != 0 {
		t.Errorf("databases named %q after its test = %d, %v, want none", name, n, err)
	}
}

func TestPostgresPrivateHasItsSettings(t *testing.T) {
	t.Parallel()
	srv := PostgresPrivate(t, "max_connections=17", "synchronous_commit=off")
	conn := connect(t, srv.URL)
	if n := count(t, conn, "SELECT setting::int FROM pg_settings WHERE name = 'max_connections'"); n != 17 {
		t.Errorf("max_connections = %d, want 17", n)
	}
	if n := count(t, conn, "SELECT count(*) FROM pg_settings WHERE name = 'fsync' AND setting = 'on'"); n != 1 {
		t.Errorf("fsync is off, want on")
	}
}

func TestPostgresKillAndStart(t *testing.T) {
	t.Parallel()
	srv := PostgresPrivate(t)
	conn := connect(t, srv.URL)
	mustExec(t, conn, "CREATE TABLE kept (n int)")
	mustExec(t, conn, "INSERT INTO kept VALUES (1)")
	busy := connect(t, srv.URL)
	mustExec(t, busy, "BEGIN")
	mustExec(t, busy, "INSERT INTO kept VALUES (2)")
	ended := make(chan error, 1)
	go func() { // does not look up until it is done
		_, err := busy.Exec(context.Background(), "SELECT sum(n) /* busy */ FROM generate_series(1, 1000000000) n")
		ended <- err
	}()
	for deadline := time.Now().Add(10 * time.Second); count(t, conn, "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%/* busy */%' AND pid <> pg_backend_pid()") == 0; {
		if time.Now().After(deadline) {
			t.Fatal("the busy statement does not start")
		}
	}

	srv.Kill(t)
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the busy statement = nil after Kill, want an error")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the busy statement survives Kill")
	}
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("Ping after Kill = nil, want an error")
	}
	srv.Start(t)
	if n := count(t, connect(t, srv.URL), "SELECT count(*) FROM kept"); n != 1 {
		t.Errorf("rows after Kill and Start = %d, want the committed one", n)
	}

	srv.Restart(t)
	if n := count(t, connect(t, srv.URL), "SELECT count(*) FROM kept"); n != 1 {
		t.Errorf("rows after Restart = %d, want 1", n)
	}
}

func TestPostgresPauseAndResume(t *testing.T) {
	t.Parallel()
	srv := PostgresPrivate(t)
	conn := connect(t, srv.URL)
	srv.Pause(t)
	answered := make(chan error, 1)
	go func() {
		_, err := conn.Exec(t.Context(), "SELECT 1")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("Exec on a paused server = %v, want no answer", err)
	case <-time.After(100 * time.Millisecond):
	}
	srv.Resume(t)
	if err := <-answered; err != nil {
		t.Errorf("Exec after Resume = %v, want nil", err)
	}
}

func TestPgBouncerPoolsTransactions(t *testing.T) {
	t.Parallel()
	srv := Postgres(t)
	url := PgBouncer(t, srv)
	a, b := connect(t, url), connect(t, url)
	mustExec(t, a, "CREATE TABLE t (n int)")
	simple := func(conn *pgx.Conn) (pid int) {
		t.Helper()
		if err := conn.QueryRow(t.Context(), "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid); err != nil {
			t.Fatal(err)
		}
		return pid
	}
	if one, two := simple(a), simple(b); one != two {
		t.Errorf("two clients in turn run on backends %d and %d, want one: no transaction mode", one, two)
	}
	if n := count(t, connect(t, srv.URL), "SELECT count(*) FROM pg_tables WHERE tablename = 't'"); n != 1 {
		t.Errorf("tables made through PgBouncer = %d, want 1", n)
	}
}
