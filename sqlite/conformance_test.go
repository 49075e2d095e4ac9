package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/conformance"
	"github.com/idem-go/idem/memory"
	"github.com/idem-go/idem/sqlite"
)

// handle opens the file anew, as another process would.
func handle(t conformance.T, path string) *sqlite.Backend {
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
	return b
}

func TestConformance(t *testing.T) {
	t.Parallel()
	conformance.Run(t, func(t *testing.T) conformance.Store {
		path := filepath.Join(t.TempDir(), "a.db")
		return conformance.Store{Open: func(t conformance.T) backend.Backend { return handle(t, path) }}
	})
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
	})
}
