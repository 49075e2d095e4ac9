package idem_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The README's code is compiled: each block stands in the file named above it.
func TestReadmeCodeIsCompiled(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)(?:<!-- (\\S+) -->\n)?```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(blocks) < 3 {
		t.Fatalf("README.md has %d blocks of Go, want one for each path and one for HTTP", len(blocks))
	}
	for _, b := range blocks {
		source, err := os.ReadFile(b[1])
		if err != nil {
			t.Errorf("a block of Go without a file that compiles it: %v\n%s", err, b[2])
			continue
		}
		if !strings.Contains(flat(string(source)), flat(b[2])) {
			t.Errorf("%s does not contain this block of README.md:\n%s", b[1], b[2])
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
