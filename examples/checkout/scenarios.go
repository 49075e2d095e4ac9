package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// scenario is something that happens to an order. What there is to see of it must be
// what is expected, word for word.
type scenario struct {
	name   string
	expect string
	run    func(t *trial)
	mode   mode // of the gateway at the order's first charge
}

// plain is a payment where nothing goes wrong. It finds the crash points.
var plain = scenario{
	name: "nothing goes wrong", expect: "pay 201; again 201 replayed, same; sent once, inquired never; charged once",
	run: func(t *trial) {
		t.start()
		t.end("pay")
		t.asked()
		t.charged()
	},
}

var scenarios = []scenario{
	{
		name: "double click, on two services", expect: "2 x 201, the same, 1 replayed; again 201 replayed, same; sent once, inquired never; charged once",
		run: func(t *trial) {
			t.start()
			t.doubleClick()
			t.again("again")
			t.asked()
			t.charged()
		},
	},
	{
		mode: drops, name: "gateway charges and drops the reply", expect: "pay 503 unknown-outcome; retry 201; again 201 replayed, same; sent once, inquired once; charged once",
		run: func(t *trial) {
			t.start()
			t.send("pay")
			t.end("retry")
			t.asked()
			t.charged()
		},
	},
	{
		name:   "gateway hangs",
		mode:   hangs,
		expect: "pay 503 unknown-outcome; retry 409 in-progress; after the lease 503 unknown-outcome; it goes on: 201; again 201 replayed, same; charged once",
		run: func(t *trial) {
			t.start()
			t.send("pay")
			t.send("retry")
			t.afterLease("after the lease")
			t.admin(http.MethodPost, "/go-on")
			t.end("it goes on:")
			t.charged()
		},
	},
	{
		mode: fails, name: "gateway fails", expect: "pay 503 unknown-outcome; retry 201; again 201 replayed, same; sent 2 times, inquired never; charged once",
		run: func(t *trial) {
			t.start()
			t.send("pay")
			t.end("retry")
			t.asked()
			t.charged()
		},
	},
	{
		name: "gateway is down", expect: "pay 503 request-failed; retry 503 request-failed; it is up: 201; again 201 replayed, same; sent once, inquired never; charged once",
		run: func(t *trial) {
			down := t.partners
			down.gateway = "http://127.0.0.1:1" // where nobody listens
			t.startWith(down)
			t.send("pay")
			t.send("retry")
			t.restart()
			t.end("it is up:")
			t.asked()
			t.charged()
		},
	},
	{
		name: "card is declined", expect: "pay 402; again 402 replayed, same; later 402 replayed, same; sent once, inquired never; charged never",
		mode: declines,
		run: func(t *trial) {
			t.start()
			t.end("pay")
			t.restart()
			t.again("later")
			t.asked()
			t.charged()
		},
	},
	{
		name:   "a write to the board comes late",
		expect: "killed; retry 201; again 201 replayed, same; the late write was refused, the board shows paid; sent once, inquired never; charged once",
		run: func(t *trial) {
			t.start()
			t.lateWrite()
			t.asked()
			t.charged()
		},
	},
}

// killed is what happens in another scenario, with a service that is killed at a
// crash point. If there are more, the one that resumes is killed at the next.
func killed(in scenario, points ...string) scenario {
	status, charged := http.StatusCreated, "once"
	if in.mode == declines {
		status, charged = http.StatusPaymentRequired, "never"
	}
	k := scenario{
		name:   "killed " + strings.Join(points, ", then "),
		expect: fmt.Sprintf("%sretry %d; again %d replayed, same; charged %s", strings.Repeat("killed; ", len(points)), status, status, charged),
		mode:   in.mode,
		run: func(t *trial) {
			for _, p := range points {
				t.start()
				t.kill(p)
			}
			t.start()
			t.end("retry")
			t.charged()
		},
	}
	if in.mode != works {
		k.name += " (gateway: " + string(in.mode) + ")"
	}
	return k
}

func (t *trial) restart() {
	if t.err == nil {
		t.stop()
		t.start()
	}
}

// doubleClick sends the request to two services at once.
func (t *trial) doubleClick() {
	if t.err != nil {
		return
	}
	other, err := startService(t.ctx, t.life, t.dsn, t.partners)
	if err != nil {
		t.fail(err)
		return
	}
	var answers [2]answer
	var errs [2]error
	var clicks sync.WaitGroup
	for i, s := range []*process{t.service, other} {
		clicks.Go(func() { answers[i], errs[i] = retry(t.ctx, s.addr, t.request, answer.final) })
	}
	clicks.Wait()
	_, err = other.stop()
	t.fail(errors.Join(errs[0], errs[1], err))
	if t.err != nil {
		return
	}
	same, replayed := "the same", 0
	if !answers[0].same(answers[1]) {
		same = fmt.Sprintf("but also %v", answers[1])
	}
	for _, a := range answers {
		if a.replayed {
			replayed++
		}
	}
	t.answer = &answers[0]
	t.see("2 x %v, %s, %d replayed", answers[0], same, replayed)
}

// lateWrite has the service killed while what it wrote to the board is on its way. It
// arrives when another run has written since.
func (t *trial) lateWrite() {
	if t.err != nil {
		return
	}
	id := t.request.order.ID
	h := t.board.hold(id)
	sent := make(chan error, 1)
	go func() {
		_, err := send(t.ctx, t.service.addr, t.request)
		sent <- err
	}()
	select {
	case <-h.arrives:
	case <-t.ctx.Done():
		t.fail(t.ctx.Err())
	}
	t.service.kill()
	t.service = nil
	if err := <-sent; err == nil {
		t.fail(errors.New("the killed service answered"))
	}
	t.see("killed")
	t.start()
	t.end("retry")
	close(h.goesOn)
	<-h.over
	if status, late := t.board.shows(id); late == 1 {
		t.see("the late write was refused, the board shows %s", status)
	} else {
		t.see("%d writes were refused, the board shows %s", late, status)
	}
}

// everythingAgain repeats every request that got an answer.
func everythingAgain(t *trial) {
	t.start()
	own, replayed, same := t.request, "all replayed", "all the same"
	for _, before := range t.played {
		if t.err != nil || before.answer == nil {
			continue
		}
		t.request = before.request
		a := t.try("again", answer.final)
		if !a.replayed {
			replayed = before.request.order.ID + " ran again"
		}
		if !a.same(*before.answer) {
			same = before.request.order.ID + " got another answer"
		}
	}
	t.request = own
	t.see("%s, %s", replayed, same)
}
