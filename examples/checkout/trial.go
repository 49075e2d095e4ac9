package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// trial is a scenario in progress, with an order of its own and the request to pay
// it. Its methods do something and note what there is to see. After an error they do
// nothing, and the notes end with it.
type trial struct {
	*demo
	scenario
	request request
	ctx     context.Context //nolint:containedctx // of the scenario
	service *process        // the one that runs; nil: none

	seen, said []string
	err        error
	answer     *answer  // the final one: what every retry must get
	killedAt   []string // crash points
	points     []string // that the last run passed
}

func (t *trial) play(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 40*time.Second)
	defer cancel()
	t.ctx = ctx
	if t.mode != works {
		t.admin(http.MethodPut, "/modes/"+t.request.order.ID+"?mode="+string(t.mode))
	}
	t.run(t)
	if t.service != nil {
		t.stop()
	}
}

func (t *trial) observed() string { return strings.Join(t.seen, "; ") }
func (t *trial) fine() bool       { return t.err == nil && t.observed() == t.expect }

func (t *trial) see(format string, args ...any) {
	if t.err == nil {
		t.seen = append(t.seen, fmt.Sprintf(format, args...))
	}
}

func (t *trial) fail(err error) {
	if t.err == nil && err != nil {
		t.err = err
		t.seen = append(t.seen, err.Error())
	}
}

// say notes a line for -v, once if it comes again and again.
func (t *trial) say(format string, args ...any) {
	line := fmt.Sprintf("       | "+format+"\n", args...)
	if len(t.said) == 0 || t.said[len(t.said)-1] != line {
		t.said = append(t.said, line)
	}
}

// start starts the service.
func (t *trial) start() { t.startWith(t.partners) }

func (t *trial) startWith(p partners) {
	if t.err != nil {
		return
	}
	s, err := startService(t.ctx, t.life, t.dsn, p)
	t.fail(err)
	t.service = s
}

// stop asks the service to end, and notes which points its requests passed.
func (t *trial) stop() {
	said, err := t.service.stop()
	t.service = nil
	t.fail(err)
	for _, line := range said {
		if point, ok := strings.CutPrefix(line, passLine); ok {
			if !slices.Contains(t.points, point) {
				t.points = append(t.points, point)
			}
		} else {
			t.say("service: %s", line)
		}
	}
}

// try sends until an answer is enough.
func (t *trial) try(what string, enough func(answer) bool, header ...string) answer {
	if t.err != nil {
		return answer{}
	}
	a, err := retry(t.ctx, t.service.addr, t.request, func(a answer) bool {
		if a.problem != "" {
			t.say("%s: %v", what, a)
		} else {
			t.say("%s: %v %s", what, a, a.body)
		}
		return enough(a)
	}, header...)
	t.fail(err)
	return a
}

// send makes one try, or another if the database has too much to do and the key could
// not even be looked up.
func (t *trial) send(what string) {
	t.see("%s %v", what, t.try(what, func(a answer) bool { return a.problem != "unavailable" }))
}

// afterLease tries until the key is not held any more.
func (t *trial) afterLease(what string) {
	t.see("%s %v", what, t.try(what, func(a answer) bool { return a.problem != "in-progress" }))
}

// end tries until there is a final answer, and once more, which must be the same.
func (t *trial) end(what string) {
	a := t.try(what, answer.final, traceHeader, "1")
	t.see("%s %v", what, a)
	if t.err == nil {
		t.answer = &a
	}
	t.again("again")
}

func (t *trial) again(what string) {
	a := t.try(what, answer.final)
	if t.err != nil {
		return
	}
	verdict := "different"
	if a.same(*t.answer) {
		verdict = "same"
	}
	if a.replayed {
		verdict = "replayed, " + verdict
	}
	t.see("%s %v %s", what, a, verdict)
}

// kill has the service killed at a crash point of the request.
func (t *trial) kill(point string) {
	if t.err != nil {
		return
	}
	ctx, cancel := context.WithCancel(t.ctx)
	sent := make(chan error, 1)
	go func() {
		// A key that is held by a run that died is tried again. What fails is the
		// try that gets there.
		_, err := retry(ctx, t.service.addr, t.request, answer.final, stopHeader, point)
		if err == nil {
			cancel() // the point was never reached
		}
		sent <- err
	}()
	_, err := t.service.await(ctx, stopLine+point)
	cancel()
	t.service.kill()
	t.service = nil
	if err := <-sent; err == nil {
		t.fail(errors.New("the service answered without passing the point"))
	}
	t.fail(err)
	t.killedAt = append(t.killedAt, point)
	t.see("killed")
}

// admin tells the gateway something.
func (t *trial) admin(method, path string) {
	if t.err != nil {
		return
	}
	r, err := http.NewRequestWithContext(t.ctx, method, t.partners.gateway+path, nil)
	if err != nil {
		t.fail(err)
		return
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.fail(err)
		return
	}
	resp.Body.Close()
}

// asked sees what the gateway was asked for the order.
func (t *trial) asked() {
	g, id := t.gateway, t.request.order.ID
	g.mu.Lock()
	defer g.mu.Unlock()
	t.see("sent %s, inquired %s", times(g.sent[id]), times(g.asked[id]))
}

// charged sees how often the gateway has charged the order.
func (t *trial) charged() { t.see("charged %s", times(len(t.gateway.charges(t.request.order.ID)))) }

func times(n int) string {
	switch n {
	case 0:
		return "never"
	case 1:
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
