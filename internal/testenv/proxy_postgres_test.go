package testenv

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// throughProxy returns a server with a table t (n int) and a function put(n), a connection to it and
// one through a proxy.
func throughProxy(t *testing.T) (direct, proxied *pgx.Conn, p *Proxy) {
	t.Helper()
	srv := Postgres(t)
	p = srv.Proxy(t)
	direct, proxied = connect(t, srv.URL), connect(t, srv.Via(p.Addr()))
	mustExec(t, direct, "CREATE TABLE t (n int)")
	mustExec(t, direct, "CREATE FUNCTION put(int) RETURNS void LANGUAGE sql AS 'INSERT INTO t VALUES ($1)'")
	return direct, proxied, p
}

func TestProxyCountsPostgresRoundTrips(t *testing.T) {
	t.Parallel()
	_, conn, p := throughProxy(t)
	if got := p.RoundTrips(); got != 0 {
		t.Errorf("RoundTrips() after connecting = %d (%q), want 0", got, p.Trips())
	}
	insert := func(n int) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), "INSERT INTO t VALUES ($1)", n); err != nil {
			t.Fatal(err)
		}
	}
	insert(1) // prepares first
	if got := p.Trips(); !slices.Equal(got, []string{"", "INSERT INTO t VALUES ($1)"}) {
		t.Errorf("Trips() = %q, want one that prepares and one that inserts", got)
	}
	p.Reset()
	insert(2)
	var b pgx.Batch
	b.Queue("begin")
	b.Queue("INSERT INTO t VALUES ($1)", 3)
	b.Queue("commit")
	for range 2 { // the first time prepares
		p.Reset()
		if err := conn.SendBatch(t.Context(), &b).Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := p.Trips(), []string{"begin; INSERT INTO t VALUES ($1); commit"}; !slices.Equal(got, want) {
		t.Errorf("Trips() of a batch = %q, want %q", got, want)
	}
	// A large answer comes in many pieces and is one round trip.
	p.Reset()
	rows, err := conn.Query(t.Context(), "SELECT repeat('x', 1000) FROM generate_series(1, 1000)", pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	if all, err := pgx.CollectRows(rows, pgx.RowTo[string]); len(all) != 1000 || err != nil {
		t.Errorf("rows through the proxy = %d, %v, want 1000", len(all), err)
	}
	// And so is a large question.
	if _, err := conn.Exec(t.Context(), "SELECT length($1::text)", pgx.QueryExecModeExec, longText); err != nil {
		t.Fatal(err)
	}
	if got := p.RoundTrips(); got != 2 {
		t.Errorf("RoundTrips() = %d (%.100q), want 2", got, p.Trips())
	}
}

var longText = string(slices.Repeat([]byte("long "), 200_000))

// Fact PG-12: pgx can't tell these two apart, the proxy has to.
func TestProxyCutsAroundCommit(t *testing.T) {
	t.Parallel()
	inTx := func(ctx context.Context, conn *pgx.Conn) error {
		tx, err := conn.Begin(ctx)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "INSERT INTO t VALUES (1)"); err != nil {
			return err
		}
		return tx.Commit(ctx)
	}
	batched := func(ctx context.Context, conn *pgx.Conn) error {
		var b pgx.Batch
		b.Queue("begin")
		b.Queue("INSERT INTO t VALUES ($1)", 1)
		b.Queue("commit")
		return conn.SendBatch(ctx, &b).Close()
	}
	autocommit := func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "INSERT INTO t VALUES ($1)", 1)
		return err
	}
	// Its answer begins long before its implicit commit.
	talkative := func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `SELECT put($1), repeat('x', 100000), pg_sleep(0.05) FROM generate_series(1, 5)`, 1)
		return err
	}
	for _, tc := range []struct {
		name string
		rule Rule
		run  func(context.Context, *pgx.Conn) error
		rows int
	}{
		{"commit, before", Rule{On: ToServer, Match: Runs("commit"), Do: CutBefore}, inTx, 0},
		{"commit, after", Rule{On: ToServer, Match: Runs("commit"), Do: CutAfter}, inTx, 1},
		{"commit, its answer", Rule{On: ToClient, Match: All(Type('C'), Contains("COMMIT")), Do: CutBefore}, inTx, 1},
		{"batch, before", Rule{On: ToServer, Match: Runs("commit"), Do: CutBefore}, batched, 0},
		{"batch, after", Rule{On: ToServer, Match: Runs("commit"), Do: CutAfter}, batched, 1},
		{"autocommit, before", Rule{On: ToServer, Match: Runs("insert"), Do: CutBefore}, autocommit, 0},
		{"autocommit, after", Rule{On: ToServer, Match: Runs("insert"), Do: CutAfter}, autocommit, 1},
		{"a long answer, after", Rule{On: ToServer, Match: Runs("put"), Do: CutAfter}, talkative, 5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			direct, conn, p := throughProxy(t)
			// Prepared already, the statement's text does not travel again.
			if err := tc.run(t.Context(), conn); err != nil {
				t.Fatal(err)
			}
			mustExec(t, direct, "TRUNCATE t")

			arm := p.Add(tc.rule)
			err := tc.run(t.Context(), conn)
			var server *pgconn.PgError
			if err == nil || errors.As(err, &server) {
				t.Fatalf("err = %v, want a lost connection", err)
			}
			wantFired(t, arm)
			if got := count(t, direct, "SELECT count(*) FROM t"); got != tc.rows {
				t.Errorf("rows = %d, want %d", got, tc.rows)
			}
		})
	}
}

// The client gives up, and its statement arrives later (hard case 2).
func TestProxyDelaysAStatement(t *testing.T) {
	t.Parallel()
	direct, conn, p := throughProxy(t)
	arm := p.Add(Rule{On: ToServer, Match: Runs("insert"), Do: Hold})
	lost := p.Add(Rule{On: ToServer, Match: Cancels(), Do: BlackHole, Sticky: true})
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := conn.Exec(ctx, "INSERT INTO t VALUES (1)")
		failed <- err
	}()
	wantFired(t, arm)
	cancel()
	if err := <-failed; err == nil {
		t.Fatal("Exec = nil, want the context's error")
	}
	if got := count(t, direct, "SELECT count(*) FROM t"); got != 0 {
		t.Fatalf("rows while the statement is held = %d, want 0", got)
	}
	wantFired(t, lost)
	arm.Release()
	for deadline := time.Now().Add(5 * time.Second); count(t, direct, "SELECT count(*) FROM t") != 1; {
		if time.Now().After(deadline) {
			t.Fatal("the statement never arrived")
		}
	}
}

func TestProxyBlackHolesAStatement(t *testing.T) {
	t.Parallel()
	direct, conn, p := throughProxy(t)
	arm := p.Add(Rule{On: ToServer, Match: Runs("commit"), Do: BlackHole})
	p.Add(Rule{On: ToServer, Match: Cancels(), Do: BlackHole, Sticky: true})
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "INSERT INTO t VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arm.Fired()
		cancel()
	}()
	if err := tx.Commit(ctx); err == nil {
		t.Error("Commit into a black hole = nil, want an error")
	}
	if got := count(t, direct, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'"); got != 1 {
		t.Errorf("transactions left open on the server = %d, want 1: it never learns", got)
	}
}
