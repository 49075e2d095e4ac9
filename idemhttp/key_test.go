package idemhttp

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/dunglas/httpsfv"
)

type keyWant struct {
	Key   string `json:"key"`
	Error string `json:"error"`
}

type keyCase struct {
	Name    string   `json:"name"`
	Lines   []string `json:"lines"`
	Strict  keyWant  `json:"strict"`
	Lenient keyWant  `json:"lenient"`
}

func keyCases(t testing.TB) []keyCase {
	t.Helper()
	raw, err := os.ReadFile("testdata/header.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []keyCase `json:"cases"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) == 0 {
		t.Fatal("testdata/header.json has no cases")
	}
	return file.Cases
}

var (
	strictKeys  = KeySyntax{Strict: true}
	lenientKeys = KeySyntax{}
)

func checkKey(t *testing.T, s KeySyntax, lines []string, want keyWant) {
	t.Helper()
	var wantErr error
	switch want.Error {
	case "":
	case "missing":
		wantErr = ErrKeyMissing
	case "malformed":
		wantErr = ErrKeyMalformed
	default:
		t.Fatalf("unknown error %q in the case", want.Error)
	}
	got, err := s.Parse(lines)
	if got != want.Key || !errors.Is(err, wantErr) {
		t.Errorf("Parse(%q), strict %v = %q, %v, want %q, %v", lines, s.Strict, got, err, want.Key, wantErr)
	}
	if wantErr != nil && errors.Is(err, ErrKeyMissing) == errors.Is(err, ErrKeyMalformed) {
		t.Errorf("Parse(%q), strict %v: the error %v is both or neither of missing and malformed", lines, s.Strict, err)
	}
}

func TestParseKeyCases(t *testing.T) {
	t.Parallel()
	for _, c := range keyCases(t) {
		t.Run(c.Name, func(t *testing.T) {
			checkKey(t, strictKeys, c.Lines, c.Strict)
			checkKey(t, lenientKeys, c.Lines, c.Lenient)
		})
	}
}

// The cases are a copy of what several implementations share: nobody edits them here.
func TestKeyCasesAreTheSharedOnes(t *testing.T) {
	t.Parallel()
	const want = "0712b53a556a6b557582109bb7c9309f2fba6f3095a89768a50a03ac3195d9a9"
	own, err := os.ReadFile("testdata/header.json")
	if got := fmt.Sprintf("%x", sha256.Sum256(own)); err != nil || got != want {
		t.Errorf("SHA-256 of testdata/header.json = %s, %v, want the shared cases' %s", got, err, want)
	}
}

func TestParseKey(t *testing.T) {
	t.Parallel()
	malformed := keyWant{Error: "malformed"}
	for _, tt := range []struct {
		line            string
		strict, lenient keyWant
	}{
		// legal parameters of every type, and blanks where RFC 9651 allows for them
		{`"aaaaaaaa"; a;  b=1;c="x;y\"";d=tok/en;e=:YQ==:;f=?0;g=1.5;h=@1;*i=%"%c3%bc"`, keyWant{Key: "aaaaaaaa"}, keyWant{Key: "aaaaaaaa"}},
		{`"aaaaaaaa";a=1;a=2`, keyWant{Key: "aaaaaaaa"}, keyWant{Key: "aaaaaaaa"}},
		{`"aaaa;v=1"`, keyWant{Key: "aaaa;v=1"}, keyWant{Key: "aaaa;v=1"}},
		{`"aaaa'aaa"`, keyWant{Key: "aaaa'aaa"}, keyWant{Key: "aaaa'aaa"}},
		{`"aaaaaaaa" ;v=1`, malformed, malformed},
		{`"aaaaaaaa";`, malformed, malformed},
		{`"aaaaaaaa";1=1`, malformed, malformed},
		{`"aaaaaaaa";v= 1`, malformed, malformed},
		{`"aaaaaaaa";v=`, malformed, malformed},
		{`"aaaaaaaa";v="`, malformed, malformed},
		{`"aaaaaaaa";v=("x")`, malformed, malformed},
		{`"aaaaaaaa", "bbbbbbbb"`, malformed, malformed},
		{`"aaaaaaaa""bbbbbbbb"`, malformed, malformed},
		{`"aaaaaaaa`, malformed, malformed},
		{`"aaaaaaaa\"`, malformed, malformed},
		{`"aaaaaaa\`, malformed, malformed},
		{`"aaaaaa\na"`, malformed, malformed},
		{"\"aaaaaaaa\x7f\"", malformed, malformed},
		{"\"aaaaaaaa\x00\"", malformed, malformed},
		{"\"aaaaaaaa\"\t", malformed, malformed},
		{"\t\"aaaaaaaa\"", malformed, malformed},
		{"\"aaaaaaaa\"\r\n", malformed, malformed},
		{`""`, malformed, malformed},
		{`"`, malformed, malformed},
		{`"\"\"\"\"\"\"\""`, malformed, malformed}, // 7 bytes after unescaping
		// other types of RFC 9651 are no strings; bare they may be keys
		{`tokentoken`, malformed, keyWant{Key: "tokentoken"}},
		{`:YWFhYWFhYWE=:`, malformed, keyWant{Key: ":YWFhYWFhYWE=:"}},
		{`@1659578233`, malformed, keyWant{Key: "@1659578233"}},
		{`%"aaaaaaaa"`, malformed, malformed},
		{`("aaaaaaaa")`, malformed, malformed},
		{` aaaaaaaa `, malformed, keyWant{Key: "aaaaaaaa"}},
		{`aaaa aaaa`, malformed, malformed},
		{`aaaa'aaaa`, malformed, malformed},
		{`aaaa"aaaa`, malformed, malformed},
		{"aaaa\taaaa", malformed, malformed},
		{"aaaa\x7faaaa", malformed, malformed},
		{"aaaa\u00a0aaaa", malformed, malformed},
		{"aaaaaaa", malformed, malformed},
		{strings.Repeat("a", 255), malformed, keyWant{Key: strings.Repeat("a", 255)}},
		{strings.Repeat("a", 256), malformed, malformed},
		{"\u201caaaaaaaa\u201d", malformed, malformed},
	} {
		checkKey(t, strictKeys, []string{tt.line}, tt.strict)
		checkKey(t, lenientKeys, []string{tt.line}, tt.lenient)
	}
}

func TestParseKeyBounds(t *testing.T) {
	t.Parallel()
	s := KeySyntax{MinLen: 2, MaxLen: 3}
	for line, want := range map[string]keyWant{
		"a": {Error: "malformed"}, "aa": {Key: "aa"}, "aaa": {Key: "aaa"}, "aaaa": {Error: "malformed"},
		`"a"`: {Error: "malformed"}, `"aa"`: {Key: "aa"}, `"\"\"\""`: {Key: `"""`}, `"aaaa"`: {Error: "malformed"},
	} {
		checkKey(t, s, []string{line}, want)
	}
}

func TestParseKeyErrorRepeatsNoKey(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"secret secret", `"secret-secret`, `"secret-secret";V`, "secret", `"` + strings.Repeat("secret", 50) + `"`} {
		if _, err := lenientKeys.Parse([]string{line}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("Parse(%q) = %v, want an error without the key", line, err)
		}
	}
}

