package sqlite_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/conformance"
	"github.com/idem-go/idem/internal/limits"
	"github.com/idem-go/idem/memory"
	"github.com/idem-go/idem/sqlite"
)

var page = limits.Of("sqlite", "files as sqlite.Open sets them up, by processes of one machine").Spare("nothing lies between a process and its file that could be cut", "fault/partition")

var moved = page.Variant("with a clock that the suite moves, to check exact boundaries")

// handle opens the file anew, as another process would.
func handle(t conformance.T, path string) *sqlite.Backend {
	b, _ := handleAndPool(t, path)
	return b
}

func handleAndPool(t conformance.T, path string) (*sqlite.Backend, *sql.DB) {
	db, err := sqlite.Open(path)
	if err != nil {
		t.Fatalf("Open = %v", err)
	}
	t.Cleanup(func() { db.Close() })
	if err := sqlite.Migrate(t.Context(), db); err != nil {
		t.Fatalf("Migrate = %v", err)
	}
	b, err := sqlite.New(db)
	if err != nil {
		t.Fatalf("New = %v", err)
	}
	return b, db
}

// skewed is a handle of a process whose clock is wrong.
func skewed(t conformance.T, path string, by time.Duration) backend.Backend {
	b := handle(t, path)
	b.SetClock(func() time.Time { return time.Now().Add(by) })
	return b
}

// ofProcesses are the cases of TestProcessConformance.
var ofProcesses = []string{"capability/durable-kill", "capability/lease-stretch", "capability/tokens", "fault"}

func TestConformance(t *testing.T) {
	t.Parallel()
	conformance.Run(t, func(t *testing.T) conformance.Store {
		path := filepath.Join(t.TempDir(), "a.db")
		return conformance.Store{
			Open:   func(t conformance.T) backend.Backend { return handle(t, path) },
			Skewed: func(t conformance.T, by time.Duration) backend.Backend { return skewed(t, path, by) },
		}
	}, conformance.Without(ofProcesses...), page.Shown())
}

// With a clock that the suite moves it checks the boundaries exactly.
func TestConformanceWithAMovedClock(t *testing.T) {
	t.Parallel()
	conformance.Run(t, func(t *testing.T) conformance.Store {
		path := filepath.Join(t.TempDir(), "a.db")
		clock := memory.NewClock(time.Date(2001, 2, 3, 4, 5, 6, 7000, time.UTC))
		return conformance.Store{
			Open: func(t conformance.T) backend.Backend {
				b := handle(t, path)
				b.SetClock(clock.Now)
				return b
			},
			Advance: clock.Advance,
		}
	}, conformance.Without("capability", "fault"), moved.Shown())
}

func TestTxConformance(t *testing.T) {
	t.Parallel()
	conformance.RunTx(t, func(t *testing.T) conformance.TxStore[*sql.Tx] {
		path := filepath.Join(t.TempDir(), "a.db")
		_, db := handleAndPool(t, path)
		if _, err := db.ExecContext(t.Context(), "CREATE TABLE effects (name TEXT NOT NULL)"); err != nil {
			t.Fatal(err)
		}
		return conformance.TxStore[*sql.Tx]{
			Open: func(t conformance.T) conformance.TxHandle[*sql.Tx] {
				b, db := handleAndPool(t, path)
				return conformance.TxHandle[*sql.Tx]{
					Transactor: b,
					InTx: func(ctx context.Context, f func(tx *sql.Tx) error) error {
						tx, err := db.BeginTx(ctx, nil)
						if err != nil {
							return err
						}
						defer tx.Rollback()
						if err := f(tx); err != nil {
							return err
						}
						return tx.Commit()
					},
				}
			},
			Put: func(ctx context.Context, tx *sql.Tx, name string) error {
				_, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES (?)", name)
				return err
			},
			Count: func(ctx context.Context, name string) (n int, err error) {
				err = db.QueryRowContext(ctx, "SELECT count(*) FROM effects WHERE name = ?", name).Scan(&n)
				return n, err
			},
		}
	}, page.Shown())
}
