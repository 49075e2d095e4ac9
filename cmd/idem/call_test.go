package main

import (
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const secret = "s3cret-of-the-test"

// Whatever is wrong about a command line, it says so and repeats no password.
func TestWrongUse(t *testing.T) {
	t.Parallel()
	at := "user:" + secret + "@127.0.0.1:1"
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "idem conformance DSN"},
		{[]string{"docter"}, "none of the commands"},
		{[]string{"postgres://" + at + "/db", "doctor"}, "none of the commands"},
		{[]string{"doctor"}, "no DSN"},
		{[]string{"doctor", "memory:", "redis://" + at}, "2 arguments"},
		{[]string{"doctor", "-verbose", "memory:"}, "-verbose"},
		{[]string{"doctor", "-redis://" + at}, "-h lists the flags"},
		{[]string{"doctor", "memory:", "-json=redis://" + at}, "-h lists the flags"},
		{[]string{"version", "now"}, "no argument"},
		{[]string{"doctor", "mysql://" + at}, "postgres://"},
		{[]string{"doctor", "user:" + secret}, "postgres://"},
		{[]string{"doctor", secret}, "postgres://"},
		{[]string{"doctor", "postgres://user:" + secret + "%zz@127.0.0.1:1/db"}, "percent-encoded"},
		{[]string{"doctor", "postgres://" + at + "/db?sslmode=" + secret}, "percent-encoded"},
		{[]string{"doctor", "postgres://user:1/" + secret + "@127.0.0.1:1/db"}, "percent-encoded"},
		{[]string{"doctor", "postgres://user:1?" + secret + "@127.0.0.1:1/db"}, "percent-encoded"},
		{[]string{"doctor", "postgres://user:1#" + secret + "@127.0.0.1:1/db"}, "percent-encoded"},
		{[]string{"doctor", "postgres://" + at + "/db?connect_timeout=5"}, "is it running, and"},
		{[]string{"doctor", "redis://user:" + secret + "%zz@127.0.0.1:1/0"}, "percent-encoded"},
		{[]string{"doctor", "redis://user:/" + secret + "@127.0.0.1:1/0"}, "percent-encoded"},
		{[]string{"doctor", "redis://" + at + "/" + secret}, "percent-encoded"},
		{[]string{"doctor", "redis://" + at + "/0?max_retries=-1"}, "is it running, and"},
		{[]string{"sweep", "redis://" + at + "/0?max_retries=-1"}, "is it running, and"},
		{[]string{"conformance", "redis://" + at + "/0?max_retries=-1"}, "is it running, and"},
		{[]string{"conformance", "postgres://" + at + "/db"}, "is it running, and"},
		{[]string{"doctor", "etcd://127.0.0.1:1"}, "is it running, and"},
		{[]string{"doctor", "etcd:" + at}, "etcd://"},
		{[]string{"doctor", "etcd://user:" + secret + "%zz@127.0.0.1:1"}, "percent-encoded"},
		{[]string{"doctor", "etcd://user:/" + secret + "@127.0.0.1:1"}, "percent-encoded"},
		{[]string{"doctor", "etcd://127.0.0.1:1,host-without-port"}, "etcd://"},
		{[]string{"doctor", "etcd://127.0.0.1:1/path"}, "etcd://"},
		{[]string{"doctor", "sqlite:"}, "sqlite:path"},
		{[]string{"doctor", "sqlite::memory:"}, "sqlite:path"},
		{[]string{"doctor", "sqlite://relative.db"}, "sqlite:path"},
		{[]string{"doctor", "sqlite:/no/such/file.db"}, "no such file"},
		{[]string{"conformance", "sqlite:/no/such/file.db"}, "no such file"},
		{[]string{"doctor", "sqlite:a.db", "-schema", "s"}, "-schema"},
		{[]string{"doctor", "sqlite:a.db", "-prefix", "s"}, "-prefix"},
		{[]string{"doctor", "redis://127.0.0.1:1", "-table", "s"}, "-table"},
		{[]string{"doctor", "etcd://127.0.0.1:1", "-schema", "s"}, "-schema"},
		{[]string{"doctor", "postgres://127.0.0.1:1", "-prefix", "s"}, "-prefix"},
		{[]string{"doctor", "memory:", "-prefix", "s"}, "-prefix"},
	} {
		stdout, stderr := want(t, statusError, c.args...)
		if stdout != "" || !strings.Contains(stderr, c.says) {
			t.Errorf("idem %q printed %q and %q, want something with %q on the standard error", c.args, stdout, stderr, c.says)
		}
		if strings.Contains(stderr, secret) {
			t.Errorf("idem %q shows the password: %s", c.args, stderr)
		}
	}
}

