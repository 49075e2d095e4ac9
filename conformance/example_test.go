package conformance_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/conformance"
	"github.com/idem-go/idem/memory"
)

// mystore stands for the adapter under test.
var mystore struct {
	New   func(db *sql.DB) backend.Transactor[*sql.Tx]
	Empty func(t *testing.T) *sql.DB
}

// The test of an adapter, in a file of its own package.
func ExampleRun() {
	TestConformance := func(t *testing.T) {
		conformance.Run(t, func(t *testing.T) conformance.Store {
			db := mystore.Empty(t)
			return conformance.Store{Open: func(conformance.T) backend.Backend { return mystore.New(db) }}
		})
	}
	_ = TestConformance
}

// What a server promises and how it takes being killed, on one that the test may
// kill. Run leaves these groups out elsewhere: Without("capability", "fault").
func ExampleSkew() {
	TestServerConformance := func(t *testing.T) {
		var server struct{ Kill, Start, Stop, Continue func() }
		conformance.Run(t, func(t *testing.T) conformance.Store {
			db := mystore.Empty(t)
			return conformance.Store{
				Open:    func(conformance.T) backend.Backend { return mystore.New(db) },
				Restart: func(conformance.T) { server.Kill(); server.Start() },
				Pause: func(conformance.T) func() {
					server.Stop()
					return server.Continue
				},
				Skewed: func(_ conformance.T, by time.Duration) backend.Backend {
					return conformance.Skew(t, by, func(t *testing.T) backend.Backend { return mystore.New(mystore.Empty(t)) })
				},
			}
		}, conformance.Only("capability", "fault"), conformance.Without("fault/partition"),
			conformance.Require(conformance.PowerRestart, conformance.PowerPause, conformance.PowerSkewed))
	}
	_ = TestServerConformance
}

// The test of an adapter whose store has transactions, on top of that of Run.
func ExampleRunTx() {
	TestTxConformance := func(t *testing.T) {
		conformance.RunTx(t, func(t *testing.T) conformance.TxStore[*sql.Tx] {
			db := mystore.Empty(t)
			if _, err := db.ExecContext(t.Context(), "CREATE TABLE effects (name text)"); err != nil {
				t.Fatal(err)
			}
			return conformance.TxStore[*sql.Tx]{
				Open: func(conformance.T) conformance.TxHandle[*sql.Tx] {
					return conformance.TxHandle[*sql.Tx]{Transactor: mystore.New(db), InTx: inTx(db)}
				},
				Put: func(ctx context.Context, tx *sql.Tx, name string) error {
					_, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES ($1)", name)
					return err
				},
				Count: func(ctx context.Context, name string) (n int, err error) {
					err = db.QueryRowContext(ctx, "SELECT count(*) FROM effects WHERE name = $1", name).Scan(&n)
					return n, err
				},
			}
		})
	}
	_ = TestTxConformance
}

// inTx gives the transactions of a caller. The rollback is deferred, because a case
// that fails ends its goroutine.
func inTx(db *sql.DB) func(ctx context.Context, f func(tx *sql.Tx) error) error {
	return func(ctx context.Context, f func(tx *sql.Tx) error) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := f(tx); err != nil {
			return err
		}
		return tx.Commit()
	}
}

// The suite outside of a test, as a command runs it against a live system.
func ExampleCheck() {
	report := conformance.Check(context.Background(), func(conformance.T) conformance.Store {
		clock := memory.NewClock(time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC))
		b := memory.New(memory.WithClock(clock))
		return conformance.Store{Open: func(conformance.T) backend.Backend { return b }, Advance: clock.Advance}
	})
	fmt.Println("failed:", report.Failed())
	fmt.Println("first:", report.Results[0].ID, report.Results[0].Verdict)
	// Output:
	// failed: []
	// first: table/new passed
}

// The cases for transactions outside of a test.
func ExampleCheckTx() {
	check := func(ctx context.Context, open func(t conformance.T) conformance.TxStore[*sql.Tx]) {
		for _, r := range conformance.CheckTx(ctx, open).Results {
			if r.Verdict != conformance.Passed {
				fmt.Println(r.ID, r.Verdict, r.Rule, r.Log)
			}
		}
	}
	_ = check
}
