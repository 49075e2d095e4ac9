package idem

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/idem-go/idem/backend"
)

type fingerprintSet struct {
	Name        string     `json:"name"`
	ContentType string     `json:"content_type"`
	Groups      [][]string `json:"groups"`
}

func fingerprintSets(t testing.TB) []fingerprintSet {
	t.Helper()
	raw, err := os.ReadFile("testdata/fingerprint.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Sets []fingerprintSet `json:"sets"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Sets) == 0 {
		t.Fatal("testdata/fingerprint.json has no sets")
	}
	return file.Sets
}

// The cases are a copy of what several implementations share: nobody edits them here.
func TestFingerprintCasesAreTheSharedOnes(t *testing.T) {
	const want = "9eb4b99ec3fd96ee5ca31a526eb6eab6a2687fdef2e24a38dda845f3d535e00d"
	own, err := os.ReadFile("testdata/fingerprint.json")
	if got := fmt.Sprintf("%x", sha256.Sum256(own)); err != nil || got != want {
		t.Errorf("SHA-256 of testdata/fingerprint.json = %s, %v, want the shared cases' %s", got, err, want)
	}
}

func fingerprinter(t testing.TB, opts ...FingerprintOption) *Fingerprinter {
	t.Helper()
	f, err := NewFingerprinter(opts...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// checkGroups fails unless contents have one sum exactly if they are in one group.
func checkGroups(t *testing.T, f *Fingerprinter, groups [][]Content) {
	t.Helper()
	type origin struct {
		group int
		c     Content
	}
	seen := map[[32]byte]origin{}
	for i, g := range groups {
		first := f.Sum(g[0])
		for _, c := range g {
			if got := f.Sum(c); got != first {
				t.Errorf("Sum(%s) = %x, want %x, that of %s", show(c), got.Sum[:4], first.Sum[:4], show(g[0]))
			}
		}
		if o, ok := seen[first.Sum]; ok && o.group != i {
			t.Errorf("Sum(%s) = Sum(%s), want different sums", show(g[0]), show(o.c))
		}
		seen[first.Sum] = origin{i, g[0]}
	}
}

func show(c Content) string {
	return fmt.Sprintf("%q, %q, %.300q", c.Type, c.Query, c.Body)
}

func bodies(contentType string, groups [][]string) [][]Content {
	var all [][]Content
	for _, g := range groups {
		var cs []Content
		for _, b := range g {
			cs = append(cs, Content{Type: contentType, Body: []byte(b)})
		}
		all = append(all, cs)
	}
	return all
}

func TestFingerprintCases(t *testing.T) {
	t.Parallel()
	f := fingerprinter(t)
	for _, s := range fingerprintSets(t) {
		t.Run(s.Name, func(t *testing.T) {
			checkGroups(t, f, bodies(s.ContentType, s.Groups))
		})
	}
}

func TestFingerprintJSON(t *testing.T) {
	t.Parallel()
	nested := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	f := fingerprinter(t)
	for _, tt := range []struct {
		name   string
		groups [][]string
	}{
		{"exponents beyond 64 bits", [][]string{
			{"1e99999999999999999999", "10e99999999999999999998", "0.01E+100000000000000000001", "1e0099999999999999999999"},
			{"1e99999999999999999998"},
			{"1e-99999999999999999999", "10e-100000000000000000000"},
			{"1e999999999999999999", "0.1e1000000000000000000"},
			{"1e-999999999999999999", "10e-1000000000000000000"},
			{"0", "0e99999999999999999999", "-0e-99999999999999999999"},
		}},
		{"signs", [][]string{{"-1", "-1.0", "-10e-1"}, {"1"}, {"-15e-1", "-1.5"}, {"1500", "1.5e3"}}},
		{"not numbers", [][]string{{"01"}, {"1"}, {"1."}, {".1"}, {"0.1"}, {"+1"}, {"-"}, {"1e"}, {"1e+"}, {"0x1"}, {"NaN"}, {"- 1"}}},
		{"deep moves", [][]string{
			{`{"b":{"d":1,"c":{"f":2,"e":[{"h":3,"g":4}]}},"a":{"z":{},"y":[]}}`, `{"a":{"y":[],"z":{}},"b":{"c":{"e":[{"g":4,"h":3}],"f":2},"d":1}}`},
			{`{"b":{"c":1,"d":{"f":2,"e":[{"h":3,"g":4}]}},"a":{"z":{},"y":[]}}`},
		}},
		{"ordered around unordered", [][]string{
			{`{"a":[{"x":1,"y":2},{"y":2,"x":1}],"b":{"k":{"n":1,"m":2}}}`, `{"b":{"k":{"m":2,"n":1}},"a":[{"y":2,"x":1},{"x":1,"y":2}]}`},
		}},
		{"names are ordered unescaped", [][]string{{`{"\n":1,"\u000b":2,"]":3,"\\":4,"[":5}`, `{"[":5,"\\":4,"]":3,"\u000B":2,"\u000a":1}`}}},
		{"duplicate after unescaping", [][]string{{`{"a":1,"\u0061":1}`}, {`{"a":1}`}, {`{"\u0061":1,"a":1}`}}},
		{"duplicate far below", [][]string{{`[{"x":{"b":1,"a":2,"b":1}}]`}, {`[{"x":{"a":2,"b":1,"b":1}}]`}}},
		{"half surrogates", [][]string{{`"\ud83d"`}, {`"\ud83dx"`}, {`"\ud83d\u0041"`}, {`"\ude00\ud83d"`}, {`"\ud83d\ud83d"`}, {`"\uD83D\uDE00"`, `"\ud83d\ude00"`}, {`{"\ud83d":1}`}, {`{"\ud83e":1}`}}},
		{"bad escapes", [][]string{{`"\x"`}, {`"x"`}, {`"\u12g4"`}, {`"\u12`}, {`"\`}, {`"\"`}, {`"\u123"`}}},
		{"all escapes", [][]string{{`"\"\\\/\b\f\n\r\t\u007f"`, "\"\\u0022\\u005c/\\u0008\\u000c\\u000A\\u000d\\u0009\x7f\""}}},
		{"control characters", [][]string{{"\"a\nb\""}, {`"a\nb"`}, {"\"a\x00b\""}, {`"a\u0000b"`}, {"\"a\nb\" "}}},
		{"byte order mark", [][]string{{"\ufeff1"}, {"1"}, {"\ufeff1.0"}}},
		{"invalid UTF-8", [][]string{{"\"\xff\""}, {"\"\xff\" "}, {"\"\xfe\""}, {`"\ufffd"`, "\"\ufffd\""}, {"\"\xed\xa0\x80\""}, {"\"\xc0\x80\""}}},
		{"white space", [][]string{{"\t\r\n [ 1 , 2 ]\n", "[1,2]"}, {"\v[1,2]"}, {"\u00a0[1,2]"}, {"[1,2]\x00"}}},
		{"punctuation", [][]string{{"[1,]"}, {"[1]"}, {"[,1]"}, {`{"a":1,}`}, {`{"a":1}`}, {"["}, {"]"}, {"{"}, {`{"a"`}, {`{"a":`}, {`{"a" 1}`}, {"[1 2]"}, {"[1}"}, {"[1x"}, {`{"a":1]`}, {"tru"}, {"true"}, {"truex"}}},
		{"types", [][]string{{`{"a":[]}`}, {`{"a":{}}`}, {`[{"a":1}]`}, {`{"0":1}`}, {`[1]`}, {`["1"]`}, {`"[1]"`}}},
		{"canonical text inside of a string", [][]string{{`"a\",\"b"`}, {`["a","b"]`}, {`{"a\":1,\"b":2}`}, {`{"a":1,"b":2}`}}},
		{"deepest", [][]string{{nested(1000), " " + nested(1000)}, {nested(1001)}, {" " + nested(1001)}, {nested(999)}}},
		{"case", [][]string{{`{"a":1}`}, {`{"A":1}`}, {`{"a":TRUE}`}, {`{"a":true}`}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			checkGroups(t, f, bodies("application/json", tt.groups))
		})
	}
}

func TestFingerprintForm(t *testing.T) {
	t.Parallel()
	f := fingerprinter(t)
	for _, tt := range []struct {
		name   string
		groups [][]string
	}{
		{"order", [][]string{{"a=1&b=2", "b=2&a=1", "a=1&&b=2&"}, {"a=2&b=1"}, {"a=1&b=2&b=2"}}},
		{"order of one name", [][]string{{"a=1&a=2&b=3", "b=3&a=1&a=2", "a=1&b=3&a=2"}, {"a=2&a=1&b=3"}}},
		{"escapes", [][]string{{"a=%20x", "a=+x", "%61=%20x"}, {"a=%2Bx", "a=%2bx"}, {"a=x"}, {"a= x x"}}},
		{"empty", [][]string{{"a", "a="}, {""}, {"=a"}, {"a=="}, {"="}}},
		{"delimiters in values", [][]string{{"a=1%26b=2"}, {"a=1&b=2"}, {"a%3D1=b"}, {"a=1=b", "a=1%3Db"}}},
		{"malformed", [][]string{{"a=%"}, {"a=%25"}, {"a=%2"}, {"a=%zz"}, {"a=1;b=2"}, {"a=1%3Bb=2"}, {"b=2;a=1"}, {"a=%&b=1"}, {"b=1&a=%"}}},
		{"bytes", [][]string{{"a=%ff"}, {"a=%fe"}, {"a=%EF%BF%BD", "a=\ufffd"}, {"a=\xff\xff"}}},
		{"lengths", [][]string{{"ab=c"}, {"a=bc"}, {"abc="}, {"a=b&c="}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			checkGroups(t, f, bodies("application/x-www-form-urlencoded", tt.groups))
		})
	}
}

func TestFingerprintContentType(t *testing.T) {
	t.Parallel()
	of := func(body string, types ...string) []Content {
		var cs []Content
		for _, ct := range types {
			cs = append(cs, Content{Type: ct, Body: []byte(body)})
		}
		return cs
	}
	both := func(ct string) []Content { // one sum only if read as JSON
		return []Content{{Type: ct, Body: []byte(`{"a":1,"b":2}`)}, {Type: ct, Body: []byte(`{"b":2,"a":1}`)}}
	}
	checkGroups(t, fingerprinter(t), [][]Content{
		of("x", "text/plain;charset=utf-8", "Text/Plain; CharSet=UTF-8", ` text/plain ; charset="utf-8"`, "text/plain;;charset=utf-8;"),
		of("x", "text/plain"),
		of("x", "text/html"),
		of("x", ""),
		of("x", "text/plain;charset=latin1"),
		of("x", "text/plain;a=1;b=2", "text/plain;B=2;A=1"),
		of("x", "text/plain;a=X"),
		of("x", "text/plain;a=x"),
		of("x", `text/plain;a="x;b=y"`),
		of("x", "text/plain;a=x;b=y", `text/plain;a="x";b="y"`),
		of("x", `text/plain;a="x\";b=\"y"`),
		of("x", `text/plain;a="\"x"`),
		of("x", "text/plain;boundary=b"),
		// malformed: as they are
		of("x", "text/plain;a=1;a=1"),
		of("x", "text/plain;a=1;A=1"),
		of("x", "text/plain;a"),
		of("x", `text/plain;a="x`),
		of("x", `text/plain;a="\x"`),
		of("x", "text"),
		of("x", "TEXT"),
		of("x", "/"),
		of("x", "text/plain;a=1 b"),
		of("x", "text/\u212A"), // a Kelvin sign, whose lower case is k
		of("x", "text/k", "text/K"),
		of("x", "text/plain;f*=iso-8859-1''%E9"),
		of("x", "text/plain;f*=iso-8859-1''%E8"),
		both("application/json"),
		both("application/problem+json"),
		both("Application/Vnd.Api+JSON; charset=UTF-8"),
		both("application/json;charset=us-ascii"),
		both("text/json")[:1], both("text/json")[1:],
		both("application/jsonl")[:1], both("application/jsonl")[1:],
		both("application/json;charset=utf-16")[:1], both("application/json;charset=utf-16")[1:],
		both("application/json;charset")[:1], both("application/json;charset")[1:],
		both("+json")[:1], both("+json")[1:],
		both("json")[:1], both("json")[1:],
		both("")[:1], both("")[1:],
	})
}

func TestFingerprintParts(t *testing.T) {
	t.Parallel()
	// Nothing may move from one part of the content to another unseen.
	checkGroups(t, fingerprinter(t), [][]Content{
		{{}, {Body: []byte{}}},
		{{Query: "a"}},
		{{Type: "a"}},
		{{Body: []byte("a")}},
		{{Type: "a/b", Query: "c"}},
		{{Type: "a/b", Body: []byte("c")}},
		{{Query: "a=1&b=2"}},
		{{Query: "b=2&a=1"}},
		{{Type: "application/json", Body: []byte("j1")}},
		{{Type: "application/json", Body: []byte("1")}},
		{{Type: "application/json", Body: []byte("r1")}},
		{{Type: "application/x-www-form-urlencoded", Body: []byte("1")}},
		{{Type: "text/plain", Body: []byte("1")}},
	})
}

// TestFingerprintGolden pins the algorithm: records outlive the process that
// made them. The sums are those of another implementation, written after the doc
// comment of Fingerprinter alone.
func TestFingerprintGolden(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		opts []FingerprintOption
		c    Content
		want string
	}{
		{nil, Content{}, "1:3bf9185cd10acbedd637cb4bf0d8e59b6d183de2809109e4537098d8257efcdc"},
		{nil, Content{Type: "application/json", Query: "q=1", Body: []byte(`{"b":[1.50,{"d":-0,"c":"\u000a\"\u00e9"}],"a":10000000000000000000000e-3}`)}, "1:a7cd9ce975e5d6002cb541e9e190a375afd091bfa39ad545e257c4c07edd35f8"},
		{nil, Content{Type: "application/problem+json; charset=UTF-8", Query: "", Body: []byte(`{"z":null,"y":true}`)}, "1:896d66e38f983200050e07f7bfa8918469472177651d5bc8e005817423d59fa8"},
		{nil, Content{Type: "application/json", Query: "", Body: []byte(`{"a":1,"a":2}`)}, "1:253e5a6860868ed50b58e932f6076e27c7783cdbc49de0e2dc6979b58de42579"},
		{nil, Content{Type: "application/x-www-form-urlencoded", Query: "", Body: []byte("b=2&a=%20x&a=+&c")}, "1:67d396f17c62255568f144e688b0c0104b3d50f8322278578e93b93d44c6ce4f"},
		{nil, multi("x", "Content-Type: Text/plain\r\nContent-Disposition: form-data; name=f; filename=\"n.txt\"\r\n\r\ncontent", part("a", "1")), "1:f3980e1998148ad601c6d77bde2015c5290b2659376d07f0641a8854ce41a4a5"},
		{[]FingerprintOption{Omit("/t"), Label("v2")}, Content{Type: "application/json", Query: "", Body: []byte(`{"t":5,"a":1}`)}, "1.902d5519:6da1f8e1a5eebfd6be76efa6356864f4b25c4f3943bd14d137ac42881958b1b0"},
		{[]FingerprintOption{Select("/x")}, Content{Type: "application/json", Query: "", Body: []byte(`{"a":1}`)}, "1.7746d045:028ce6984b7bf49990c06de751972f4b659cfdbc10e68c48bb82ab862fdd6615"},
		{[]FingerprintOption{Omit("/a/0")}, Content{Type: "application/json", Query: "", Body: []byte(`{"a":[5,1]}`)}, "1.d90af543:bdd299c3ffbe1fea164380b5dc1f2055cbc7b4df5a04292ae30108fecab85acc"},
		{
			[]FingerprintOption{Headers("X-A", "accept-language")},
			Content{Type: "application/json", Query: "q=1", Body: []byte(`{"a":1}`), Header: map[string][]string{"Accept-Language": {"de", "en"}}},
			"1.f7b5acbe:d07933fe4d285c319f3633b26cf733f4d6a642e056b97c7f48eb4d5b68655957",
		},
	} {
		f := fingerprinter(t, tt.opts...)
		got := f.Sum(tt.c)
		if s := f.Version() + ":" + hex.EncodeToString(got.Sum[:]); s != tt.want || got.Version != f.Version() {
			t.Errorf("Sum(%s) = %s, want %s", show(tt.c), s, tt.want)
		}
	}
}

func TestFingerprintConcurrently(t *testing.T) {
	t.Parallel()
	f := fingerprinter(t, Omit("/t"))
	var all []Content
	for _, s := range fingerprintSets(t) {
		for _, g := range bodies(s.ContentType, s.Groups) {
			all = append(all, g...)
		}
	}
	want := make([]backend.Fingerprint, len(all))
	for i, c := range all {
		want[i] = f.Sum(c)
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range all {
				i = (i + g*17) % len(all)
				if got := f.Sum(all[i]); got != want[i] {
					t.Errorf("Sum(%s) beside others = %x, want %x", show(all[i]), got.Sum[:4], want[i].Sum[:4])
				}
			}
		})
	}
	wg.Wait()
}

func TestFingerprintKeepsAndChangesNoBody(t *testing.T) {
	t.Parallel()
	f := fingerprinter(t, Omit("/x"))
	const text = `{"b":"\u0041","a":[1.0,{"z":1,"y":2}],"x":1}`
	body := []byte(text)
	before := f.Sum(Content{Type: "application/json", Body: body})
	if string(body) != text {
		t.Errorf("the body after Sum is %q, want %q", body, text)
	}
	clear(body)
	if got := f.Sum(Content{Type: "application/json", Body: []byte(text)}); got != before {
		t.Errorf("Sum after the first body was overwritten = %x, want %x", got.Sum[:4], before.Sum[:4])
	}
}

func TestFingerprinterErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		opt  []FingerprintOption
	}{
		{"no slash", []FingerprintOption{Omit("a")}},
		{"whole body", []FingerprintOption{Omit("")}},
		{"whole body selected", []FingerprintOption{Select("")}},
		{"bad escape", []FingerprintOption{Omit("/a~2")}},
		{"escape at the end", []FingerprintOption{Select("/a~")}},
		{"invalid UTF-8", []FingerprintOption{Omit("/\xff")}},
		{"nothing selected", []FingerprintOption{Select()}},
		{"both", []FingerprintOption{Select("/a/b"), Omit("/a")}},
		{"both the same", []FingerprintOption{Omit("/a"), Select("/a", "/b")}},
	} {
		if f, err := NewFingerprinter(tt.opt...); !errors.Is(err, backend.ErrInvalid) || f != nil {
			t.Errorf("NewFingerprinter(%s) = %v, %v, want ErrInvalid", tt.name, f, err)
		}
	}
}

