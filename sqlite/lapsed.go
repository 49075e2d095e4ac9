package sqlite

import (
	"context"

	"github.com/idem-go/idem/backend"
)

var _ backend.Lister = (*Backend)(nil)

// lapsedPage is how many records are read together.
const lapsedPage = 200

// Lapsed implements [backend.Lister], in the order of the keys. An index on what is
// started keeps it from reading the rest.
func (b *Backend) Lapsed(ctx context.Context, yield func(backend.Lapse) bool) error {
	const op = "sqlite: lapsed"
	if err := b.enter(ctx, op); err != nil {
		return err
	}
	var after backend.Key
	for {
		page, err := b.lapsedAfter(ctx, op, after)
		if err != nil {
			return err
		}
		for _, l := range page {
			if !yield(l) {
				return nil
			}
			after = l.Key
		}
		if len(page) < lapsedPage {
			return nil
		}
	}
}

func (b *Backend) lapsedAfter(ctx context.Context, op string, k backend.Key) ([]backend.Lapse, error) {
	rows, err := reader{b}.QueryContext(ctx, b.sql.lapsed, b.now().UnixMicro(), k.Tenant, k.Actor, k.Value, lapsedPage)
	if err != nil {
		if code(err) == codeGeneric {
			return nil, schemaError(ctx, reader{b}, b.cfg.table, op, err)
		}
		return nil, notApplied(op, err)
	}
	defer rows.Close()
	var page []backend.Lapse
	for rows.Next() {
		var l backend.Lapse
		if err := rows.Scan(&l.Key.Tenant, &l.Key.Actor, &l.Key.Value, &l.Operation, &l.Token, &l.Attempt); err != nil {
			return nil, notApplied(op, err)
		}
		page = append(page, l)
	}
	if err := rows.Err(); err != nil {
		return nil, notApplied(op, err)
	}
	return page, nil
}
