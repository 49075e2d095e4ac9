package httpsuite_test

import (
	"cmp"
	"net/http"
	"strings"
)

var problemFaults = map[string]planted{
	"problems are plain JSON":       onProblem(func(p *problem) { p.media = "application/json" }, "problem/form problem/in-progress"),
	"problems have no type":         onProblem(func(p *problem) { delete(p.members, "type") }, "problem/form problem/in-progress problem/types"),
	"types are relative":            onProblem(func(p *problem) { p.members["type"] = "/problems" + p.members["title"].(string) }, "problem/form problem/in-progress"),
	"types are about:blank":         onProblem(func(p *problem) { p.members["type"] = "about:blank" }, "problem/form problem/in-progress problem/types"),
	"problems have no title":        onProblem(func(p *problem) { p.members["title"] = "" }, "problem/form problem/in-progress"),
	"problems have another status":  onProblem(func(p *problem) { p.members["status"] = 500 }, "problem/form problem/in-progress"),
	"all problems have one type":    onProblem(func(p *problem) { p.members["type"] = "https://shop.example/problem" }, "problem/types"),
	"problems don't say whether to": onProblem(func(p *problem) { delete(p.members, "retryable") }, "problem/retryable problem/retryable-in-progress"),
	"all problems are retryable":    onProblem(func(p *problem) { p.members["retryable"] = true }, "problem/retryable"),
	"no problem is retryable":       onProblem(func(p *problem) { p.members["retryable"] = false }, "problem/retryable-in-progress"),
	"problems can be stored":        onProblem(func(p *problem) { p.cache = "" }, "problem/no-store"),
	"problems are private":          onProblem(func(p *problem) { p.cache = "private" }, "problem/no-store"),
	"problems repeat the key": {
		fault: func(l *layer) {
			l.problem = func(p *problem, _ *record, key string, _ []byte) { p.members["detail"] = "the key is " + key }
		},
		caught: "problem/no-echo",
	},
	"problems repeat the body": {
		fault: func(l *layer) {
			l.problem = func(p *problem, _ *record, _ string, body []byte) { p.members["detail"] = string(body) }
		},
		caught: "problem/no-echo",
	},
	"problems repeat the key in a field": {
		fault: func(l *layer) {
			l.problem = func(p *problem, _ *record, key string, _ []byte) {
				p.header.Set("Idempotency-Key", strings.Trim(cmp.Or(key, "none"), `"`))
			}
		},
		caught: "problem/no-echo",
	},
}

func onProblem(f func(p *problem), caught string) planted {
	return planted{caught: caught, fault: func(l *layer) {
		l.problem = func(p *problem, _ *record, _ string, _ []byte) { f(p) }
	}}
}

var http2Faults = map[string]planted{
	"each version of HTTP has its own keys": {
		fault: func(l *layer) {
			l.identity = func(r *http.Request, key string, _ []byte) string {
				return r.Proto + r.Header.Get("X-User") + "\x00" + key
			}
		},
		caught: "http2/replay", only: "http2 first", secure: true,
	},
	"over HTTP/2 the first key counts": {
		fault: func(l *layer) {
			right := l.lines
			l.lines = func(r *http.Request) []string {
				if lines := right(r); r.ProtoMajor < 2 || len(lines) == 0 {
					return lines
				}
				return r.Header["Idempotency-Key"][:1]
			}
		},
		caught: "http2/several", only: "http2 key/several", secure: true,
	},
	"over HTTP/2 looking and claiming are two steps": {
		fault:  func(l *layer) { l.gap = newCrowd().meet },
		caught: "http2/concurrent", only: "http2", secure: true,
	},
}
