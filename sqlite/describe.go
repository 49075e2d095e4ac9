package sqlite

import (
	"context"
	"fmt"

	"github.com/idem-go/idem/backend"
)

// Describe implements [backend.Backend].
func (b *Backend) Describe(ctx context.Context) (backend.Description, error) {
	const op = "sqlite: describe"
	if err := b.permit(ctx, op); err != nil {
		return backend.Description{}, err
	}
	conn, err := b.db.Conn(ctx)
	if err != nil {
		return backend.Description{}, notApplied(op, err)
	}
	defer conn.Close()
	d := backend.Description{
		Name: "sqlite",
		Capabilities: backend.Capabilities{
			Transactions:  true,
			DurableKill:   true,
			Shared:        true,
			Clock:         backend.ClockHost,
			FreshReads:    true,
			MaxValue:      maxValue,
			TokensBreakOn: []string{"restore"},
		},
	}
	if err := conn.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&d.Server); err != nil {
		return backend.Description{}, notApplied(op, err)
	}
	if d.Schema, err = schemaVersion(ctx, conn, b.cfg.table); err != nil {
		return backend.Description{}, notApplied(op, err)
	}
	s, err := readSettings(ctx, conn)
	if err != nil {
		return backend.Description{}, notApplied(op, err)
	}
	d.Findings = findings(s, d.Schema)
	return d, nil
}

func findings(s settings, schema int) []backend.Finding {
	var f []backend.Finding
	if schema < Version {
		f = append(f, backend.Finding{
			ID: "sqlite/schema", Severity: backend.Unsafe,
			Text:   fmt.Sprintf("the table has schema version %d, %d is needed (0: there is none)", schema, Version),
			Advice: "run sqlite.Migrate, or see sqlite.Schema",
		})
	}
	if s.synchronous < syncFull {
		f = append(f, backend.Finding{
			ID: "sqlite/synchronous", Severity: backend.Unsafe,
			Text:   "synchronous is below FULL: a loss of power can take back what was acknowledged",
			Advice: "put _pragma=synchronous(FULL) into the DSN",
		})
	}
	if s.journal != "wal" {
		f = append(f, backend.Finding{
			ID: "sqlite/journal_mode", Severity: backend.Warning,
			Text:   "the journal mode is not WAL: readers and writers keep each other waiting",
			Advice: "put _pragma=journal_mode(WAL) into the DSN",
		})
	}
	if s.busyTimeout <= 0 {
		f = append(f, backend.Finding{
			ID: "sqlite/busy_timeout", Severity: backend.Warning,
			Text:   "busy_timeout is 0: the application's own statements fail as soon as the file is locked",
			Advice: "put _pragma=busy_timeout(5000) into the DSN",
		})
	}
	if fs := networkFS(s.file); fs != "" {
		f = append(f, backend.Finding{
			ID: "sqlite/network_file_system", Severity: backend.Unsafe,
			Text:   "the database is on a network file system (" + fs + "), where locks and the shared log can't be relied on",
			Advice: "move it to a local disk, or use a server: postgres, redis or etcd",
		})
	}
	return f
}
