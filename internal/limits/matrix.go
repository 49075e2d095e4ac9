package limits

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Stores are those that have a page, in the order of the matrix.
var Stores = []string{"postgres", "sqlite", "redis", "etcd", "memory"}

// matrix has a row for each claim and a column for each store, from the pages of
// all. A cell is what is claimed and what became of it.
func matrix(dir string) (string, error) {
	var rows []string
	cells := make(map[string][]string)
	for i, store := range Stores {
		page, err := os.ReadFile(filepath.Join(dir, store+".md"))
		if err != nil {
			return "", err
		}
		for _, line := range section(string(page), "Claims") {
			c := strings.Split(strings.Trim(line, "| "), " | ")
			if len(c) != 4 {
				return "", fmt.Errorf("%s.md: %d cells in a row of the claims, want 4: %s", store, len(c), line)
			}
			_, name, _ := strings.Cut(c[0], ": ")
			if len(cells[name]) == 0 {
				rows = append(rows, name)
			}
			if len(cells[name]) != i {
				return "", fmt.Errorf("%s.md: another store has no row %q, or it has two", store, name)
			}
			verdict, _, _ := strings.Cut(c[3], " in ")
			cells[name] = append(cells[name], c[1]+": "+verdict)
		}
		if counts := lineWith(string(page), "Cases: "); counts != "" {
			_, words, _ := strings.Cut(strings.TrimSuffix(counts, "."), ". ")
			cells[casesRow] = append(cells[casesRow], words)
		}
	}
	var b strings.Builder
	header, rule := "| |", "|---|"
	for _, store := range Stores {
		header += fmt.Sprintf(" [`%s`](%s) |", store, link+store+".md")
		rule += "---|"
	}
	fmt.Fprintf(&b, "%s\n%s\n", header, rule)
	for _, name := range append(rows, casesRow) {
		if len(cells[name]) != len(Stores) {
			return "", fmt.Errorf("%d stores have the row %q, want %d", len(cells[name]), name, len(Stores))
		}
		fmt.Fprintf(&b, "| %s | %s |\n", name, strings.Join(cells[name], " | "))
	}
	return b.String(), nil
}

const (
	casesRow = "cases of the suite"
	link     = "LIMITS/" // stands for the way from a file to docs/limits
)

// section gives the rows of the table under a heading, without its head.
func section(page, heading string) []string {
	_, rest, found := strings.Cut(page, "\n## "+heading+"\n\n")
	if !found {
		return nil
	}
	table, _, _ := strings.Cut(rest, "\n\n")
	lines := strings.Split(strings.TrimSpace(table), "\n")
	return lines[min(2, len(lines)):]
}

func lineWith(page, prefix string) string {
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, prefix) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// The matrix stands between these lines of a file.
const (
	opening = "<!-- from docs/limits: make limits -->\n"
	closing = "<!-- end -->\n"
)

// embed gives the text of a file with the matrix in its place. way leads from the
// file to docs/limits.
func embed(text []byte, matrix, way string) ([]byte, error) {
	before, rest, found := bytes.Cut(text, []byte(opening))
	_, after, closed := bytes.Cut(rest, []byte(closing))
	if !found || !closed {
		return nil, fmt.Errorf("it has no place for the matrix: the lines %q and %q", opening, closing)
	}
	matrix = strings.ReplaceAll(matrix, link, way)
	return []byte(string(before) + opening + "\n" + matrix + "\n" + closing + string(after)), nil
}
