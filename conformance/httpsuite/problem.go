package httpsuite

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/url"
	"strings"
)

const rfc9457 = "RFC 9457, section "

var problemCases = []testCase{
	{"problem/form", rfc9457 + "3", "A refusal is application/problem+json: an object with an absolute URI as its type, a title, and the status of the answer.", func(e *env) {
		e.claimed(e.cfg.Problems, "Problems")
		for _, r := range e.refusals() {
			e.wantProblem(r)
		}
	}},
	{"problem/in-progress", draft + "2.7", "So is the refusal of a request in progress.", func(e *env) {
		e.claimed(e.cfg.Problems, "Problems")
		e.wantProblem(refusal{what: "a retry of one in flight", answer: e.conflict()})
	}},
	{"problem/types", rfc9457 + "3.1.1", "Each kind of problem has a type of its own.", func(e *env) {
		e.claimed(e.cfg.Problems, "Problems")
		whose := make(map[string]string)
		for _, r := range e.refusals() {
			kind, _ := r.members()["type"].(string)
			if before, ok := whose[kind]; ok {
				e.errorf("%s and %s have the same type %q", before, r.what, kind)
			}
			whose[kind] = r.what
		}
	}},
	{"problem/retryable", ours, "The member retryable says whether the same request is worth sending again: not after a refusal of its key.", func(e *env) {
		e.claimed(e.cfg.Retryable, "Retryable")
		for _, r := range e.refusals() {
			e.wantRetryable(r, false)
		}
	}},
	{"problem/retryable-in-progress", ours, "After the refusal of a request in progress it is.", func(e *env) {
		e.claimed(e.cfg.Retryable, "Retryable")
		e.wantRetryable(refusal{what: "a retry of one in flight", answer: e.conflict()}, true)
	}},
	{"problem/no-store", "RFC 9111, section 5.2.2.5", "A refusal is no answer to keep: Cache-Control: no-store.", func(e *env) {
		e.claimed(e.cfg.Problems, "Problems")
		for _, r := range e.refusals() {
			if v := strings.ToLower(strings.Join(r.header.Values("Cache-Control"), ",")); !strings.Contains(v, "no-store") {
				e.errorf("%s = %v with Cache-Control %q, want no-store", r.what, r.answer, v)
			}
		}
	}},
	{"problem/no-echo", ours, "A refusal repeats nothing of the key or the body.", func(e *env) {
		for _, r := range e.refusals() {
			if r.contains(r.key) {
				e.errorf("%s = %v, which contains the key", r.what, r.answer)
			}
			if _, body := e.cfg.Body(r.n); r.contains(string(body)) {
				e.errorf("%s = %v, which contains the body", r.what, r.answer)
			}
		}
	}},
}

// claimed ends a case about what is not claimed.
func (e *env) claimed(yes bool, name string) {
	if !yes {
		e.skip("Config.%s is not set: it is not claimed", name)
	}
}

// refusal is the answer to a request whose key is refused.
type refusal struct {
	answer
	what string
	n    int
	key  string
}

// refusals gives one of each kind that needs no request in flight. What is not refused
// other cases are about.
func (e *env) refusals() (all []refusal) {
	done, k := e.fresh(), newKey()
	done.keys = []string{quoted(k)}
	e.ok("a first request", done)
	missing, malformed := e.fresh(), e.fresh()
	missing.keys, malformed.keys = nil, []string{`"` + k}
	if !e.cfg.Optional {
		all = append(all, refusal{what: "a request without a key", n: missing.n, answer: e.send("a request without a key", missing)})
	}
	all = append(all, refusal{what: "a request with a malformed key", n: malformed.n, key: k, answer: e.send("a request with a malformed key", malformed)})
	o := e.other(done)
	all = append(all, refusal{what: "another request with the key", n: o.n, key: k, answer: e.send("another request with the key", o)})
	for _, r := range all {
		if r.status < 400 {
			e.skip("%s = %v: it is not refused, which other cases are about", r.what, r.answer)
		}
	}
	return all
}

func (e *env) wantProblem(r refusal) {
	if err := problemForm(r.answer); err != nil {
		e.errorf("%s = %v: %v", r.what, r.answer, err)
	}
}

// problemForm says what keeps an answer from being problem details.
func problemForm(a answer) error {
	if got, _, err := mime.ParseMediaType(a.header.Get("Content-Type")); err != nil || got != "application/problem+json" {
		return fmt.Errorf("Content-Type %q, want application/problem+json", a.header.Get("Content-Type"))
	}
	p := a.members()
	// about:blank says that there is no type (section 4.2.1).
	kind, _ := p["type"].(string)
	if u, err := url.Parse(kind); err != nil || !u.IsAbs() || kind == "about:blank" {
		return fmt.Errorf("type %q, want an absolute URI", kind)
	}
	if title, _ := p["title"].(string); title == "" {
		return errors.New("no title")
	}
	if status, _ := p["status"].(float64); int(status) != a.status {
		return fmt.Errorf("member status %v, want %d as the answer has it", p["status"], a.status)
	}
	return nil
}

// members are those of the JSON object that an answer is; nil if it is none.
func (a answer) members() (m map[string]any) {
	_ = json.Unmarshal(a.body, &m)
	return m
}

func (e *env) wantRetryable(r refusal, want bool) {
	if got, ok := r.members()["retryable"].(bool); !ok || got != want {
		e.errorf("%s = %v, want a member retryable that is %v", r.what, r.answer, want)
	}
}
