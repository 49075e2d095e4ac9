package limits

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What README.md and docs/choosing.md say of all stores is what the pages say.
func TestMatrix(t *testing.T) {
	t.Parallel()
	m, err := matrix(docs())
	if err != nil {
		t.Fatal(err)
	}
	for file, way := range map[string]string{
		filepath.Join(docs(), "..", "..", "README.md"): "docs/limits/",
		filepath.Join(docs(), "..", "choosing.md"):     "limits/",
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want, err := embed(text, m, way)
		if err == nil {
			err = compare(file, want, os.Getenv("IDEM_UPDATE") != "")
		}
		if err != nil {
			t.Errorf("%s: %v", filepath.Base(file), err)
		}
	}
}

// A store that has a page and no column, or the other way round.
func TestEveryPageHasAColumn(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join(docs(), "*.md"))
	if err != nil || len(pages) != len(Stores) {
		t.Errorf("docs/limits has %d pages, %v, want those of %v", len(pages), err, Stores)
	}
}

func TestMatrixOfPages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	page := func(store, claims string) {
		text := "# Conformance\n\nCases: 3. 2 verified; 1 not run.\n\n## Claims\n\n| Claim | Claimed | Measured | Verdict |\n| --- | --- | --- | --- |\n" + claims + "\n## Cases\n\n| a | b |\n"
		if err := os.WriteFile(filepath.Join(dir, store+".md"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const row = "| `Shared`: several | yes | yes | not refuted in 3 reads |\n"
	for _, store := range Stores {
		page(store, row)
	}
	got, err := matrix(dir)
	if err != nil {
		t.Fatal(err)
	}
	out, err := embed([]byte("x\n"+opening+"old\n"+closing+"y\n"), got, "way/")
	want := "| several | yes: not refuted | yes: not refuted |"
	if err != nil || !strings.Contains(string(out), want) || !strings.Contains(string(out), "[`etcd`](way/etcd.md)") ||
		!strings.Contains(string(out), "| cases of the suite | 2 verified; 1 not run |") || strings.Contains(string(out), "old") {
		t.Errorf("matrix and embed = %v, wrote\n%s\nwant %q", err, out, want)
	}
	if _, err := embed([]byte("x\ny\n"), got, ""); err == nil {
		t.Error("embed(no place for it) = nil, want an error")
	}
	for name, claims := range map[string]string{"a row more": row + "| `Clock`: whose | host | - | not run |\n", "a row twice": row + row, "none": ""} {
		page("etcd", claims)
		if _, err := matrix(dir); err == nil {
			t.Errorf("matrix(%s) = nil, want an error", name)
		}
	}
}
