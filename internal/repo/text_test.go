package repo

import (
	"bytes"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Two comments on one package end up as one text that nobody wrote.
func TestOnePackageCommentPerPackage(t *testing.T) {
	t.Parallel()
	for _, p := range list(t, "./...") {
		if len(p.GoFiles) == 0 {
			continue // tests only
		}
		var documented []string
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if file.Doc == nil {
				continue
			}
			documented = append(documented, name)
			if want := "Package " + p.Name + " "; p.Name != "main" && !strings.HasPrefix(file.Doc.Text(), want) {
				t.Errorf("%s/%s: the package comment begins %.30q, want %q", p.ImportPath, name, file.Doc.Text(), want)
			}
		}
		if len(documented) != 1 {
			t.Errorf("%s has package comments in %q, want one file", p.ImportPath, documented)
		}
	}
}

// The directories are in parts, so that this file doesn't match.
var machinePath = regexp.MustCompile(`(?:^|[\s"'` + "`" + `(=:,])/(?:ro` + `ot|wo` + `rk|fa` + `rm|Us` + `ers|ho` + `me/[a-z]+)/`)

// Nothing written here depends on one person's machine.
func TestNoMachinePaths(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "-z")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("not a git checkout, nothing to compare with: %v", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // removed and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		if bytes.IndexByte(text, 0) >= 0 {
			continue // not text
		}
		for i, line := range strings.Split(string(text), "\n") {
			if found := machinePath.FindString(line); found != "" {
				t.Errorf("%s:%d: %q is a path of one machine", name, i+1, strings.TrimSpace(found))
			}
		}
	}
}
