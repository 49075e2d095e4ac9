package sqlite_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/sqlite"
)

// dsn opens a pool with a DSN that is not Open's.
func dsn(t *testing.T, name string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// Facts S-1, S-3 and S-8: what New refuses, and that it says what to put into the
// DSN.
func TestNewRefuses(t *testing.T) {
	t.Parallel()
	const busy, wal, full = "_pragma=busy_timeout(5000)", "_pragma=journal_mode(WAL)", "_pragma=synchronous(FULL)"
	for _, tt := range []struct {
		name, dsn, says string
		ok              bool
	}{
		{"memory", ":memory:?" + busy, ":memory:", false},
		{"memory by URI", "file:x?mode=memory&" + busy, ":memory:", false},
		{"shared memory", "file:y?mode=memory&cache=shared&" + busy, ":memory:", false},
		{"temporary file", "", ":memory:", false},
		{"nothing set", "DIR/a.db", "busy_timeout(5000)", false},
		{"no WAL", "DIR/a.db?" + busy, "journal_mode(WAL)", false},
		{"NORMAL", "DIR/a.db?" + busy + "&" + wal + "&_pragma=synchronous(NORMAL)", "synchronous(FULL)", false},
		{"OFF", "DIR/a.db?" + busy + "&" + wal + "&_pragma=synchronous(OFF)", "synchronous(FULL)", false},
		{"all set", "DIR/a.db?" + busy + "&" + wal + "&" + full, "", true},
		{"FULL is the driver's default", "DIR/a.db?" + busy + "&" + wal, "", true},
		{"EXTRA", "DIR/a.db?" + busy + "&" + wal + "&_pragma=synchronous(EXTRA)", "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			db := dsn(t, strings.Replace(tt.dsn, "DIR", t.TempDir(), 1))
			_, err := sqlite.New(db)
			switch {
			case tt.ok && err != nil:
				t.Errorf("New(%s) = %v, want nil", tt.dsn, err)
			case !tt.ok && (!errors.Is(err, backend.ErrInvalid) || !strings.Contains(err.Error(), tt.says)):
				t.Errorf("New(%s) = %v, want ErrInvalid that says %s", tt.dsn, err, tt.says)
			}
		})
	}
}

func TestNewOfABadPool(t *testing.T) {
	t.Parallel()
	if _, err := sqlite.New(nil); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("New(nil) = %v, want ErrInvalid", err)
	}
	if err := sqlite.Migrate(t.Context(), nil); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("Migrate(nil) = %v, want ErrInvalid", err)
	}
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "missing", "a.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.New(db); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("New of a file in a missing directory = %v, want ErrUnavailable", err)
	}
	if err := sqlite.Migrate(t.Context(), db); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("Migrate of a file in a missing directory = %v, want ErrUnavailable", err)
	}
	db.Close()
	if _, err := sqlite.New(db); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("New(closed pool) = %v, want ErrUnavailable", err)
	}
	_, open := fresh(t)
	for name, opt := range map[string]sqlite.Option{
		"no table":       sqlite.WithTable(""),
		"injected table": sqlite.WithTable(`x"; DROP TABLE y; --`),
		"SQLite's table": sqlite.WithTable("SQLite_master"),
		"no budget":      sqlite.WithBusyBudget(0),
	} {
		if _, err := sqlite.New(open, opt); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("New(%s) = %v, want ErrInvalid", name, err)
		}
		if err := sqlite.Migrate(t.Context(), open, opt); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("Migrate(%s) = %v, want ErrInvalid", name, err)
		}
	}
}

