package httpsuite_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/idem-go/idem/conformance/httpsuite"
)

// counting are the cases that count effects, by which running twice is found.
const counting = "first/run first/new-key replay/one-effect mismatch/done mismatch/in-flight concurrent/one-effect " +
	"concurrent/in-progress user/same-request user/other-request user/in-flight lost/response lost/in-flight"

// faults are one for each way to be wrong.
var faults = func() map[string]planted {
	all := map[string]planted{
		"requests are carried out twice": {
			fault: func(l *layer) {
				next := l.next
				l.next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body := readBody(r)
					serve(next, r, body)
					again := serve(next, r, body)
					maps.Copy(w.Header(), again.Header())
					w.WriteHeader(again.Code)
					_, _ = w.Write(again.Body.Bytes())
				})
			},
			caught: counting, groups: "key",
		},
		"new requests fail": {
			fault: func(l *layer) {
				l.next = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
			},
			caught: "first/run", only: "first/run",
		},
		"equal requests are one, whatever the key": {
			fault: func(l *layer) {
				l.identity = func(r *http.Request, _ string, body []byte) string { return r.Header.Get("X-User") + string(body) }
			},
			caught: "first/new-key", groups: "mismatch", only: "first replay mismatch",
		},

		"replays are 200": {
			fault: func(l *layer) {
				l.onReplay(func(_ http.Header, _ int, body []byte) (int, []byte) { return http.StatusOK, body })
			},
			caught: "replay/answer", groups: everywhere,
		},
		"replays are formatted anew": {
			fault: func(l *layer) {
				l.onReplay(func(_ http.Header, status int, body []byte) (int, []byte) {
					var v any
					_ = json.Unmarshal(body, &v)
					body, _ = json.Marshal(v)
					return status, body
				})
			},
			caught: "replay/answer", groups: everywhere,
		},
		"replays have no Location": {
			fault: func(l *layer) {
				l.onReplay(func(h http.Header, status int, body []byte) (int, []byte) {
					h.Del("Location")
					return status, body
				})
			},
			caught: "replay/answer replay/fields", groups: everywhere,
		},
		"only one answer is kept": {
			fault: func(l *layer) {
				replays := make(map[string]int)
				l.onReplay(func(_ http.Header, status int, body []byte) (int, []byte) {
					replays[string(body)]++
					if replays[string(body)] > 2 {
						return http.StatusGone, nil
					}
					return status, body
				})
			},
			caught: "replay/answer replay/one-effect", only: "first replay",
		},
		"retries are carried out, and answered as the first": {
			fault:  func(l *layer) { l.again = func(l *layer, r *http.Request, body []byte) { l.handle(r, body) } },
			caught: "replay/one-effect", groups: everywhere,
		},
		"replays have no content type": {
			fault: func(l *layer) {
				l.onReplay(func(h http.Header, status int, body []byte) (int, []byte) {
					h["Content-Type"] = []string{"text/plain"}
					return status, body
				})
			},
			caught: "replay/fields",
		},
		"replays have one of several equal fields": {
			fault: func(l *layer) {
				l.onReplay(func(h http.Header, status int, body []byte) (int, []byte) {
					h["Link"] = h["Link"][:1]
					return status, body
				})
			},
			caught: "replay/fields",
		},
		"replays hand out the first client's cookie": {
			fault: func(l *layer) {
				l.onReplay(func(h http.Header, status int, body []byte) (int, []byte) {
					h.Set("Set-Cookie", "seen=1")
					return status, body
				})
			},
			caught: "replay/fields",
		},
		"replays are not marked": {
			fault: func(l *layer) {
				l.onReplay(func(h http.Header, status int, body []byte) (int, []byte) {
					h.Del("Idempotent-Replayed")
					return status, body
				})
			},
			caught: "replay/marked lost/in-flight",
		},
		"first answers are marked": {
			fault:  func(l *layer) { l.first = func(h http.Header) { h.Set("Idempotent-Replayed", "true") } },
			caught: "first/run first/new-key replay/marked user/same-request",
		},

		"requests are not compared": {
			fault:  func(l *layer) { l.differs = func(*record, string) bool { return false } },
			caught: "mismatch/done mismatch/in-flight", groups: "key user",
		},
		"requests are compared by their length": {
			fault: func(l *layer) {
				l.differs = func(rec *record, content string) bool { return len(rec.content) != len(content) }
			},
			caught: "mismatch/done mismatch/in-flight", groups: "problem mismatch", only: "first replay mismatch user concurrent",
		},
		"only what is completed is compared": {
			fault: func(l *layer) {
				l.differs = func(rec *record, content string) bool { return rec.completed() && rec.content != content }
			},
			caught: "mismatch/in-flight",
		},
		"a mismatch takes the record over": {
			fault: func(l *layer) {
				l.refuse = func(rec *record) {
					if rec.completed() {
						l.mu.Lock()
						defer l.mu.Unlock()
						rec.body = []byte(`{"error": "used for another request"}`)
					}
				}
			},
			caught: "mismatch/done",
		},
		"a mismatch is 409": {
			fault: func(l *layer) {
				l.problem = func(p *problem, _ *record, _ string, _ []byte) {
					if p.status == http.StatusUnprocessableEntity {
						p.status, p.members["status"] = http.StatusConflict, http.StatusConflict
					}
				}
			},
			caught: "mismatch/done mismatch/in-flight",
		},
		"the refusal shows the first answer": {
			fault: func(l *layer) {
				l.problem = func(p *problem, rec *record, _ string, _ []byte) {
					if rec != nil && rec.completed() {
						p.members["first"] = string(rec.body)
					}
				}
			},
			caught: "mismatch/nothing-leaks",
		},
		"the refusal says where the first answer leads": {
			fault: func(l *layer) {
				l.problem = func(p *problem, rec *record, _ string, _ []byte) {
					if rec != nil && rec.completed() {
						p.header.Set("Location", rec.header.Get("Location"))
					}
				}
			},
			caught: "mismatch/nothing-leaks",
		},

		"looking and claiming are two steps": {
			fault:  func(l *layer) { l.gap = newCrowd().meet },
			caught: "concurrent/one-effect", groups: "concurrent", only: "first replay mismatch concurrent",
		},
		"one of those that are in flight gets an empty answer": {
			fault: func(l *layer) {
				l.busy = func(_ *layer, w http.ResponseWriter, _ *http.Request, _ *record) { w.WriteHeader(http.StatusCreated) }
			},
			caught: "concurrent/in-progress lost/in-flight", groups: "concurrent http2",
		},
		"what is in flight is carried out again": {
			fault: func(l *layer) {
				l.busy = func(l *layer, w http.ResponseWriter, r *http.Request, rec *record) {
					out := l.handle(r, []byte(rec.content))
					maps.Copy(w.Header(), out.Header())
					w.WriteHeader(out.Code)
					_, _ = w.Write(out.Body.Bytes())
				}
			},
			caught: "concurrent/in-progress lost/in-flight", groups: "concurrent http2",
		},
		"what is in flight is an error": {
			fault: func(l *layer) {
				l.busy = func(_ *layer, w http.ResponseWriter, _ *http.Request, _ *record) {
					http.Error(w, "a unique constraint is violated", http.StatusInternalServerError)
				}
			},
			caught: "concurrent/in-progress", groups: "concurrent",
		},
		"in progress doesn't say until when": {fault: retryAfter(""), caught: "concurrent/retry-after"},
		"come back soon":                     {fault: retryAfter("soon"), caught: "concurrent/retry-after"},
		"come back at once":                  {fault: retryAfter("0"), caught: "concurrent/retry-after"},
		"come back in a second and a half":   {fault: retryAfter("1.5"), caught: "concurrent/retry-after"},
		"come back in the past": {
			fault: retryAfter(time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC).Format(http.TimeFormat)), caught: "concurrent/retry-after",
		},

		"all users share their keys": {
			fault:  func(l *layer) { l.identity = func(_ *http.Request, key string, _ []byte) string { return key } },
			caught: "user/same-request user/other-request user/in-flight",
		},
		"all users share their keys, and nobody counts": {
			fault:  func(l *layer) { l.identity = func(_ *http.Request, key string, _ []byte) string { return key } },
			config: func(c *httpsuite.Config) { c.Effects = nil },
			caught: "user/same-request user/other-request user/in-flight",
		},
		"a key is its first user's": {
			fault: func(l *layer) {
				l.identity = func(_ *http.Request, key string, _ []byte) string { return key }
				l.content = func(r *http.Request, body []byte) string { return r.Header.Get("X-User") + string(body) }
			},
			caught: "user/same-request user/other-request user/in-flight",
		},
		"users share what is locked": {
			fault: func(l *layer) {
				var mu sync.Mutex
				running := make(map[string]int)
				next := l.next
				l.next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					key := r.Header.Get("Idempotency-Key")
					mu.Lock()
					running[key]++
					n := running[key]
					mu.Unlock()
					defer func() {
						mu.Lock()
						running[key]--
						mu.Unlock()
					}()
					if n > 1 {
						l.say(w, inProgress(), nil, "", nil)
						return
					}
					next.ServeHTTP(w, r)
				})
			},
			caught: "user/in-flight",
		},

		"a request is forgotten with its client": {
			fault: func(l *layer) {
				l.forget = func(r *http.Request) bool {
					select {
					case <-r.Context().Done():
						return true
					case <-time.After(3 * time.Second): // for the server to notice
						return false
					}
				}
			},
			caught: "lost/response lost/in-flight", only: "lost",
		},
		"a request is given up with its client": {
			fault: func(l *layer) {
				l.forget = func(r *http.Request) bool {
					select {
					case <-r.Context().Done():
						panic(http.ErrAbortHandler) // and its record stays in progress
					case <-time.After(3 * time.Second):
					}
					return false
				}
				l.busy = func(_ *layer, w http.ResponseWriter, _ *http.Request, _ *record) { w.WriteHeader(http.StatusGone) }
			},
			caught: "lost/in-flight", only: "lost/in-flight",
		},
	}
	for _, more := range []map[string]planted{keyFaults, problemFaults, http2Faults} {
		maps.Copy(all, more)
	}
	return all
}()