func TestFingerprintVersion(t *testing.T) {
	t.Parallel()
	// Hard case 28: the options are part of the version.
	groups := [][]FingerprintOption{
		{},
		{Omit("/a")},
		{Omit("/b")},
		{Omit("/a", "/b")},
		{Omit("/a/b")},
		{Select("/a")},
		{Select("/a"), Omit("/a/b")},
		{Label("a")},
		{Label("/a")},
		{Omit("/a"), Label("a")},
		{Omit("/" + strings.Repeat("x", 500))},
	}
	seen := map[string]int{}
	for i, opts := range groups {
		v := fingerprinter(t, opts...).Version()
		if j, ok := seen[v]; ok {
			t.Errorf("Version() of options %d and %d = %q both, want different ones", j, i, v)
		}
		seen[v] = i
		if len(v) > backend.MaxVersion {
			t.Errorf("Version() = %q, %d bytes, want at most %d", v, len(v), backend.MaxVersion)
		}
	}
	if v := fingerprinter(t, Omit(), Label("")).Version(); v != "1" {
		t.Errorf("Version() without options = %q, want 1", v)
	}
	a := fingerprinter(t, Omit("/a", "/b"), Select("/x")).Version()
	b := fingerprinter(t, Select("/x"), Omit("/b"), Omit("/a", "/b")).Version()
	if a != b {
		t.Errorf("Version() = %q and %q in another order, want one", a, b)
	}
}