func TestOpenPaths(t *testing.T) { // fact S-3: a plain name is cut at its first '?'
	t.Parallel()
	for _, name := range []string{"plain.db", "a b.db", "what?.db", "100%41.db", "a#b.db", "ü;&=+.db", "file"} {
		path := filepath.Join(t.TempDir(), name)
		db := openFile(t, path)
		if _, err := sqlite.New(db); err != nil {
			t.Errorf("New(Open(%q)) = %v, want nil", name, err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("Open(%q) made another file: %v", name, err)
		}
		var mode string
		if err := db.QueryRow("PRAGMA journal_mode").Scan(&mode); err != nil || mode != "wal" {
			t.Errorf("journal_mode of Open(%q) = %s, %v, want wal", name, mode, err)
		}
	}
	for _, path := range []string{"", ":memory:", "file:a.db", "a\x00.db"} {
		if _, err := sqlite.Open(path); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("Open(%q) = %v, want ErrInvalid", path, err)
		}
	}
}

// Fact S-3: a pragma executed on a pool reaches one connection. The one that
// durability hangs on is read before each write.
func TestConnectionThatWasChanged(t *testing.T) {
	t.Parallel()
	b, db := fresh(t)
	db.SetMaxOpenConns(1)
	run(t, db, "PRAGMA synchronous = NORMAL")
	_, err := b.Claim(t.Context(), claimOf("key"))
	if !errors.Is(err, backend.ErrInvalid) || !strings.Contains(err.Error(), "synchronous(FULL)") {
		t.Errorf("Claim on a connection with synchronous=NORMAL = %v, want ErrInvalid that says synchronous(FULL)", err)
	}
	_, err = b.Transact(t.Context(), claimOf("key"), noEffect)
	if !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("Transact on a connection with synchronous=NORMAL = %v, want ErrInvalid", err)
	}
	normal := newBackend(t, db, sqlite.AllowNormalSync())
	mustClaim(t, normal, claimOf("key"))
	run(t, db, "PRAGMA synchronous = OFF")
	if _, err := normal.Claim(t.Context(), claimOf("other")); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("Claim with AllowNormalSync and synchronous=OFF = %v, want ErrInvalid", err)
	}
}

// A busy_timeout that was lost doesn't show either: the wait is the backend's.
func TestBusyTimeoutIsNotNeeded(t *testing.T) {
	t.Parallel()
	b, db := fresh(t)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	db.SetMaxOpenConns(2)
	run(t, db, "PRAGMA busy_timeout = 0")
	got := make(chan error, 1)
	go func() {
		_, err := b.Claim(t.Context(), claimOf("key"))
		got <- err
	}()
	tries, trying := 0, false
	eventually(t, "it has tried several times", func() bool {
		before := trying
		if trying = db.Stats().InUse == 2; trying && !before {
			tries++
		}
		select {
		case err := <-got:
			t.Fatalf("Claim while the file is locked = %v, want it to wait", err)
		default:
		}
		return tries >= 3
	})
	tx.Rollback()
	if err := <-got; err != nil {
		t.Errorf("Claim after the lock was free = %v, want nil", err)
	}
}

func TestMissingTable(t *testing.T) {
	t.Parallel()
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "a.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	b := newBackend(t, db)
	check := func(when string) {
		t.Helper()
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, bound := b.Bind(tx).Claim(t.Context(), claimOf("key"))
		tx.Rollback()
		_, claim := b.Claim(t.Context(), claimOf("key"))
		_, get := b.Get(t.Context(), claimOf("key").Key)
		_, transact := b.Transact(t.Context(), claimOf("key"), noEffect)
		_, sweep := b.Sweep(t.Context(), 1)
		for call, err := range map[string]error{"Claim": claim, "Get": get, "Transact": transact, "Sweep": sweep, "Bind.Claim": bound} {
			if !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(err.Error(), "sqlite.Migrate") {
				t.Errorf("%s %s = %v, want ErrUnavailable that says sqlite.Migrate", call, when, err)
			}
		}
	}
	check("without a table")
	if d, err := b.Describe(t.Context()); err != nil || d.Schema != 0 || len(d.Findings) != 1 || d.Findings[0].ID != "sqlite/schema" {
		t.Errorf("Describe without a table = %+v, %v, want schema 0 and the finding sqlite/schema", d, err)
	}
	if _, err := db.ExecContext(t.Context(), sqlite.Schema()); err != nil { // the exported SQL is Migrate's
		t.Fatal(err)
	}
	mustClaim(t, b, claimOf("key"))
	run(t, db, "DROP TABLE idem_keys")
	check("after the table was dropped")
}