// everywhere are the groups that look at retries besides.
const everywhere = "replay mismatch concurrent user key lost"

// crowd lets the first that come meet, so that a race is no matter of luck.
type crowd struct {
	mu   sync.Mutex
	n    int
	full chan struct{}
}

func newCrowd() *crowd { return &crowd{full: make(chan struct{})} }

// meet waits for another, but not for long: most come alone.
func (c *crowd) meet() {
	c.mu.Lock()
	c.n++
	full := c.full
	if c.n == 2 {
		close(full)
		c.n, c.full = 0, make(chan struct{})
	}
	c.mu.Unlock()
	select {
	case <-full:
	case <-time.After(50 * time.Millisecond):
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.full == full {
			c.n = 0
		}
	}
}

func retryAfter(v string) func(l *layer) {
	return func(l *layer) {
		l.problem = func(p *problem, _ *record, _ string, _ []byte) { p.retryAfter = v }
	}
}

// onReplay changes replays.
func (l *layer) onReplay(f func(h http.Header, status int, body []byte) (int, []byte)) {
	right := l.replay
	l.replay = func(h http.Header, status int, body []byte) (int, []byte) {
		status, body = right(h, status, body)
		l.mu.Lock()
		defer l.mu.Unlock()
		return f(h, status, body)
	}
}
