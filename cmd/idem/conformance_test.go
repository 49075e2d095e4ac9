package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/idem-go/idem/conformance"
	"github.com/idem-go/idem/internal/testenv"
)

// where are the flags of conformance, which has no table to be told about.
func (s server) where() []string {
	if s.flags[0] == "-prefix" {
		return s.flags
	}
	return nil
}

func (s server) conformance(more ...string) []string {
	return append(append([]string{"conformance", s.dsn}, s.where()...), more...)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, s server) {
		before := acquire(t, s.b, request("of the service"))
		only, tx := "^(table/new|checkpoint/.*|claim/race-fresh|bind/undo)$", s.where() == nil
		file := filepath.Join(t.TempDir(), "report.md")
		out, _ := want(t, statusOK, s.conformance("-v", "-run", only, "-o", file)...)
		contains(t, "conformance -v", out, "passed       table/new\n", "passed       checkpoint/bytes\n", "total ", " passed\n")
		if strings.Contains(out, "not run") || strings.Contains(out, "table/replay") {
			t.Errorf("conformance -run %s printed\n%s\nwant nothing of other cases", only, out)
		}
		if got := strings.Contains(out, "bind/undo"); got != tx {
			t.Errorf("conformance ran cases for transactions: %v, want %v; it printed\n%s", got, tx, out)
		}
		report, err := os.ReadFile(file)
		must(t, err)
		d, err := s.b.Describe(t.Context())
		must(t, err)
		contains(t, "conformance -o", string(report), "# Conformance "+d.Name+" "+d.Server+"\n", "| checkpoint/bytes |")

		out, progress := want(t, statusOK, s.conformance("-run", "^table/new$", "-report", "json")...)
		contains(t, "conformance -report json on the standard error", progress, "table        1 passed\n")
		var r conformance.Report
		must(t, json.Unmarshal([]byte(out), &r))
		if len(r.Results) != 1 || r.Results[0].ID != "table/new" || r.Results[0].Verdict != conformance.Passed {
			t.Errorf("conformance -report json = %s, want the one case", out)
		}

		if _, err := s.b.Get(t.Context(), before.Key); err != nil {
			t.Errorf("Get of the service's own record after the suite = %v, want it", err)
		}
		must(t, s.b.Release(t.Context(), before))
		if left := s.left(t); len(left) > 0 {
			t.Errorf("conformance left %q, want nothing", left)
		}
	})
}

// Leases of etcd outlive the keys that were bound to them.
func TestConformanceLeavesNoLease(t *testing.T) {
	t.Parallel()
	srv := testenv.EtcdPrivate(t)
	want(t, statusOK, "conformance", "etcd://"+strings.Join(srv.Endpoints, ","), "-run", "^(fence/one-completes|complete/bytes|lifecycle/many-keys)$")
	client, err := clientv3.New(clientv3.Config{Endpoints: srv.Endpoints, Logger: zap.NewNop(), Context: context.Background()})
	must(t, err)
	defer client.Close()
	left, err := client.Leases(t.Context())
	must(t, err)
	if len(left.Leases) > 0 {
		t.Errorf("conformance left %d leases, want none", len(left.Leases))
	}
}

// A user who may not delete fields: a release has to, and is seen to fail.
func TestConformanceThatFails(t *testing.T) {
	t.Parallel()
	srv := testenv.RedisPrivate(t)
	opts, err := goredis.ParseURL(srv.URL)
	must(t, err)
	client := goredis.NewClient(opts)
	defer client.Close()
	must(t, client.Do(t.Context(), "ACL", "SETUSER", "clerk", "on", ">pass-of-the-clerk", "~*", "&*", "+@all", "-hdel").Err())

	dsn := "redis://clerk:pass-of-the-clerk@" + srv.Addr
	out, _ := want(t, statusNo, "conformance", dsn, "-run", "^(table/new|lifecycle/.*)$")
	contains(t, "conformance of a store that fails", out, "table        1 passed\n", "failed       lifecycle/", "    rule: ", "@user_script")
	if n := client.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("conformance left %d keys, want none", n)
	}
}

func TestConformanceThatIsIncomplete(t *testing.T) {
	t.Parallel()
	want(t, statusError, "conformance", "memory:", "-run", "^no/such/case$")
	want(t, statusError, "conformance", "memory:", "-run", "^get/", "-skip", "^get/")

	// What can't be shown here has an exit status of its own, and a way to do without.
	const only = "^(get|fault)/"
	out, _ := want(t, statusNotShown, "conformance", "memory:", "-run", only)
	_, pattern, _ := strings.Cut(out, "-skip '")
	pattern, _, _ = strings.Cut(pattern, "'")
	out, _ = want(t, statusOK, "conformance", "memory:", "-run", only, "-skip", pattern)
	contains(t, "conformance -skip", out, "get          4 passed\n", "total        4 passed\n")
	for _, bad := range [][]string{{"-run", "("}, {"-skip", "("}, {"-seed", "x"}, {"-report", "pdf"}, {"-o", filepath.Join(t.TempDir(), "no", "such", "directory")}} {
		_, errs := want(t, statusError, append([]string{"conformance", "memory:"}, bad...)...)
		contains(t, "conformance "+bad[0], errs, bad[0])
	}
}

func TestConformanceWithASeed(t *testing.T) {
	t.Parallel()
	out, _ := want(t, statusOK, "conformance", "memory:", "-run", "^history/linearizable$", "-seed", "7", "-report", "json")
	contains(t, "conformance -seed 7", out, "IDEM_TEST_SEED=7")
}

func TestProgress(t *testing.T) {
	t.Parallel()
	results := []conformance.Result{
		{ID: "a/1", Verdict: conformance.Passed},
		{ID: "a/2", Verdict: conformance.Failed, Rule: "It holds.", Log: []string{"it", "doesn't\nhold"}},
		{ID: "a/3", Verdict: conformance.NotRun, Reason: "no power to kill"},
		{ID: "a/4", Verdict: conformance.NotShown, Reason: "no power to kill"},
	}
	for _, c := range []struct {
		verbose bool
		want    string
	}{
		{false, "a            1 passed, 1 failed, 1 not run, 1 not shown\nfailed       a/2\n    rule: It holds.\n    it\n    doesn't\n    hold\nb            1 passed\n"},
		{true, "passed       a/1\nfailed       a/2\n    rule: It holds.\n    it\n    doesn't\n    hold\nnot run      a/3\nnot shown    a/4\npassed       b/1\n"},
	} {
		var b strings.Builder
		p := &progress{w: &b, verbose: c.verbose}
		for _, r := range append(results, conformance.Result{ID: "b/1", Verdict: conformance.Passed}) {
			p.add(r)
		}
		p.flush()
		if b.String() != c.want {
			t.Errorf("progress (verbose %v) wrote\n%q\nwant\n%q", c.verbose, b.String(), c.want)
		}
	}
	var b strings.Builder
	summary(&b, &conformance.Report{Results: results})
	if want := "total        1 passed, 1 failed, 1 not run, 1 not shown\nnot run: no power to kill\n"; b.String() != want {
		t.Errorf("summary wrote %q, want %q", b.String(), want)
	}
	b.Reset()
	summary(&b, &conformance.Report{Results: results[2:]})
	if want := "total        1 not run, 1 not shown\nnot run: no power to kill\nthe exit status is 3 for these; without them: -skip '^(a/3|a/4)$'\n"; b.String() != want {
		t.Errorf("summary(nothing failed) wrote %q, want %q", b.String(), want)
	}
}
