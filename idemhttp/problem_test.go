package idemhttp

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
)

// problems are all of them; TestProblemsAreDocumented compares them with the source.
var problems = []problem{
	keyMissing, keyMalformed, invalidRequest, bodyIncomplete, methodNotAllowed, inProgress, needsResolution, answerNotKept,
	bodyTooLarge, keyReused, internal, answerTooLarge, unavailable, unknownOutcome, requestFailed, notResumable, leaseLost,
}

// typesInSource are the types of the problems that the package makes.
func typesInSource(t *testing.T) (types []string) {
	t.Helper()
	pkgs, err := parser.ParseDir(token.NewFileSet(), ".", func(f fs.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }, 0) //nolint:staticcheck // build tags make no difference here
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(pkgs["idemhttp"], func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		if name, ok := lit.Type.(*ast.Ident); !ok || name.Name != "problem" {
			return true
		}
		for _, e := range lit.Elts {
			field := e.(*ast.KeyValueExpr)
			if field.Key.(*ast.Ident).Name != "Type" {
				continue
			}
			s, err := strconv.Unquote(field.Value.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			types = append(types, s)
		}
		return true
	})
	slices.Sort(types)
	return types
}

// Every type of problem in the code has a section and a row in docs/problems.md that
// says the same of it, and the other way round.
func TestProblemsAreDocumented(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../docs/problems.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(raw)
	var listed []string
	for _, p := range problems {
		listed = append(listed, p.Type)
	}
	slices.Sort(listed)
	if inSource := typesInSource(t); !slices.Equal(listed, inSource) {
		t.Fatalf("the test knows the types %q, the source %q", listed, inSource)
	}
	var headings []string
	for _, m := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(doc, -1) {
		headings = append(headings, m[1])
	}
	slices.Sort(headings)
	if !slices.Equal(headings, listed) {
		t.Errorf("sections are %q, want one for each of %q", headings, listed)
	}

	rows := make(map[string][2]string)
	for _, m := range regexp.MustCompile(`(?m)^\| \[(\S+)\]\(#(\S+)\) \| (\d+) \| (yes|no) \|`).FindAllStringSubmatch(doc, -1) {
		if m[1] != m[2] {
			t.Errorf("the row of %s leads to %s", m[1], m[2])
		}
		rows[m[1]] = [2]string{m[3], m[4]}
	}
	for _, p := range problems {
		want := [2]string{strconv.Itoa(p.Status), map[bool]string{true: "yes", false: "no"}[p.Retryable]}
		if rows[p.Type] != want {
			t.Errorf("the row of %s says %q, want %q", p.Type, rows[p.Type], want)
		}
	}
	if len(rows) != len(problems) {
		t.Errorf("the table has rows for %q, want one for each of %q", slices.Sorted(maps.Keys(rows)), listed)
	}

	// The example is what a client gets.
	_, example, _ := strings.Cut(doc, "\n    {\n")
	example, _, _ = strings.Cut(example, "\n    }\n")
	var got problem
	decode(t, "{"+example+"}", &got)
	want := inProgress
	want.Type = problemTypes + want.Type
	if got != want {
		t.Errorf("the example is %+v, want %+v", got, want)
	}
}

// What a request gets that is refused before the store is asked. Nothing of what it
// said is repeated, and the handler does not run.
func TestRefusedBeforeTheClaim(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("secret", 50)
	for name, c := range map[string]struct {
		options []Option
		scope   ScopeFunc
		request request
		want    problem
	}{
		"no key":          {request: request{}, want: keyMissing},
		"empty key":       {request: withKey(""), want: keyMalformed},
		"blank key":       {request: withKey(`"          "`), want: keyMalformed},
		"short key":       {request: withKey("secret"), want: keyMalformed},
		"long key":        {request: withKey(long), want: keyMalformed},
		"two lines":       {request: request{keys: []string{"secret-key-1", "secret-key-2"}}, want: keyMalformed},
		"equal lines":     {request: request{keys: []string{"secret-key-1", "secret-key-1"}}, want: keyMalformed},
		"a list":          {request: withKey(`"secret-key-1", "secret-key-2"`), want: keyMalformed},
		"bare and strict": {options: []Option{WithKeySyntax(KeySyntax{Strict: true})}, request: withKey("secret-key-1"), want: keyMalformed},
		"optional, but malformed": {
			options: []Option{Optional()}, request: withKey("secret"), want: keyMalformed,
		},
		"another header": {options: []Option{WithHeader("x-key")}, request: withKey(key1), want: keyMissing},
		"a long path":    {request: request{keys: []string{key1}, path: "/" + strings.Repeat("secret", 2000)}, want: invalidRequest},
		"nobody": {
			scope:   func(*http.Request) (idem.Scope, error) { return idem.Scope{Tenant: "shop"}, nil },
			request: withKey(key1), want: internal,
		},
		"no scope": {
			scope:   func(*http.Request) (idem.Scope, error) { return idem.Scope{}, errDown },
			request: withKey(key1), want: internal,
		},
		"a long operation": {
			options: []Option{WithOperation(func(*http.Request) string { return long })},
			request: withKey(key1), want: internal,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBothPaths(t, func(t *testing.T, path func(testing.TB, setup, http.Handler) *site) {
				h, ran := runs(created)
				s := path(t, setup{options: c.options, scope: c.scope}, h)
				q := c.request
				q.body = "secret"
				r := send(t, s, q)
				checkProblem(t, "request", r, c.want)
				if all := strings.Join(r.head, "\n") + r.body; strings.Contains(all, "secret") {
					t.Errorf("request = %q, which repeats what it said", all)
				}
				if n := ran.Load(); n != 0 {
					t.Errorf("the handler ran %d times, want 0", n)
				}
				if got, want := len(s.failures()), c.want.Status/500; got != want {
					t.Errorf("%d errors were reported, want %d", got, want)
				}
			})
		})
	}
}

// hard case 29: what waits for a person is not retryable, and not what is merely
// unknown.
func TestNeedsResolution(t *testing.T) {
	t.Parallel()
	b := newShaky()
	h, ran := runs(created)
	s := leased(t, setup{backend: stuck{b}}, h)
	checkProblem(t, "request", send(t, s, withKey(key1)), needsResolution)
	if n := ran.Load(); n != 0 {
		t.Errorf("the handler ran %d times, want 0", n)
	}
}

// stuck is a store whose records were all abandoned.
type stuck struct{ backend.Backend }

func (stuck) Claim(_ context.Context, c backend.Claim) (backend.Claimed, error) {
	return backend.Claimed{Record: backend.Record{
		Key: c.Key, Target: c.Target, Fingerprint: c.Fingerprints[0], Attempt: 1,
		Status: backend.Completed, Response: backend.Response{Tombstone: backend.Abandoned},
	}}, nil
}
