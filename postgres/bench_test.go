package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/postgres"
)

// The benchmarks of each path stand beside the least that the driver needs for
// the same: "bare" is the floor, to be read as a ratio within one run.

const bareTable = `CREATE TABLE bare (tenant text, actor text, key text, status text, body bytea, at timestamptz, PRIMARY KEY (tenant, actor, key));
CREATE TABLE effects (id bigserial PRIMARY KEY, amount bigint)`

func benchBackend(b *testing.B) (*postgres.Backend, *pgxpool.Pool) {
	b.Helper()
	be, pool, _ := migrated(b)
	if _, err := pool.Exec(b.Context(), bareTable); err != nil {
		b.Fatal(err)
	}
	return be, pool
}

// each runs f with a key of its own per call, in parallel.
func each(b *testing.B, f func(ctx context.Context, key string) error) {
	b.Helper()
	var n atomic.Int64
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := f(context.Background(), fmt.Sprint("key-", n.Add(1))); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkClaimComplete(b *testing.B) {
	body := strings.Repeat("x", 300)
	b.Run("idem", func(b *testing.B) {
		be, _ := benchBackend(b)
		b.ResetTimer()
		each(b, func(ctx context.Context, key string) error {
			got, err := be.Claim(ctx, request(key))
			if err != nil {
				return err
			}
			return be.Complete(ctx, got.Record.Holder(), completion(body))
		})
	})
	b.Run("bare", func(b *testing.B) {
		_, pool := benchBackend(b)
		b.ResetTimer()
		each(b, func(ctx context.Context, key string) error {
			if _, err := pool.Exec(ctx, `INSERT INTO bare (tenant, actor, key, status) VALUES ($1, $2, $3, 'started') ON CONFLICT DO NOTHING`, "tenant", "actor", key); err != nil {
				return err
			}
			_, err := pool.Exec(ctx, `UPDATE bare SET status = 'completed', body = $4 WHERE tenant = $1 AND actor = $2 AND key = $3`, "tenant", "actor", key, []byte(body))
			return err
		})
	})
}

func BenchmarkReplay(b *testing.B) {
	body := strings.Repeat("x", 300)
	b.Run("idem", func(b *testing.B) {
		be, _ := benchBackend(b)
		c := request("key")
		if err := be.Complete(b.Context(), acquire(b, be, c).Holder(), completion(body)); err != nil {
			b.Fatal(err)
		}
		b.ResetTimer()
		each(b, func(ctx context.Context, _ string) error {
			got, err := be.Claim(ctx, request("key"))
			if err == nil && got.Record.Status != backend.Completed {
				return fmt.Errorf("status = %v, want completed", got.Record.Status)
			}
			return err
		})
	})
	b.Run("bare", func(b *testing.B) {
		be, pool := benchBackend(b)
		c := request("key")
		if err := be.Complete(b.Context(), acquire(b, be, c).Holder(), completion(body)); err != nil {
			b.Fatal(err)
		}
		b.ResetTimer()
		each(b, func(ctx context.Context, _ string) error {
			var status string
			var header, body []byte
			return pool.QueryRow(ctx, `SELECT status, response_header, response_body FROM idem_keys WHERE tenant = $1 AND actor = $2 AND key = $3`,
				"tenant", "actor", "key").Scan(&status, &header, &body)
		})
	})
}

func BenchmarkTransact(b *testing.B) {
	const effect = `INSERT INTO effects (amount) VALUES ($1)`
	b.Run("idem", func(b *testing.B) {
		be, _ := benchBackend(b)
		b.ResetTimer()
		each(b, func(ctx context.Context, key string) error {
			_, err := be.Transact(ctx, request(key), func(ctx context.Context, tx pgx.Tx, _ backend.Claimed) (backend.Effect, error) {
				_, err := tx.Exec(ctx, effect, 1)
				return backend.Effect{Response: response("ok")}, err
			})
			return err
		})
	})
	b.Run("bare", func(b *testing.B) {
		_, pool := benchBackend(b)
		b.ResetTimer()
		each(b, func(ctx context.Context, _ string) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, effect, 1)
				return err
			})
		})
	})
}
