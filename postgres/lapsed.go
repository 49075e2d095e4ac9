package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idem-go/idem/backend"
)

var _ backend.Lister = (*Backend)(nil)

// lapsedBlocks is how much of the table one statement reads: 16 MiB in blocks of 8 KiB.
const lapsedBlocks = 2048

// Lapsed implements backend.Lister. It reads the whole table, 16 MiB at a time and no
// lock held in between: an index that finds what is started would cost every completion
// its place on the page and half as much WAL again (docs/design.md has the figures).
func (b *Backend) Lapsed(ctx context.Context, yield func(backend.Lapse) bool) error {
	for from, blocks := int64(0), int64(1); from < blocks; from += lapsedBlocks {
		var page []backend.Lapse
		var err error
		if page, blocks, err = b.lapsedIn(ctx, from); err != nil {
			return err
		}
		for _, l := range page {
			if !yield(l) {
				return nil
			}
		}
	}
	return nil
}

// lapsedIn gives the lapsed records of some blocks of the table, and how many it has.
func (b *Backend) lapsedIn(ctx context.Context, from int64) (page []backend.Lapse, blocks int64, err error) {
	const what = "lapsed"
	err = b.withConn(ctx, what, func(conn *pgxpool.Conn) error {
		if err := conn.QueryRow(ctx, blocksOf, b.cfg.table.String()).Scan(&blocks); err != nil {
			return readError(ctx, what, err)
		}
		rows, err := conn.Query(ctx, b.alone.lapsed, tid(from), tid(from+lapsedBlocks))
		if err != nil {
			return readError(ctx, what, err)
		}
		page, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (l backend.Lapse, err error) {
			err = r.Scan(&l.Key.Tenant, &l.Key.Actor, &l.Key.Value, &l.Operation, &l.Token, &l.Attempt)
			return l, err
		})
		return readError(ctx, what, err)
	})
	return page, blocks, err
}

func tid(block int64) string { return fmt.Sprintf("(%d,0)", block) }

// lapsed takes the range of the rows' places as $1 and $2.
func lapsed(table string) string {
	return `SELECT tenant, actor, key, operation, token, attempt FROM ` + table + `
WHERE ctid >= $1::text::tid AND ctid < $2::text::tid AND status = 'started' AND locked_until <= clock_timestamp()`
}

const blocksOf = `SELECT pg_relation_size($1::text::regclass) / current_setting('block_size')::bigint`
