package postgres_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/postgres"
)

// Ten processes start at once.
func TestMigrateConcurrently(t *testing.T) {
	t.Parallel()
	for _, opts := range [][]postgres.Option{nil, {postgres.WithTable("payments", "keys")}} {
		srv := testenv.Postgres(t)
		start := make(chan struct{})
		var wg sync.WaitGroup
		for range 10 {
			pool := open(t, srv.URL, size(1))
			wg.Go(func() {
				<-start
				if err := postgres.Migrate(t.Context(), pool, opts...); err != nil {
					t.Errorf("Migrate = %v, want nil", err)
				}
			})
		}
		close(start)
		wg.Wait()
		pool := open(t, srv.URL)
		b := newBackend(t, pool, opts...)
		acquire(t, b, request("key"))
		if err := postgres.Migrate(t.Context(), pool, opts...); err != nil {
			t.Errorf("Migrate again = %v, want nil", err)
		}
		wantRecord(t, b, request("key").Key, backend.Started, "")
	}
}

var names = [][2]string{
	{"", "idem_keys"},
	{"", `Robert"); DROP TABLE students; --`},
	{`odd "schema"`, `odd.table $1 $$ %s \ 'x'`},
	{"public", "select"},
	{"größe", strings.Repeat("ä", 31)},
	{"", strings.Repeat("n", 63)},
	{"$idem$", "ta\nble"},
}

func TestTableNames(t *testing.T) {
	t.Parallel()
	for _, name := range names {
		b, pool, srv := migrated(t, postgres.WithTable(name[0], name[1]))
		effectsTable(t, pool)
		if err := everything(t.Context(), b, "key"); err != nil {
			t.Errorf("table %q: %v", name, err)
		}
		d, err := b.Describe(t.Context())
		if err != nil || d.Schema != postgres.SchemaVersion || len(d.Findings) != 0 {
			t.Errorf("Describe(%q) = schema %d, findings %v, %v, want %d and none", name, d.Schema, d.Findings, err, postgres.SchemaVersion)
		}
		simple := newBackend(t, open(t, srv.URL, mode(pgx.QueryExecModeSimpleProtocol)), postgres.WithTable(name[0], name[1]))
		if err := everything(t.Context(), simple, "simple"); err != nil {
			t.Errorf("table %q by the simple protocol: %v", name, err)
		}
	}
}

