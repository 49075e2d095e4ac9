package idemhttp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"
)

// answerOf is an answer as it comes from a socket: a status, lines of header and a body.
func answerOf(t testing.TB, status int, body string, header ...string) *http.Response {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d It\r\nContent-Length: %d\r\n", status, len(body))
	for _, h := range header {
		b.WriteString(h + "\r\n")
	}
	b.WriteString("\r\n" + body)
	resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(b.String())), nil)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

const (
	problemJSON = "Content-Type: application/problem+json"
	date        = "Date: Tue, 01 Dec 2026 10:00:00 GMT"

	ages = 9223372036 * time.Second // the most whole seconds
)

func TestJudge(t *testing.T) {
	t.Parallel()
	const ours = `{"type":"https://github.com/idem-go/idem/blob/main/docs/problems.md#`
	no, yes := Verdict{}, Verdict{Retry: true}
	after := func(d time.Duration) Verdict { return Verdict{Retry: true, After: d} }
	for _, c := range []struct {
		name   string
		status int
		header []string
		body   string
		want   Verdict
	}{
		{name: "200", status: 200, want: no},
		{name: "204", status: 204, want: no},
		{name: "303", status: 303, want: no},
		{name: "200 that says retryable", status: 200, header: []string{problemJSON}, body: `{"retryable":true}`, want: no},
		{name: "400", status: 400, want: no},
		{name: "401", status: 401, want: no},
		{name: "404 with Retry-After", status: 404, header: []string{"Retry-After: 1"}, want: no},
		{name: "408", status: 408, want: yes},
		{name: "409", status: 409, want: no},
		{name: "409 with Retry-After", status: 409, header: []string{"Retry-After: 2"}, want: after(2 * time.Second)},
		{
			name: "409 in progress", status: 409, header: []string{problemJSON, "Retry-After: 1"}, body: ours + `in-progress","retryable":true}`,
			want: Verdict{Retry: true, After: time.Second, Problem: "in-progress"},
		},
		{name: "409 in progress without Retry-After", status: 409, header: []string{problemJSON}, body: `{"retryable":true}`, want: yes},
		{
			name: "409 for a person", status: 409, header: []string{problemJSON, "Retry-After: 1"}, body: ours + `needs-resolution","retryable":false}`,
			want: Verdict{Problem: "needs-resolution"},
		},
		{name: "410", status: 410, want: no},
		{name: "422", status: 422, want: no},
		{name: "425", status: 425, want: yes},
		{name: "429", status: 429, header: []string{"Retry-After: 7"}, want: after(7 * time.Second)},
		{name: "500", status: 500, want: yes},
		{name: "501", status: 501, want: no},
		{name: "501 that says retryable", status: 501, header: []string{problemJSON}, body: `{"retryable":true}`, want: yes},
		{name: "502", status: 502, want: yes},
		{name: "503", status: 503, want: yes},
		{name: "504", status: 504, want: yes},
		{name: "505", status: 505, want: no},
		{name: "599", status: 599, want: yes},

		{name: "500 not retryable", status: 500, header: []string{problemJSON}, body: `{"retryable":false}`, want: no},
		{name: "400 retryable", status: 400, header: []string{problemJSON}, body: `{"type":"about:blank","retryable":true}`, want: Verdict{Retry: true, Problem: "about:blank"}},
		{name: "with a charset", status: 500, header: []string{"Content-Type: Application/Problem+JSON; charset=utf-8"}, body: `{"retryable":false}`, want: no},
		{name: "no problem's type", status: 500, header: []string{"Content-Type: application/json"}, body: `{"retryable":false}`, want: yes},
		{name: "retryable null", status: 500, header: []string{problemJSON}, body: `{"retryable":null}`, want: yes},
		{name: "retryable as text", status: 500, header: []string{problemJSON}, body: `{"retryable":"false"}`, want: yes},
		{name: "Retryable", status: 500, header: []string{problemJSON}, body: `{"Retryable":false}`, want: yes},
		{name: "no JSON", status: 500, header: []string{problemJSON}, body: `{"retryable":false`, want: yes},
		{name: "a type that is none", status: 500, header: []string{problemJSON}, body: `{"type":7,"retryable":false}`, want: no},
		{name: "a problem as long as one may be", status: 500, header: []string{problemJSON}, body: `{"retryable":false}` + strings.Repeat(" ", maxProblem-19), want: no},
		{name: "a longer one", status: 500, header: []string{problemJSON}, body: `{"retryable":false}` + strings.Repeat(" ", maxProblem-18), want: yes},

		{name: "500 replayed", status: 500, header: []string{"Idempotent-Replayed: true", "Retry-After: 1"}, want: no},
		{name: "503 replayed that says retryable", status: 503, header: []string{"Idempotent-Replayed: true", problemJSON}, body: `{"retryable":true}`, want: no},

		{name: "0 seconds", status: 503, header: []string{"Retry-After: 0"}, want: yes},
		{name: "negative", status: 503, header: []string{"Retry-After: -5"}, want: yes},
		{name: "a sign", status: 503, header: []string{"Retry-After: +5"}, want: yes},
		{name: "a fraction", status: 503, header: []string{"Retry-After: 1.5"}, want: yes},
		{name: "nonsense", status: 503, header: []string{"Retry-After: soon"}, want: yes},
		{name: "409 with nonsense", status: 409, header: []string{"Retry-After: soon"}, want: no},
		{name: "blanks", status: 503, header: []string{"Retry-After:  \t 3 "}, want: after(3 * time.Second)},
		{name: "a year", status: 503, header: []string{"Retry-After: 31536000"}, want: after(365 * 24 * time.Hour)},
		{name: "more than a duration holds", status: 503, header: []string{"Retry-After: 9223372037"}, want: after(ages)},
		{name: "more than an integer holds", status: 503, header: []string{"Retry-After: 99999999999999999999999"}, want: after(ages)},

		{name: "IMF-fixdate", status: 503, header: []string{date, "Retry-After: Tue, 01 Dec 2026 10:00:09 GMT"}, want: after(9 * time.Second)},
		{name: "RFC 850", status: 503, header: []string{date, "Retry-After: Tuesday, 01-Dec-26 10:00:09 GMT"}, want: after(9 * time.Second)},
		{name: "asctime", status: 503, header: []string{date, "Retry-After: Tue Dec  1 10:00:09 2026"}, want: after(9 * time.Second)},
		{name: "Date in another form", status: 503, header: []string{"Date: Tue Dec  1 10:00:00 2026", "Retry-After: Tue, 01 Dec 2026 10:00:09 GMT"}, want: after(9 * time.Second)},
		{name: "a date before Date", status: 503, header: []string{date, "Retry-After: Tue, 01 Dec 2026 09:00:00 GMT"}, want: yes},
		{name: "a date of another century", status: 503, header: []string{date, "Retry-After: Tue, 01 Dec 9999 09:00:00 GMT"}, want: after(math.MaxInt64)},
		{name: "no date", status: 503, header: []string{date, "Retry-After: Tue, 99 Dec 2026 10:00:09 GMT"}, want: yes},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			resp := answerOf(t, c.status, c.body, c.header...)
			defer resp.Body.Close()
			if got := Judge(resp); got != c.want {
				t.Errorf("Judge(%d, %q, %.80q) = %+v, want %+v", c.status, c.header, c.body, got, c.want)
			}
			if body, err := io.ReadAll(resp.Body); string(body) != c.body && c.status != 204 || err != nil {
				t.Errorf("the body after Judge = %.80q, %v, want %.80q, nil", body, err, c.body)
			}
		})
	}
}

