package idemhttp

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

const responsesIntro = `# Responses

What a handler can do with its answer, what its first caller gets of it, and what a retry with the same key gets. Each row is
a test over sockets, with HTTP/1.1 and HTTP/2, with ` + "`idemhttp.New`" + ` (under a lease) and ` + "`idemhttp.NewTx`" + ` (in a transaction) where
the row doesn't say which. The tests write this page.

- **as the handler made it**: status, header fields and body that the client gets of the same handler without the middleware.
- **the same**: status and body to the byte, the header fields with their values in the same order, and ` + "`Idempotent-Replayed: true`" + `. It is also
  the same for a retry over the other version of HTTP. ` + "`Date`" + ` is always the present one.
- **runs again**: nothing was stored, the key is free, and the retry gets what the handler answers then.
- **limit**: ` + "`idem.WithMaxResponse`" + `, which counts the header too.
`

// page is docs/responses.md.
func page() string {
	var b strings.Builder
	b.WriteString(responsesIntro)
	for _, s := range responses {
		fmt.Fprintf(&b, "\n## %s\n\n| response | first answer | retry | why |\n|---|---|---|---|\n", s.heading)
		for _, c := range s.rows {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", c.cell(), c.firstCell(), c.retryCell(), c.why)
		}
	}
	return b.String()
}

func (c response) cell() string {
	cell := c.name
	if c.path != "" {
		cell += map[string]string{"leased": ", under a lease", "transaction": ", in a transaction"}[c.path]
	}
	if c.wire != "" {
		cell += ", over " + c.wire
	}
	return cell
}

func problemCell(p problem) string {
	return fmt.Sprintf("%d [%s](problems.md#%[2]s)", p.Status, p.Type)
}

// lacks names the fields of lines, each once.
func lacks(lines []string) string {
	var names []string
	for _, l := range lines {
		name, _, _ := strings.Cut(l, ":")
		if name = "`" + name + "`"; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return ", without " + strings.Join(names, ", ")
}

func (c response) firstCell() string {
	switch {
	case c.gone != "":
		return "nobody is there to get it"
	case c.first != nil:
		return problemCell(*c.first)
	case c.aborted:
		return "none: the connection, or the stream of HTTP/2, ends"
	}
	cell := "as the handler made it"
	if c.live {
		cell = "as the handler makes it"
	}
	if len(c.onlyBare) > 0 {
		cell += lacks(c.onlyBare)
	}
	if c.unlike != "" {
		cell += "; " + c.unlike
	}
	return cell
}

func (c response) retryCell() string {
	switch {
	case c.gone != "":
		return "what the handler answered, as a replay"
	case c.retry != nil:
		return problemCell(*c.retry)
	case c.again:
		return "runs again"
	}
	cell := "the same"
	if len(c.onlyFirst) > 0 {
		cell += lacks(c.onlyFirst)
	}
	return cell
}

// The page is what the tests try, and says why where answers differ.
func TestResponsesPage(t *testing.T) {
	t.Parallel()
	for _, c := range allResponses() {
		plain := c.firstCell() == "as the handler made it" && c.retryCell() == "the same"
		if plain != (c.why == "") {
			t.Errorf("%s: %s, retry %s, because %q, want a reason where they differ and none elsewhere", c.name, c.firstCell(), c.retryCell(), c.why)
		}
	}
	const file = "../docs/responses.md"
	got, err := os.ReadFile(file)
	if os.Getenv("IDEM_UPDATE") != "" {
		got, err = []byte(page()), os.WriteFile(file, []byte(page()), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != page() {
		t.Errorf("docs/responses.md is not the table of the tests: look at what differs, and write it with `make limits`:\n%s", page())
	}
}