// The exported SQL is what Migrate runs.
func TestSchema(t *testing.T) {
	t.Parallel()
	for _, name := range names {
		opt := postgres.WithTable(name[0], name[1])
		sql, err := postgres.Schema(opt)
		if err != nil {
			t.Fatal(err)
		}
		describe := func(pool *pgxpool.Pool) string {
			return value[string](t, pool, `SELECT string_agg(concat_ws(' ', c.relkind, c.reloptions::text, a.attname, a.atttypid::regtype, a.attcollation::regcollation, a.attnotnull, obj_description(c.oid)), E'\n' ORDER BY c.relkind, a.attnum)
				FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid WHERE a.attnum > 0 AND c.relnamespace::regnamespace::text NOT IN ('pg_catalog', 'pg_toast', 'information_schema')`)
		}
		_, pool, _ := migrated(t, opt)
		plain := open(t, testenv.Postgres(t).URL)
		for range 2 { // also again
			exec(t, plain, sql)
		}
		if got, want := describe(plain), describe(pool); got != want {
			t.Errorf("Schema(%q) makes\n%s\nMigrate makes\n%s", name, got, want)
		}
		if err := postgres.Migrate(t.Context(), plain, opt); err != nil {
			t.Errorf("Migrate after Schema = %v, want nil", err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	pool := open(t, "postgres://localhost/nothing-is-sent")
	for name, opt := range map[string]postgres.Option{
		"no table":            postgres.WithTable("s", ""),
		"a long table":        postgres.WithTable("", strings.Repeat("n", 64)),
		"a long schema":       postgres.WithTable(strings.Repeat("n", 64), "t"),
		"a NUL":               postgres.WithTable("", "a\x00b"),
		"invalid UTF-8":       postgres.WithTable("", "\xff"),
		"no isolation level":  postgres.WithIsolation("chaos"),
		"read uncommitted":    postgres.WithIsolation(pgx.ReadUncommitted),
		"isolation injection": postgres.WithIsolation("serializable; drop table x"),
	} {
		_, err := postgres.New(pool, opt)
		_, schema := postgres.Schema(opt)
		for call, err := range map[string]error{"New": err, "Schema": schema, "Migrate": postgres.Migrate(t.Context(), pool, opt)} {
			if !errors.Is(err, backend.ErrInvalid) {
				t.Errorf("%s with %s = %v, want ErrInvalid", call, name, err)
			}
		}
	}
	if _, err := postgres.New(nil); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("New(nil) = %v, want ErrInvalid", err)
	}
	if err := postgres.Migrate(t.Context(), nil); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("Migrate(nil) = %v, want ErrInvalid", err)
	}
}

// hint is what an error advises.
func hint(err error) string {
	var e *backend.Error
	if errors.As(err, &e) {
		return e.Hint
	}
	return ""
}

func findings(t testing.TB, b *postgres.Backend) (ids []string) {
	t.Helper()
	d, err := b.Describe(t.Context())
	if err != nil {
		t.Fatalf("Describe = %v, want nil", err)
	}
	for _, f := range d.Findings {
		if f.Text == "" || f.Advice == "" {
			t.Errorf("finding %s has no text or advice", f.ID)
		}
		ids = append(ids, f.ID)
	}
	return ids
}

func calls(t testing.TB, b *postgres.Backend, pool *pgxpool.Pool) map[string]error {
	t.Helper()
	ctx, l := t.Context(), backend.Lease{Key: request("key").Key, ClaimID: newID(), Token: 1}
	_, claim := b.Claim(ctx, request("key"))
	_, get := b.Get(ctx, l.Key)
	_, sweep := b.Sweep(ctx, 1)
	_, transact := b.Transact(ctx, request("key"), never(t))
	_, inLease := b.InLease(ctx, l, 1, noStep(t))
	bound := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := b.Bind(tx).Claim(ctx, request("key"))
		return err
	})
	return map[string]error{
		"Claim": claim, "Get": get, "Sweep": sweep, "Transact": transact, "InLease": inLease, "Bind.Claim": bound,
		"Checkpoint": b.Checkpoint(ctx, l, backend.Checkpoint{Sequence: 1, Point: "p"}), "Complete": b.Complete(ctx, l, completion("x")),
	}
}

// A table that is missing or too old says how to migrate.
func TestSchemaMissingOrOld(t *testing.T) {
	t.Parallel()
	pool := open(t, testenv.Postgres(t).URL)
	for name, opt := range map[string]postgres.Option{"table": postgres.WithTable("", "idem_keys"), "schema": postgres.WithTable("nowhere", "idem_keys")} {
		b := newBackend(t, pool, opt)
		for call, err := range calls(t, b, pool) {
			if !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(hint(err), "postgres.Migrate") {
				t.Errorf("%s without a %s = %v, want ErrUnavailable and how to migrate", call, name, err)
			}
		}
		if got, want := findings(t, b), []string{"postgres/table"}; !slices.Equal(got, want) {
			t.Errorf("findings without a %s = %v, want %v", name, got, want)
		}
	}
	b, pool, _ := migrated(t)
	exec(t, pool, `ALTER TABLE idem_keys DROP COLUMN recovery_point, DROP COLUMN expires_at; COMMENT ON TABLE idem_keys IS 'idem schema 0'`)
	for call, err := range calls(t, b, pool) {
		if !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(hint(err), "older") {
			t.Errorf("%s with too old a table = %v, want ErrUnavailable and how to migrate", call, err)
		}
	}
	if got, want := findings(t, b), []string{"postgres/schema"}; !slices.Equal(got, want) {
		t.Errorf("findings with too old a table = %v, want %v", got, want)
	}
	// Hard case 19: what a later version adds does not disturb this one.
	b, pool, _ = migrated(t)
	effectsTable(t, pool)
	exec(t, pool, `ALTER TABLE idem_keys ADD COLUMN later text NOT NULL DEFAULT 'x'; COMMENT ON TABLE idem_keys IS 'idem schema 99'`)
	if err := everything(t.Context(), b, "key"); err != nil {
		t.Errorf("with a later schema: %v", err)
	}
	if got := findings(t, b); len(got) != 0 {
		t.Errorf("findings with a later schema = %v, want none", got)
	}
	if err := postgres.Migrate(t.Context(), pool); err != nil {
		t.Errorf("Migrate with a later schema = %v, want nil", err)
	}
}