func TestFingerprintOmit(t *testing.T) {
	t.Parallel()
	f := fingerprinter(t, Omit("/t", "/meta/sent", "/list/0", "/list/1/t", "/a~1b", "/m~0n", "/"))
	checkGroups(t, f, append(bodies("application/json", [][]string{
		{`{"a":1}`, `{"t":2,"a":1}`, `{"a":1,"t":{"x":[{"z":1,"b":2}]}}`, `{"a":1,"\u0074":9}`, `{"a/b":3,"a":1}`, `{"m~n":3,"a":1}`, `{"":3,"a":1}`, `{"t":{"z":1,"y":2},"a":1}`},
		{`{"list":[{"z":1,"y":2},{"t":{"z":1,"y":2},"x":{"b":1,"a":2}}]}`, `{"list":[0,{"x":{"a":2,"b":1}}]}`},
		{`{"a":1,"T":1}`},
		{`{"a":1,"meta":{"t":1}}`, `{"meta":{"sent":5,"t":1},"a":1}`, `{"a":1,"meta":{"t":1,"sent":{"z":1,"y":2}}}`},
		{`{"a":1,"meta":{}}`, `{"a":1,"meta":{"sent":1}}`},
		{`{"a":1,"meta":5}`},
		{`{"list":[1,2,{"t":1}]}`, `{"list":[7,2,{"t":1}]}`},
		{`{"list":[1,{},3]}`, `{"list":[1,{"t":5},3]}`},
		{`{"list":[1]}`, `{"list":[]}`, `{"list":[{"b":1,"a":2}]}`},
		{`{"list":[[],2]}`, `{"list":[1,2]}`},
		{`{"list":{}}`, `{"list":{"0":1}}`},
		{`{"list":[1,null]}`},
		{`{}`, `{"t":1}`},
		{`[{"t":1}]`},
		{`{"t":1,"t":2}`},
		{`{"t":1,"t":3}`}, // raw: not even what is left out may be ambiguous
		{`{"t":1,}`},
		{`{"t":2,}`},
	}), bodies("application/x-www-form-urlencoded", [][]string{
		{"a=1", "a=1&t=2", "t=3&a=1&t=4", "%74=1&a=1"},
		{"a=1&T=1"},
		{"meta=1"},
		{"", "t=1"},
		{"a=1&t=%"},
		{"a=1&t=%2"},
	})...))
}

