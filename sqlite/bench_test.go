package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/sqlite"
)

// The benchmarks run beside the same work on the bare driver, whose figures are
// the floor to compare with.

func benchBackend(b *testing.B) (*sqlite.Backend, *sql.DB) {
	b.Helper()
	db, err := sqlite.Open(b.TempDir() + "/a.db")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	if err := sqlite.Migrate(b.Context(), db); err != nil {
		b.Fatal(err)
	}
	s, err := sqlite.New(db)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE bare (key TEXT PRIMARY KEY NOT NULL, body BLOB) STRICT; CREATE TABLE ledger (who TEXT, amount INTEGER)"); err != nil {
		b.Fatal(err)
	}
	return s, db
}

var benchBody = make([]byte, 1024)

func BenchmarkClaimComplete(b *testing.B) {
	for _, workers := range []int{1, 64} {
		b.Run(fmt.Sprintf("idem/workers=%d", workers), func(b *testing.B) {
			s, _ := benchBackend(b)
			var n atomic.Int64
			run := func() {
				c := claimOf(fmt.Sprint("key", n.Add(1)))
				got, err := s.Claim(context.Background(), c)
				if err != nil {
					b.Error(err)
					return
				}
				if err := s.Complete(context.Background(), got.Record.Holder(), backend.Completion{Sequence: 1, Response: backend.Response{Status: 200, Body: benchBody}}); err != nil {
					b.Error(err)
				}
			}
			parallel(b, workers, run)
		})
		b.Run(fmt.Sprintf("bare/workers=%d", workers), func(b *testing.B) {
			_, db := benchBackend(b)
			var n atomic.Int64
			parallel(b, workers, func() {
				k := fmt.Sprint("key", n.Add(1))
				if _, err := db.Exec("INSERT INTO bare (key) VALUES (?)", k); err != nil {
					b.Error(err)
					return
				}
				if _, err := db.Exec("UPDATE bare SET body = ? WHERE key = ?", benchBody, k); err != nil {
					b.Error(err)
				}
			})
		})
	}
}

func BenchmarkReplay(b *testing.B) {
	for _, workers := range []int{1, 64} {
		b.Run(fmt.Sprintf("idem/workers=%d", workers), func(b *testing.B) {
			s, _ := benchBackend(b)
			c := claimOf("key")
			got, err := s.Claim(context.Background(), c)
			if err != nil {
				b.Fatal(err)
			}
			if err := s.Complete(context.Background(), got.Record.Holder(), backend.Completion{Sequence: 1, Response: backend.Response{Status: 200, Body: benchBody}}); err != nil {
				b.Fatal(err)
			}
			again := claimOf("key")
			parallel(b, workers, func() {
				if got, err := s.Claim(context.Background(), again); err != nil || got.Acquired {
					b.Error(got, err)
				}
			})
		})
		b.Run(fmt.Sprintf("bare/workers=%d", workers), func(b *testing.B) {
			_, db := benchBackend(b)
			if _, err := db.Exec("INSERT INTO bare (key, body) VALUES ('key', ?)", benchBody); err != nil {
				b.Fatal(err)
			}
			parallel(b, workers, func() {
				var body []byte
				if err := db.QueryRow("SELECT body FROM bare WHERE key = ?", "key").Scan(&body); err != nil {
					b.Error(err)
				}
			})
		})
	}
}

func BenchmarkTransact(b *testing.B) {
	b.Run("idem", func(b *testing.B) {
		s, _ := benchBackend(b)
		var n atomic.Int64
		parallel(b, 1, func() {
			_, err := s.Transact(context.Background(), claimOf(fmt.Sprint("key", n.Add(1))), func(ctx context.Context, tx *sql.Tx, _ backend.Claimed) (backend.Effect, error) {
				_, err := tx.ExecContext(ctx, "INSERT INTO ledger (who, amount) VALUES ('a', 1)")
				return backend.Effect{Response: backend.Response{Status: 200, Body: benchBody}}, err
			})
			if err != nil {
				b.Error(err)
			}
		})
	})
	b.Run("bare", func(b *testing.B) {
		_, db := benchBackend(b)
		parallel(b, 1, func() {
			tx, err := db.Begin()
			if err != nil {
				b.Error(err)
				return
			}
			defer tx.Rollback()
			if _, err := tx.Exec("INSERT INTO ledger (who, amount) VALUES ('a', 1)"); err != nil {
				b.Error(err)
			}
			if err := tx.Commit(); err != nil {
				b.Error(err)
			}
		})
	})
}

// parallel runs f b.N times in that many goroutines.
func parallel(b *testing.B, workers int, f func()) {
	b.Helper()
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	done := make(chan struct{})
	for range workers {
		go func() {
			defer func() { done <- struct{}{} }()
			for left.Add(-1) >= 0 {
				f()
			}
		}()
	}
	for range workers {
		<-done
	}
}
