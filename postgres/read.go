package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
)

// read gives the record as it stands, or nil.
func (b *Backend) read(ctx context.Context, q db, k backend.Key, r *reading) (*backend.Record, error) {
	err := r.scan(q.QueryRow(ctx, b.alone.get, k.Tenant, k.Actor, k.Value), k)
	if err != nil || r.what == nothing {
		return nil, err
	}
	r.record.LeaseLeft = machine.LeaseLeft(r.record, r.now)
	return &r.record, nil
}

func (b *Backend) get(ctx context.Context, q db, k backend.Key) (backend.Record, error) {
	const what = "get"
	var r reading
	rec, err := b.read(ctx, q, k, &r)
	switch {
	case err != nil:
		return backend.Record{}, readError(ctx, what, err)
	case rec == nil:
		return backend.Record{}, &backend.Error{Op: op + what, Kind: backend.ErrNotFound}
	}
	return *rec, nil
}

// Get implements backend.Backend.
func (b *Backend) Get(ctx context.Context, k backend.Key) (rec backend.Record, err error) {
	if err := k.Validate(); err != nil {
		return rec, err
	}
	err = b.withConn(ctx, "get", func(conn *pgxpool.Conn) error {
		rec, err = b.get(ctx, conn, k)
		return err
	})
	return rec, err
}

// Sweep implements backend.Backend. It is one statement that takes up to limit
// records in the order of their expiry and passes over those that are locked.
func (b *Backend) Sweep(ctx context.Context, limit int) (n int, err error) {
	const what = "sweep"
	if err := backend.ValidateSweep(limit); err != nil {
		return 0, err
	}
	err = b.withConn(ctx, what, func(conn *pgxpool.Conn) error {
		return b.repeat(ctx, what, conn, func(q db) (bool, error) {
			return true, q.QueryRow(ctx, b.alone.sweep, limit).Scan(&n)
		})
	})
	return n, err
}
