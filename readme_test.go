package idem_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The code in the documentation is compiled: each block stands in the file named
// above it.
func TestDocumentedCodeIsCompiled(t *testing.T) {
	docs, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	least := map[string]int{"README.md": 3, "docs/adapters.md": 3} // one for each path and one for HTTP; enough of an adapter
	for _, name := range append(docs, "README.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		blocks := regexp.MustCompile("(?s)(?:<!-- (\\S+) -->\n)?```go\n(.*?)```").FindAllStringSubmatch(string(text), -1)
		if len(blocks) < least[name] {
			t.Errorf("%s has %d blocks of Go, want %d at least", name, len(blocks), least[name])
		}
		for _, b := range blocks {
			source, err := os.ReadFile(b[1])
			if err != nil {
				t.Errorf("%s: a block of Go without a file that compiles it: %v\n%s", name, err, b[2])
				continue
			}
			if !strings.Contains(flat(string(source)), flat(b[2])) {
				t.Errorf("%s does not contain this block of %s:\n%s", b[1], name, b[2])
			}
		}
	}
}

// flat takes the indentation away.
func flat(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimSpace(l)
	}
	return strings.Join(lines, "\n")
}
