package repo

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// named finds "field report 7" and "field reports 6, 7, 9 and 10" in a comment or in
// the rule of a case.
var (
	named  = regexp.MustCompile(`(?i)field reports? (\d+(?:(?:,| and|, and) \d+)*)`)
	number = regexp.MustCompile(`\d+`)
)

// What went wrong elsewhere, as docs/design.md counts it: each report that concerns
// stores and the core is tried by a test or a case of the suite, which says so. What it
// tries nobody but a reader can check.
func TestEveryFieldReportIsTried(t *testing.T) {
	t.Parallel()
	const reports = 30
	tried := make(map[int][]string)
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, path)
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") && !strings.HasPrefix(rel, "conformance"+string(filepath.Separator)) {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.HasPrefix(rel, "internal") {
			return err // it tries nothing, like this file
		}
		if err != nil {
			return err
		}
		for _, m := range named.FindAllStringSubmatch(strings.ReplaceAll(string(text), "\n// ", " "), -1) {
			for _, n := range number.FindAllString(m[1], -1) {
				i, _ := strconv.Atoi(n)
				tried[i] = append(tried[i], rel)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= reports; i++ {
		if len(tried[i]) == 0 {
			t.Errorf("no test or case names field report %d", i)
		}
	}
}