// A role with the rights to use the table and no other.
func TestRoleWithDMLOnly(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t)
	pool := open(t, srv.URL)
	opt := postgres.WithTable("keys", "idem")
	if err := postgres.Migrate(t.Context(), pool, opt); err != nil {
		t.Fatal(err)
	}
	effectsTable(t, pool)
	role := "dml_" + value[string](t, pool, `SELECT current_database()`)
	for _, sql := range []string{
		`CREATE ROLE ` + role + ` LOGIN PASSWORD 'secret'`,
		`REVOKE ALL ON SCHEMA public FROM PUBLIC`, `GRANT USAGE ON SCHEMA public TO ` + role, `GRANT INSERT ON effects TO ` + role,
	} {
		exec(t, pool, sql)
	}
	t.Cleanup(func() {
		if _, err := pool.Exec(context.Background(), `DROP OWNED BY `+role+`; DROP ROLE `+role); err != nil {
			t.Errorf("DROP ROLE: %v", err)
		}
	})
	restricted := open(t, srv.As(role, "secret"))
	b := newBackend(t, restricted, opt)
	for call, err := range calls(t, b, restricted) {
		if !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(hint(err), "DELETE") {
			t.Errorf("%s without rights = %v, want ErrUnavailable and what to grant", call, err)
		}
	}
	exec(t, pool, `GRANT USAGE ON SCHEMA keys TO `+role)
	if got, want := findings(t, b), []string{"postgres/rights"}; !slices.Equal(got, want) {
		t.Errorf("findings without rights = %v, want %v", got, want)
	}
	exec(t, pool, `GRANT SELECT, INSERT, UPDATE, DELETE ON keys.idem TO `+role)
	if err := everything(t.Context(), b, "key"); err != nil {
		t.Error(err)
	}
	if got := findings(t, b); len(got) != 0 {
		t.Errorf("findings = %v, want none", got)
	}
	if err := postgres.Migrate(t.Context(), restricted, opt); err != nil {
		t.Errorf("Migrate of what is up to date = %v, want nil", err)
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	b, pool, srv := migrated(t)
	d, err := b.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d.Name != "postgres" || d.Server != value[string](t, pool, `SHOW server_version`) || d.Schema != postgres.SchemaVersion || len(d.Findings) != 0 {
		t.Errorf("Describe = %+v, want this server and no findings", d)
	}
	c := d.Capabilities
	if !c.Transactions || !c.DurableKill || !c.Shared || c.Clock != backend.ClockServer || !c.FreshReads || c.MaxValue != postgres.MaxValue || c.NativeExpiry || c.DurableFailover {
		t.Errorf("capabilities = %+v, want those of a primary", c)
	}
	for _, tt := range []struct{ sql, want string }{
		{`ALTER TABLE idem_keys ALTER actor TYPE text COLLATE "default"`, "postgres/collation"},
		{`ALTER TABLE idem_keys SET UNLOGGED`, "postgres/unlogged"},
	} {
		_, pool, srv := migrated(t)
		exec(t, pool, tt.sql)
		if got := findings(t, newBackend(t, open(t, srv.URL))); !slices.Equal(got, []string{tt.want}) {
			t.Errorf("findings after %s = %v, want %s", tt.sql, got, tt.want)
		}
	}
	readOnly := newBackend(t, open(t, srv.URL, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on" }))
	if got, want := findings(t, readOnly), []string{"postgres/read-only"}; !slices.Equal(got, want) {
		t.Errorf("findings of a read-only session = %v, want %v", got, want)
	}
	if _, err := readOnly.Claim(t.Context(), request("key")); !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(hint(err), "primary") {
		t.Errorf("Claim of a read-only session = %v, want ErrUnavailable and where to connect", err)
	}
	unsafe, _ := privately(t, "fsync=off")
	if got, want := findings(t, unsafe), []string{"postgres/fsync"}; !slices.Equal(got, want) {
		t.Errorf("findings with fsync off = %v, want %v", got, want)
	}
}