func TestFingerprintSelect(t *testing.T) {
	t.Parallel()
	f := fingerprinter(t, Select("/amount", "/to/iban", "/list/1", "/list/3/x"), Omit("/amount/note"))
	checkGroups(t, f, append(bodies("application/json", [][]string{
		{`{"amount":1}`, `{"x":2,"amount":1.0}`, `{"amount":1,"to":{}}`, `{"amount":1,"to":{"name":"x"}}`, `{"to":5,"amount":1}`, `{"amount":1,"list":[0]}`},
		{`{"amount":2}`},
		{`{"amount":null}`},
		{`{"amount":{"z":1,"y":{"x":1}}}`, `{"amount":{"y":{"x":1},"z":1,"note":"n"}}`},
		{`{"amount":1,"to":{"iban":"x"}}`, `{"to":{"z":0,"iban":"x","a":0},"amount":1}`},
		{`{"amount":1,"to":{"iban":"y"}}`},
		{`{"list":[1,2]}`, `{"list":[3,2,5]}`, `{"list":[3,2,5,{"y":1}]}`, `{"list":[3,2,5,6]}`},
		{`{"list":[1,3]}`},
		{`{"list":[0,2,0,{"x":2}]}`, `{"list":[9,2,9,{"x":2,"y":1},7]}`},
		{`{"list":{"1":2}}`},
		// nothing selected: the whole body
		{`{"amout":1}`, `{"amout":1e0}`},
		{`{"amout":2}`},
		{`{}`},
		{`{"to":{}}`},
		{`5`},
		{`[]`},
		{`{"b":1,"a":{"d":1,"c":2}}`, `{"a":{"c":2,"d":1},"b":1}`},
		{`{"amount":1,"x":}`},
		{`{"amount":1,"y":}`},
	}), bodies("application/x-www-form-urlencoded", [][]string{
		{"amount=1", "amount=1&x=2", "to=1&amount=1"},
		{"amount=1&amount=2"},
		{"x=1&y=2", "y=2&x=1"},
		{"x=2"},
		{""},
	})...))
	// A missing element must not let the next one take its place.
	checkGroups(t, fingerprinter(t, Select("/0/x", "/1/x", "/2/x")), bodies("application/json", [][]string{
		{`[{"x":1},{}]`, `[{"x":1}]`}, {`[{},{"x":1}]`, `[0,{"x":1},0]`}, {`[0,0,{"x":1}]`},
	}))
}