func TestOldSchema(t *testing.T) {
	t.Parallel()
	b, db := fresh(t)
	run(t, db, "ALTER TABLE idem_keys DROP COLUMN payload")
	run(t, db, "UPDATE idem_keys_meta SET version = 0")
	if _, err := b.Claim(t.Context(), claimOf("key")); !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(err.Error(), "sqlite.Migrate") {
		t.Errorf("Claim on an older schema = %v, want ErrUnavailable that says sqlite.Migrate", err)
	}
}

func TestMigrateLeavesWhatIsThere(t *testing.T) {
	t.Parallel()
	b, db := fresh(t)
	run(t, db, "PRAGMA user_version = 7")
	mustClaim(t, b, claimOf("key"))
	run(t, db, "UPDATE idem_keys_meta SET version = 99") // hard case 19: a later version was here
	if err := sqlite.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Get(t.Context(), claimOf("key").Key); err != nil {
		t.Errorf("Get after a second Migrate = %v, want the record", err)
	}
	if v := count(t, db, "SELECT version FROM idem_keys_meta"); v != 99 {
		t.Errorf("schema version after Migrate = %d, want 99", v)
	}
	if v := count(t, db, "PRAGMA user_version"); v != 7 {
		t.Errorf("user_version = %d, want the owner's 7", v)
	}
}

func TestTables(t *testing.T) {
	t.Parallel()
	_, db := fresh(t)
	if err := sqlite.Migrate(t.Context(), db, sqlite.WithTable("Order")); err != nil { // a keyword
		t.Fatal(err)
	}
	mustClaim(t, newBackend(t, db, sqlite.WithTable("Order")), claimOf("key"))
	mustClaim(t, newBackend(t, db), claimOf("key"))
	if n := count(t, db, `SELECT count(*) FROM "Order"`); n != 1 {
		t.Errorf(`records of "Order" = %d, want 1`, n)
	}
}

func TestClosedPool(t *testing.T) {
	t.Parallel()
	b, db := fresh(t)
	l := mustClaim(t, b, claimOf("key")).Holder()
	db.Close()
	_, claim := b.Claim(t.Context(), claimOf("other"))
	_, get := b.Get(t.Context(), l.Key)
	_, sweep := b.Sweep(t.Context(), 1)
	_, transact := b.Transact(t.Context(), claimOf("other"), noEffect)
	_, describe := b.Describe(t.Context())
	for call, err := range map[string]error{
		"Claim": claim, "Get": get, "Sweep": sweep, "Transact": transact, "Describe": describe,
		"Renew":    b.Renew(t.Context(), l, time.Minute),
		"Complete": b.Complete(t.Context(), l, backend.Completion{Sequence: 1}),
	} {
		if !errors.Is(err, backend.ErrUnavailable) {
			t.Errorf("%s on a closed pool = %v, want ErrUnavailable", call, err)
		}
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	b, db := fresh(t)
	d, err := b.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d.Name != "sqlite" || !strings.HasPrefix(d.Server, "3.") || d.Schema != sqlite.Version || len(d.Findings) != 0 {
		t.Errorf("Describe = %+v, want sqlite 3, schema %d and no findings", d, sqlite.Version)
	}
	db.SetMaxOpenConns(1)
	run(t, db, "PRAGMA synchronous = NORMAL")
	run(t, db, "PRAGMA busy_timeout = 0")
	run(t, db, "PRAGMA journal_mode = DELETE")
	d, err = b.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, f := range d.Findings {
		ids = append(ids, f.ID)
	}
	if got := strings.Join(ids, " "); got != "sqlite/synchronous sqlite/journal_mode sqlite/busy_timeout" {
		t.Errorf("findings = %s", got)
	}
}