// Nor do servers that are there, whether the password is right or not.
func TestPasswordsAreNotPrinted(t *testing.T) {
	t.Parallel()
	for _, s := range []server{postgresServer(t), redisServer(t)} {
		u, err := url.Parse(s.dsn)
		must(t, err)
		password, _ := u.User.Password()
		u.User = url.UserPassword(u.User.Username(), secret)
		for _, command := range [][]string{{"doctor"}, {"doctor", "-json"}, {"sweep"}, {"inspect", "-tenant", "a", "-actor", "b", "-key", "c"}, {"conformance", "-run", "^table/new$"}} {
			stdout, stderr, _ := start(t, append(command, s.dsn)...)
			if strings.Contains(stdout+stderr, password) {
				t.Errorf("idem %q shows the password: %s%s", command, stdout, stderr)
			}
			stdout, stderr = want(t, statusError, append(command, u.String())...)
			if stdout != "" || strings.Contains(stderr, secret) {
				t.Errorf("idem %q with a wrong password shows it, or more than an error: %q, %q", command, stdout, stderr)
			}
		}
	}
}

func TestDSNFromTheEnvironment(t *testing.T) {
	t.Setenv("IDEM_DSN", "memory:")
	out, _ := want(t, statusNo, "doctor")
	contains(t, "doctor with IDEM_DSN", out, "memory/volatile")
	want(t, statusError, "doctor", "sqlite:")
}

func TestHelpAndVersion(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"help"}, {"-h"}, {"--help"}} {
		out, _ := want(t, statusOK, args...)
		contains(t, args[0], out, "idem doctor", "idem conformance", "idem inspect", "idem sweep", "idem version", "etcd://", "IDEM_DSN")
	}
	for _, cmd := range commands() {
		out, _ := want(t, statusOK, cmd.name, "-h")
		contains(t, cmd.name+" -h", out, "idem "+cmd.name)
	}
	out, _ := want(t, statusOK, "version")
	contains(t, "version", out, "idem ", "go1.")
}

// docs/cli.md names every command and every flag.
func TestDocs(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile(filepath.Join("..", "..", "docs", "cli.md"))
	must(t, err)
	flag := regexp.MustCompile(`(?m)^  -(\S+)`)
	for _, cmd := range commands() {
		out, _ := want(t, statusOK, cmd.name, "-h")
		for _, f := range flag.FindAllStringSubmatch(out, -1) {
			if !regexp.MustCompile("[ `]-" + f[1] + "[ `]").Match(docs) {
				t.Errorf("docs/cli.md does not name -%s of idem %s", f[1], cmd.name)
			}
		}
		contains(t, "docs/cli.md", string(docs), "`idem "+cmd.name)
	}
}

// Flags may stand before and after the DSN.
func TestFlagsInAnyOrder(t *testing.T) {
	t.Parallel()
	s := sqliteServer(t)
	for _, args := range [][]string{
		{"doctor", s.dsn, "-json", "-table", "records"},
		{"doctor", "-json", s.dsn, "-table", "records"},
		{"doctor", "-json", "-table", "records", s.dsn},
	} {
		out, _ := want(t, statusOK, args...)
		contains(t, "doctor -json", out, `"schema": 2`)
	}
}

// To look at a file changes nothing: a missing one is not made, and one that isn't
// idem's keeps its journal mode.
func TestDoctorLeavesFilesAsTheyAre(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	want(t, statusError, "doctor", "sqlite:"+path)
	if _, err := os.Stat(path); err == nil {
		t.Error("doctor made the file that it was to look at")
	}
	db, err := sql.Open("sqlite", path)
	must(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), "CREATE TABLE others (name TEXT)")
	must(t, err)
	_, errs := want(t, statusError, "doctor", "sqlite:"+path)
	contains(t, "doctor of a file without WAL", errs, "journal_mode(WAL)")
	var mode string
	must(t, db.QueryRowContext(t.Context(), "PRAGMA journal_mode").Scan(&mode))
	if mode != "delete" {
		t.Errorf("the journal mode after doctor = %s, want delete as before", mode)
	}
}