// Field report 23: the client's clock is an hour off, either way. Dates are compared
// with the answer's own.
func TestRetryAfterDoesNotDependOnTheClientsClock(t *testing.T) {
	t.Parallel()
	server := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	for _, off := range []time.Duration{-time.Hour, 0, time.Hour} {
		client := server.Add(off)
		h := http.Header{
			"Date":        {server.Format(http.TimeFormat)},
			"Retry-After": {server.Add(3 * time.Second).Format(http.TimeFormat)},
		}
		if got, said := retryAfter(h, client); got != 3*time.Second || !said {
			t.Errorf("retryAfter on a clock off by %v = %v, %t, want 3s, true", off, got, said)
		}
		h.Set("Retry-After", "3")
		if got, _ := retryAfter(h, client); got != 3*time.Second {
			t.Errorf("retryAfter in seconds on a clock off by %v = %v, want 3s", off, got)
		}
	}
	// Without a date of the answer there is nothing but the client's clock.
	h := http.Header{"Retry-After": {server.Add(3 * time.Second).Format(http.TimeFormat)}}
	if got, _ := retryAfter(h, server); got != 3*time.Second {
		t.Errorf("retryAfter without Date = %v, want 3s", got)
	}
}

// What was cut off stays cut off: whoever reads the body after Judge sees as much as
// without it.
func TestJudgePutsBackABodyThatWasCutOff(t *testing.T) {
	t.Parallel()
	resp := answerOf(t, 503, `{"retryable":false}`, problemJSON)
	defer resp.Body.Close()
	resp.Body = io.NopCloser(io.MultiReader(io.LimitReader(resp.Body, 7), broken{io.ErrUnexpectedEOF}))
	if got, want := Judge(resp), (Verdict{Retry: true}); got != want {
		t.Errorf("Judge of half a problem = %+v, want %+v", got, want)
	}
	body, err := io.ReadAll(resp.Body)
	if string(body) != `{"retry` || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the body after Judge = %q, %v, want %q, %v", body, err, `{"retry`, io.ErrUnexpectedEOF)
	}
}
