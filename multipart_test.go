package idem

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"slices"
	"strings"
	"testing"
)

// part writes a part of a form with text as its only content.
func part(name, text string) string {
	return fmt.Sprintf("Content-Disposition: form-data; name=%q\r\n\r\n%s", name, text)
}

// multi puts parts together as multipart/form-data.
func multi(boundary string, parts ...string) Content {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString("--" + boundary + "\r\n" + p + "\r\n")
	}
	b.WriteString("--" + boundary + "--\r\n")
	return Content{Type: "multipart/form-data; boundary=" + boundary, Body: []byte(b.String())}
}

func TestMultipart(t *testing.T) {
	t.Parallel()
	const file = "Content-Disposition: form-data; name=\"f\"; filename=\"%s\"\r\nContent-Type: %s\r\n\r\n%s"
	checkGroups(t, fingerprinter(t), [][]Content{
		{
			multi("x", part("a", "1"), part("b", "2")),
			multi("other-boundary", part("a", "1"), part("b", "2")),
			multi("y", part("b", "2"), part("a", "1")),
			multi("x", "content-disposition:form-data;NAME=a\r\n\r\n1", part("b", "2")),
			{Type: `Multipart/Form-Data; Boundary="x"`, Body: multi("x", part("a", "1"), part("b", "2")).Body},
			{Type: "multipart/form-data; boundary=x", Body: bytes.TrimSuffix(multi("x", part("a", "1"), part("b", "2")).Body, crlf)},
		},
		{multi("x", part("a", "2"), part("b", "1"))},
		{multi("x", part("a", "1"))},
		{multi("x", part("a", "1"), part("a", "2"), part("b", "3")), multi("x", part("b", "3"), part("a", "1"), part("a", "2"))},
		{multi("x", part("a", "2"), part("a", "1"), part("b", "3"))},
		{multi("x"), multi("y")},
		{multi("x", part("a", ""))},
		{multi("x", part("a", "\r\n"))},
		{multi("x", part("a", "1\r\n--y\r\n"+part("b", "2")))},
		{multi("x", part("A", "1"))},
		{multi("x", fmt.Sprintf(file, "n", "text/plain", "c")), multi("y", fmt.Sprintf(file, "n", "Text/Plain", "c"))},
		{multi("x", fmt.Sprintf(file, "N", "text/plain", "c"))},
		{multi("x", fmt.Sprintf(file, "n", "text/html", "c"))},
		{multi("x", fmt.Sprintf(file, "n", "text/plain", "C"))},
		{multi("x", fmt.Sprintf(file, `q\"`, "text/plain", "c"))},
		{multi("x", "Content-Type: text/plain\r\nContent-Disposition: form-data; filename=\"g\"; name=\"f\"\r\n\r\nc"), multi("x", fmt.Sprintf(file, "g", "text/plain", "c"))},
		{multi("x", "X-Other: 1\r\n"+part("a", "1")), multi("x", "x-other:1 \r\n"+part("a", "1"))},
		{multi("x", "X-Other: 2\r\n"+part("a", "1"))},
		{multi("x", "Content-Disposition: form-data; name=\"f\"; filename*=iso-8859-1''%E9\r\n\r\nc")},
		{multi("x", "Content-Disposition: form-data; name=\"f\"; filename*=iso-8859-1''%E8\r\n\r\nc")},
		{multi("x", part("a", "--")), multi("y", part("a", "--"))},
	})
}

func TestMultipartMalformed(t *testing.T) {
	t.Parallel()
	ok := string(multi("x", part("a", "1"), part("b", "2")).Body)
	f := fingerprinter(t)
	for name, body := range map[string]string{
		"empty":                 "",
		"text before":           "hello\r\n" + ok,
		"text after":            ok + "hello",
		"blank line before":     "\r\n" + ok,
		"no end":                strings.TrimSuffix(ok, "--x--\r\n"),
		"line feeds only":       strings.ReplaceAll(ok, "\r\n", "\n"),
		"space after delimiter": strings.Replace(ok, "--x\r\n", "--x \r\n", 1),
		"longer delimiter":      string(multi("x", part("a", "1\r\n--xy\r\n")).Body),
		"other boundary":        string(multi("y", part("a", "1")).Body),
		"no header":             string(multi("x", "\r\n1").Body),
		"no disposition":        string(multi("x", "Content-Type: text/plain\r\n\r\n1").Body),
		"no name":               string(multi("x", "Content-Disposition: form-data\r\n\r\n1").Body),
		"two names":             string(multi("x", "Content-Disposition: form-data; name=a; name=b\r\n\r\n1").Body),
		"other disposition":     string(multi("x", "Content-Disposition: attachment; name=a\r\n\r\n1").Body),
		"backslash":             string(multi("x", "Content-Disposition: form-data; name=a; filename=\"c:\\d\"\r\n\r\n1").Body),
		"repeated field":        string(multi("x", "X: 1\r\nx: 2\r\n"+part("a", "1")).Body),
		"folded field":          string(multi("x", "X: 1\r\n 2\r\n"+part("a", "1")).Body),
		"bare line feed":        string(multi("x", "X: 1\nY: 2\r\n"+part("a", "1")).Body),
		"blank in a name":       string(multi("x", "X Y: 1\r\n"+part("a", "1")).Body),
		"no colon":              string(multi("x", "X\r\n"+part("a", "1")).Body),
		"large header":          string(multi("x", "X: "+strings.Repeat("x", maxPartHeader)+"\r\n"+part("a", "1")).Body),
		"too many parts":        string(multi("x", slices.Repeat([]string{part("a", "1")}, maxParts+1)...).Body),
	} {
		a := f.Sum(Content{Type: "multipart/form-data; boundary=x", Body: []byte(body)})
		if b := f.Sum(Content{Type: "Multipart/Form-Data;boundary=\"x\"", Body: []byte(body)}); a != b {
			t.Errorf("%s: sums of one body = %x and %x, want one", name, a.Sum[:4], b.Sum[:4])
		}
		var d fields
		if _, ok := d.parseParts([]byte(body), "x", place{only: everything}); ok {
			t.Errorf("parseParts(%s) is ok, want it to be compared byte by byte", name)
		}
	}
	var d fields
	if _, ok := d.parseParts(multi("x", slices.Repeat([]string{part("a", "1")}, maxParts)...).Body, "x", place{only: everything}); !ok {
		t.Errorf("parseParts(%d parts) is not ok, want it to be", maxParts)
	}
	for _, boundary := range []string{"", strings.Repeat("x", maxBoundary+1)} {
		if _, ok := d.parseParts(multi(boundary, part("a", "1")).Body, boundary, place{only: everything}); ok {
			t.Errorf("parseParts(boundary of %d bytes) is ok, want it not to be", len(boundary))
		}
	}
	// Without a canonical form the boundary counts: it decides what the bytes mean.
	c := Content{Type: "multipart/form-data; boundary=x", Body: []byte("?")}
	if d := (Content{Type: "multipart/form-data; boundary=y", Body: c.Body}); f.Sum(c) == f.Sum(d) {
		t.Errorf("Sum(%s) = Sum(%s), want different sums", show(c), show(d))
	}
}

