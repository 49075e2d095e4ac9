package sqlite_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/sqlite"
)

// No test can mount a network file system. This one takes the local one for it, so
// that only the numbers of statfs(2) are taken on trust. It doesn't run beside others.
func TestNetworkFileSystem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	b := newBackend(t, openFile(t, path))
	found := func() (all []backend.Finding) {
		d, err := b.Describe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return d.Findings
	}
	if got := found(); len(got) > 0 {
		t.Fatalf("Describe(local disk): findings = %+v, want none", got)
	}
	restore, err := sqlite.TakeForNetwork(path, "NFS")
	if err != nil {
		t.Fatal(err)
	}
	defer restore()
	got := found()
	if len(got) != 1 || got[0].ID != "sqlite/network_file_system" || got[0].Severity != backend.Unsafe || !strings.Contains(got[0].Text, "NFS") || got[0].Advice == "" {
		t.Errorf("Describe(NFS): findings = %+v, want sqlite/network_file_system, unsafe, with advice", got)
	}
}