func TestParseKeyAllocations(t *testing.T) {
	for _, line := range []string{"8e03978e-40d5-43e8-bc93-6894a57f9324", `"8e03978e-40d5-43e8-bc93-6894a57f9324"`} {
		lines := []string{line}
		if got := testing.AllocsPerRun(100, func() { _, _ = lenientKeys.Parse(lines) }); got > 0 {
			t.Errorf("Parse(%q) allocates %v times, want 0", line, got)
		}
	}
}

func ExampleKeySyntax_Parse() {
	var syntax KeySyntax
	for _, line := range []string{`"8e03978e-40d5"`, `8e03978e-40d5`, `8e03978e-40d5, 77ba`} {
		key, err := syntax.Parse([]string{line})
		fmt.Println(key, errors.Is(err, ErrKeyMalformed))
	}
	// Output:
	// 8e03978e-40d5 false
	// 8e03978e-40d5 false
	//  true
}

func FuzzParseKey(f *testing.F) {
	for _, c := range keyCases(f) {
		f.Add(strings.Join(c.Lines, "\n"), len(c.Lines))
	}
	f.Add(`"aaaaaaaa"; a;b=1.5;c="x";d=:YQ==:;e=@1;f=%"%c3%bc"`, 1)
	f.Fuzz(func(t *testing.T, text string, n int) {
		lines := strings.SplitN(text, "\n", max(n&3, 1))
		lenient, lenientErr := lenientKeys.Parse(lines)
		strict, strictErr := strictKeys.Parse(lines)
		if strictErr == nil && (lenientErr != nil || lenient != strict) {
			t.Errorf("Parse(%q) = %q, %v, want %q as in strict mode", lines, lenient, lenientErr, strict)
		}
		if lenientErr != nil {
			if lenient != "" || !errors.Is(lenientErr, ErrKeyMalformed) || !errors.Is(strictErr, ErrKeyMalformed) {
				t.Errorf("Parse(%q) = %q, %v and strict %v, want ErrKeyMalformed", lines, lenient, lenientErr, strictErr)
			}
			return
		}
		if len(lenient) < 8 || len(lenient) > 255 || strings.TrimSpace(lenient) == "" ||
			strings.ContainsFunc(lenient, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("Parse(%q) = %q, want 8 to 255 printable characters", lines, lenient)
		}
		quoted, err := httpsfv.Marshal(httpsfv.NewItem(lenient))
		if err != nil {
			t.Fatal(err)
		}
		if again, err := strictKeys.Parse([]string{quoted}); again != lenient || err != nil {
			t.Errorf("Parse(%s) = %q, %v, want %q as for %q", quoted, again, err, lenient, lines)
		}
		if item, err := httpsfv.UnmarshalItem(lines); (err == nil && item.Value == lenient) != (strictErr == nil) {
			t.Errorf("Parse(%q), strict = %q, %v, want what httpsfv says: %v, %v", lines, strict, strictErr, item.Value, err)
		}
	})
}
