package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idem-go/idem/internal/testenv"
)

// asProgram makes the test binary run as the program itself, and so do the services
// that it starts.
const asProgram = "CHECKOUT_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	testenv.Main(m)
}

// play runs the program with a directory of its own for temporary files.
func play(t *testing.T, args ...string) (out, tmp string, err error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	tmp = t.TempDir()
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+tmp)
	raw, err := cmd.CombinedOutput()
	return string(raw), tmp, err
}

// verdicts are what the lines about scenarios say, by name.
func verdicts(out string) map[string]string {
	by := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^(ok  |FAIL) (.*?) +expected: `).FindAllStringSubmatch(out, -1) {
		by[m[2]] = strings.TrimSpace(m[1])
	}
	return by
}

// checkFine checks that all scenarios were played and went well, with a kill at every
// step that the code has.
func checkFine(t *testing.T, out string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("checkout = %v, want exit status 0; it printed\n%s", err, out)
	}
	got := verdicts(out)
	want := []string{plain.name}
	for _, sc := range scenarios {
		want = append(want, sc.name)
	}
	// Some that there must be; the program finds them by itself.
	for _, p := range []string{
		"before the claim", "before the commit of create", "after charge (sent) is stored", "before POST /charges", "after POST /charges",
		"before GET /charges (gateway: drop)", "after charge (refused) is stored (gateway: decline)", "after the commit of the answer", "before the answer leaves",
	} {
		want = append(want, "killed "+p)
	}
	for _, name := range want {
		if got[name] != "ok" {
			t.Errorf("scenario %q: %q, want ok", name, got[name])
		}
	}
	if len(got) < 30 {
		t.Errorf("%d scenarios, want at least 30", len(got))
	}
	if t.Failed() {
		t.Logf("it printed\n%s", out)
	}
}

func TestScenariosOnSQLite(t *testing.T) {
	t.Parallel()
	out, tmp, err := play(t)
	checkFine(t, out, err)
	if left, err := filepath.Glob(filepath.Join(tmp, "*")); err != nil || len(left) > 0 {
		t.Errorf("checkout left %v (%v), want no temporary files", left, err)
	}
}

func TestScenariosOnPostgres(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t).URL
	out, _, err := play(t, "-backend", url)
	checkFine(t, out, err)

	s, err := openPostgres(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	var left int
	if err := s.pool.get(t.Context(), "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'checkout%'", nil, &left); err != nil || left != 0 {
		t.Errorf("checkout left %d schemas (%v), want none", left, err)
	}
}

// A service that charges outside of idem.Call must be seen to charge twice: by the
// scenario, by the books and by the exit status.
func TestCarelessChargesTwice(t *testing.T) {
	t.Parallel()
	for point, want := range map[string]string{"before POST /charges": "ok", "after POST /charges": "FAIL"} {
		out, _, err := play(t, "-careless", "-kill", point)
		var exit *exec.ExitError
		if failed := errors.As(err, &exit) && exit.ExitCode() == 1; failed != (want == "FAIL") {
			t.Errorf("checkout -careless -kill %q = %v, want exit status 1: %v", point, err, want == "FAIL")
		}
		if got := verdicts(out)["killed "+point]; got != want {
			t.Errorf("scenario of a kill %s: %q, want %s", point, got, want)
		}
		twice := regexp.MustCompile(`(?m)^ORD-\d+.* killed ` + point + `  WRONG charges: 2, want 1`).MatchString(out)
		if wrong := strings.Contains(out, "the books are WRONG"); twice != (want == "FAIL") || wrong != twice {
			t.Errorf("checkout -careless -kill %q: charged twice: %v, books wrong: %v, want both %v", point, twice, wrong, want == "FAIL")
		}
		if t.Failed() {
			t.Logf("it printed\n%s", out)
		}
	}
}

func TestKillAtOneStep(t *testing.T) {
	t.Parallel()
	out, _, err := play(t, "-kill", "after PUT /paid")
	if err != nil {
		t.Fatalf("checkout -kill = %v, want exit status 0; it printed\n%s", err, out)
	}
	var names []string
	for name := range verdicts(out) {
		names = append(names, name)
	}
	slices.Sort(names)
	if want := []string{"all of it again, after a restart", "killed after PUT /paid", plain.name}; !slices.Equal(names, want) {
		t.Errorf("checkout -kill played %q, want %q", names, want)
	}
	out, _, err = play(t, "-kill", "nowhere")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(out, "\n  before POST /charges\n") {
		t.Errorf("checkout -kill nowhere = %v, want exit status 1 and a list of the steps; it printed\n%s", err, out)
	}
}
