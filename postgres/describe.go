package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idem-go/idem/backend"
)

const describeSQL = `SELECT current_setting('server_version'), current_setting('synchronous_commit'), current_setting('fsync'),
  pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on',
  t.oid IS NOT NULL, coalesce(obj_description(t.oid, 'pg_class'), ''), coalesce(t.relpersistence::text, ''),
  coalesce((SELECT bool_and(has_table_privilege(t.oid, p)) FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) p), true),
  coalesce((SELECT string_agg(a.attname::text, ', ' ORDER BY a.attnum) FROM pg_attribute a JOIN pg_collation c ON c.oid = a.attcollation
    WHERE a.attrelid = t.oid AND a.attname IN ('tenant', 'actor', 'key') AND c.collname NOT IN ('C', 'POSIX')), '')
FROM (SELECT 1) one LEFT JOIN pg_class t ON t.oid = to_regclass($1::text)`

// Describe implements backend.Backend. It reports a table that is missing, older than
// this package needs, unlogged or of another collation, missing rights, a server that
// is read-only and settings that lose acknowledged commits.
func (b *Backend) Describe(ctx context.Context) (backend.Description, error) {
	d := backend.Description{
		Name: "postgres",
		Capabilities: backend.Capabilities{
			Transactions:  true,
			Shared:        true,
			Clock:         backend.ClockServer,
			FreshReads:    true,
			MaxValue:      MaxValue,
			TokensBreakOn: []string{"failover", "clock step", "restore"},
		},
	}
	var s serverState
	err := b.withConn(ctx, "describe", func(conn *pgxpool.Conn) error {
		err := conn.QueryRow(ctx, describeSQL, b.cfg.table.String()).Scan(&s.version, &s.synchronousCommit, &s.fsync,
			&s.readOnly, &s.table, &s.comment, &s.persistence, &s.rights, &s.collated)
		return readError(ctx, "describe", err)
	})
	if err != nil {
		return backend.Description{}, err
	}
	d.Server = s.version
	d.Schema = parseVersion(s.comment)
	// synchronous_commit is overruled and fsync concerns the machine, not the process.
	d.Capabilities.DurableKill = s.persistence != "u"
	d.Findings = s.findings(b.cfg.table)
	return d, nil
}

// serverState is what Describe reads.
type serverState struct {
	version, synchronousCommit, fsync string
	readOnly, table                   bool
	comment, persistence              string
	rights                            bool
	collated                          string
}

func (s serverState) findings(t table) (all []backend.Finding) {
	found := func(when bool, id string, severity backend.Severity, text, advice string) {
		if when {
			all = append(all, backend.Finding{ID: "postgres/" + id, Severity: severity, Text: text, Advice: advice})
		}
	}
	const migrate = "run postgres.Migrate or apply the SQL of postgres.Schema, with the same WithTable"
	found(!s.table, "table", backend.Unsafe, fmt.Sprintf("there is no table %s", t), migrate)
	found(s.table && parseVersion(s.comment) < SchemaVersion, "schema", backend.Unsafe,
		fmt.Sprintf("the table has version %d of the schema, this package needs %d", parseVersion(s.comment), SchemaVersion), migrate)
	found(s.persistence == "u", "unlogged", backend.Unsafe,
		"the table is unlogged: a crash of the server empties it", "ALTER TABLE ... SET LOGGED")
	found(s.collated != "", "collation", backend.Unsafe,
		"keys are not compared byte by byte: "+s.collated+` of the table lacks COLLATE "C"`, "create the table with postgres.Migrate")
	found(!s.rights, "rights", backend.Unsafe,
		"the role lacks a right on the table", "GRANT SELECT, INSERT, UPDATE, DELETE")
	found(s.readOnly, "read-only", backend.Unsafe,
		"the server or the session is read-only, perhaps a replica", "connect to the primary: target_session_attrs=read-write")
	found(s.fsync == "off", "fsync", backend.Unsafe,
		"fsync is off: a loss of power can lose or damage everything", "set fsync=on")
	found(s.synchronousCommit == "off", "synchronous_commit", backend.Warning,
		"synchronous_commit is off; idem overrules it for its own transactions, others can be lost in a crash after they were acknowledged",
		"set synchronous_commit=on for transactions that go together with idem's")
	return all
}
