package repo

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/idem-go/idem"

// root is the top of the repository, seen from here.
var root = filepath.Join("..", "..")

// pkg is what go list tells of a package.
type pkg struct {
	ImportPath string
	Name       string
	Dir        string
	Standard   bool
	GoFiles    []string
	Imports    []string
	Deps       []string
}

// list runs go list at the top of the repository. Tests' imports are not in what
// it returns.
func list(t *testing.T, args ...string) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-json=ImportPath,Name,Dir,Standard,GoFiles,Imports,Deps"}, args...)...)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list %q = %v: %s", args, err, exit.Stderr)
		}
		t.Fatalf("go list %q = %v", args, err)
	}
	var pkgs []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return pkgs
		}
		if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

// within tells whether a package is dir of this module or below it.
func within(importPath, dir string) bool {
	top := path.Join(module, dir)
	return importPath == top || strings.HasPrefix(importPath, top+"/")
}

// The core and the contract can be used, read and trusted without anybody else's
// code.
func TestCoreImportsTheStandardLibraryOnly(t *testing.T) {
	t.Parallel()
	for _, p := range list(t, "-deps", ".", "./backend/...") {
		if !p.Standard && p.ImportPath != module && !within(p.ImportPath, "backend") && !within(p.ImportPath, "internal") {
			t.Errorf("idem or backend needs %s, want the standard library only", p.ImportPath)
		}
	}
}

var adapters = []string{"memory", "postgres", "sqlite", "redis", "etcd"}

// A store is chosen by importing its adapter, which must not bring another
// store's driver.
func TestAdaptersDoNotImportEachOther(t *testing.T) {
	t.Parallel()
	for _, p := range list(t, "./...") {
		for _, own := range adapters {
			if !within(p.ImportPath, own) {
				continue
			}
			for _, other := range adapters {
				if i := slices.IndexFunc(p.Deps, func(dep string) bool { return within(dep, other) }); other != own && i >= 0 {
					t.Errorf("%s needs %s, want no other adapter", p.ImportPath, p.Deps[i])
				}
			}
		}
	}
}

func TestOnlyTestsImportWhatIsForTests(t *testing.T) {
	t.Parallel()
	for _, p := range list(t, "./...") {
		for _, dir := range []string{"cmd", "examples", "internal/testenv", "internal/limits"} {
			if within(p.ImportPath, dir) {
				continue // a program may have packages of its own
			}
			for _, dep := range p.Imports {
				if within(dep, dir) {
					t.Errorf("%s imports %s, want that from tests only", p.ImportPath, dep)
				}
			}
		}
	}
}

// What `go build` compiles for a program that imports these two.
func TestEmbeddedProgramsCompileNoOtherStore(t *testing.T) {
	t.Parallel()
	for _, p := range list(t, "-deps", ".", "./sqlite") {
		for _, banned := range []string{
			"github.com/jackc/", "github.com/redis/", "go.etcd.io/", "github.com/testcontainers/",
			"github.com/moby/", "github.com/docker/", "google.golang.org/grpc",
		} {
			if strings.HasPrefix(p.ImportPath, banned) {
				t.Errorf("idem with sqlite compiles %s", p.ImportPath)
			}
		}
	}
}
