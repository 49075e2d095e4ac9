package conformance_test

import (
	"context"
	"database/sql"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/idem-go/idem/conformance"
	"github.com/idem-go/idem/sqlite"
)

// noSync spares the disk the commits of some thousand cases.
const noSync = "?_pragma=busy_timeout(30000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_txlock=immediate"

// txFailures are the cases that fail with a fault.
func txFailures(t *testing.T, fault func(f *faultyTx)) (failed, all []string) {
	t.Helper()
	r := conformance.CheckTx(t.Context(), func(ct conformance.T) conformance.TxStore[tx] {
		path := filepath.Join(t.TempDir(), "a.db")
		pool := func() *sql.DB {
			db, err := sql.Open("sqlite", "file:"+path+noSync)
			if err != nil {
				ct.Fatalf("Open = %v", err)
			}
			ct.Cleanup(func() { db.Close() })
			return db
		}
		db := pool()
		if err := sqlite.Migrate(ct.Context(), db); err != nil {
			ct.Fatalf("Migrate = %v", err)
		}
		if _, err := db.ExecContext(ct.Context(), "CREATE TABLE effects (name TEXT NOT NULL)"); err != nil {
			ct.Fatalf("CREATE TABLE = %v", err)
		}
		return conformance.TxStore[tx]{
			Open: func(ct conformance.T) conformance.TxHandle[tx] {
				db := pool()
				b, err := sqlite.New(db, sqlite.AllowNormalSync())
				if err != nil {
					ct.Fatalf("New = %v", err)
				}
				f := &faultyTx{Backend: b, db: db}
				fault(f)
				return conformance.TxHandle[tx]{Transactor: f, InTx: inTx(db)}
			},
			Put: func(ctx context.Context, tx tx, name string) error {
				_, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES (?)", name)
				return err
			},
			Count: func(ctx context.Context, name string) (n int, err error) {
				err = db.QueryRowContext(ctx, "SELECT count(*) FROM effects WHERE name = ?", name).Scan(&n)
				return n, err
			},
		}
	})
	for _, c := range r.Results {
		all = append(all, c.ID)
	}
	return r.Failed(), all
}

// TestSuite for the cases of transactions. One fault of a transaction shows in many
// of them, so that only the kind is held against the others: what breaks Transact
// leaves InLease and Bind alone.
func TestTxSuite(t *testing.T) {
	t.Parallel()
	failed, all := txFailures(t, func(*faultyTx) {})
	if len(failed) != 0 {
		t.Fatalf("without a fault %v failed, want none", failed)
	}
	names := slices.Sorted(maps.Keys(txFaults))
	caught := make([][]string, len(names))
	var wg sync.WaitGroup
	some := make(chan struct{}, 8) // at once: they wait for leases most of the time
	for i, name := range names {
		some <- struct{}{}
		wg.Go(func() {
			caught[i], _ = txFailures(t, txFaults[name].fault)
			<-some
		})
	}
	wg.Wait()
	catches := make(map[string]bool)
	for i, name := range names {
		t.Logf("%s: caught by %s", name, strings.Join(caught[i], " "))
		wanted := txFaults[name].caught
		for _, want := range strings.Fields(wanted) {
			if !slices.Contains(caught[i], want) && !failsAgain(t, name, want) {
				t.Errorf("%s: %s passed, want it to catch this", name, want)
			}
		}
		for _, id := range caught[i] {
			group, _, _ := strings.Cut(id, "/")
			if !strings.Contains(wanted, group+"/") && failsAgain(t, name, id) {
				t.Errorf("%s: %s failed, want it to have nothing to do with this", name, id)
			}
			catches[id] = true
		}
	}
	for _, id := range all {
		if !catches[id] {
			t.Errorf("%s catches no fault", id)
		}
	}
	t.Logf("%d faults, %d cases", len(txFaults), len(all))
}

// failsAgain runs the cases with a fault once more: a machine can be too busy for
// the leases of a case.
func failsAgain(t *testing.T, fault, id string) bool {
	t.Helper()
	failed, _ := txFailures(t, txFaults[fault].fault)
	return slices.Contains(failed, id)
}