// FuzzFingerprint finds no content that makes Sum panic or depend on what was
// summed before.
func FuzzFingerprint(f *testing.F) {
	for _, s := range fingerprintSets(f) {
		for _, g := range s.Groups {
			f.Add(s.ContentType, "", []byte(g[0]))
		}
	}
	f.Add("application/x-www-form-urlencoded", "a=1", []byte("a=%20&a=1&b"))
	f.Add(`text/plain;a="\"";B=x`, "a=1", []byte("x"))
	plain := fingerprinter(f)
	options := fingerprinter(f, Omit("/a", "/b/c", "/0"), Select("/b", "/1/a", "/c"))
	f.Fuzz(func(t *testing.T, contentType, query string, body []byte) {
		c := Content{Type: contentType, Query: query, Body: body}
		a, b := plain.Sum(c), options.Sum(c)
		if again := plain.Sum(c); again != a {
			t.Errorf("Sum(%s) = %x, then %x", show(c), a.Sum, again.Sum)
		}
		if again := options.Sum(c); again != b {
			t.Errorf("Sum(%s) with options = %x, then %x", show(c), b.Sum, again.Sum)
		}
		if m, ok := parseContentType(contentType); ok {
			spelled := string(m.appendTo(nil, false))
			if got := plain.Sum(Content{Type: spelled, Query: query, Body: body}); got != a {
				t.Errorf("Sum(%s) differs from Sum with the type %q", show(c), spelled)
			}
		}
	})
}