func TestMultipartOptions(t *testing.T) {
	t.Parallel()
	checkGroups(t, fingerprinter(t, Omit("/t")), [][]Content{
		{multi("x", part("a", "1")), multi("y", part("t", "9"), part("a", "1"), part("t", ""))},
		{multi("x", part("a", "2"))},
	})
	checkGroups(t, fingerprinter(t, Select("/a")), [][]Content{
		{multi("x", part("a", "1")), multi("y", part("t", "9"), part("a", "1"))},
		{multi("x", part("a", "2"))},
		{multi("x", part("b", "2")), multi("y", part("b", "2"))},
		{multi("x", part("b", "3"))},
	})
}

// TestMultipartWriter: what the standard library writes has a canonical form.
func TestMultipartWriter(t *testing.T) {
	t.Parallel()
	f := fingerprinter(t)
	write := func() Content {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		_ = w.WriteField(`a "name"`, "1")
		p, _ := w.CreateFormFile("file", `ü\b.txt`)
		_, _ = p.Write([]byte("content"))
		_ = w.Close()
		return Content{Type: w.FormDataContentType(), Body: b.Bytes()}
	}
	checkGroups(t, f, [][]Content{{write(), write(), write()}})
}

// FuzzMultipart makes a form of fuzzed parts and sends it with two boundaries.
func FuzzMultipart(f *testing.F) {
	for _, s := range fingerprintSets(f) {
		for _, g := range s.Groups {
			if len(g[0]) < 10_000 {
				f.Add("a", g[0], "b", "X: "+s.Name+"\r\n\r\n"+g[0], "x", "y")
			}
		}
	}
	f.Add("a", "1", "b", "Content-Disposition: form-data; name=b; filename=\"q\\\"\"\r\nContent-Type: text/plain\r\n\r\n2", "b1", "b'()+_,-./:=?")
	f.Add("a", "\r\n--", "a", "", "x", "xx")
	f.Fuzz(func(t *testing.T, name1, text1, name2, raw2, boundary1, boundary2 string) {
		fp := fingerprinter(t)
		// Any bytes at all, first.
		whole := Content{Type: "multipart/form-data; boundary=" + boundary1, Body: []byte(raw2)}
		if a, b := fp.Sum(whole), fp.Sum(whole); a != b {
			t.Errorf("Sum(%s) = %x, then %x", show(whole), a.Sum, b.Sum)
		}

		if !isToken(boundary1) || !isToken(boundary2) || len(boundary1) > maxBoundary || len(boundary2) > maxBoundary {
			return
		}
		parts := []string{part(name1, text1), raw2}
		if name2 != name1 {
			parts = append(parts, part(name2, text1))
		}
		for _, p := range parts {
			for _, b := range []string{boundary1, boundary2} {
				// RFC 2046: the delimiter must not appear in the parts.
				if strings.Contains("\r\n"+p, "\r\n--"+b) {
					return
				}
			}
		}
		var d fields
		root := place{only: everything}
		c1, c2 := multi(boundary1, parts...), multi(boundary2, parts...)
		_, ok1 := d.parseParts(c1.Body, boundary1, root)
		_, ok2 := d.parseParts(c2.Body, boundary2, root)
		if ok1 != ok2 {
			t.Fatalf("parseParts(%q) ok = %v, with boundary %q %v, want one answer", c1.Body, ok1, boundary2, ok2)
		}
		if !ok1 {
			return
		}
		if fp.Sum(c1) != fp.Sum(c2) {
			t.Errorf("Sum(%s) differs from Sum with boundary %q", show(c1), boundary2)
		}
		changed := append([]string(nil), parts...)
		changed[0] += "x"
		if fp.Sum(multi(boundary1, changed...)) == fp.Sum(c1) {
			t.Errorf("Sum(%s) is the same with an x more in the first part", show(c1))
		}
		dropped := parts[1:]
		if fp.Sum(multi(boundary1, dropped...)) == fp.Sum(c1) {
			t.Errorf("Sum(%s) is the same without the first part", show(c1))
		}
	})
}