func body1K(t testing.TB) []byte {
	t.Helper()
	type item struct {
		SKU   string      `json:"sku"`
		Count int         `json:"count"`
		Price json.Number `json:"price"`
		Note  string      `json:"note"`
	}
	v := struct {
		To    string `json:"to"`
		Items []item `json:"items"`
	}{To: "x"}
	for i := range 15 {
		v.Items = append(v.Items, item{fmt.Sprint("sku-", i), i, "12.50", "line\nbreak é"})
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func BenchmarkFingerprint(b *testing.B) {
	f := fingerprinter(b)
	big := []byte("[" + strings.Repeat(string(body1K(b))+",", 1000) + "1]")
	for _, bb := range []struct {
		name string
		c    Content
	}{
		{"json-1KiB", Content{Type: "application/json", Body: body1K(b)}},
		{"json-1MiB", Content{Type: "application/json", Body: big}},
		{"raw-1KiB", Content{Type: "text/plain", Body: body1K(b)}},
		{"raw-1MiB", Content{Type: "text/plain", Body: big}},
		{"form", Content{Type: "application/x-www-form-urlencoded", Body: []byte("to=x&amount=12.50&currency=EUR&note=a+b")}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(bb.c.Body)))
			for b.Loop() {
				f.Sum(bb.c)
			}
		})
	}
}
