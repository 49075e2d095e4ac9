package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// trial is a scenario in progress. Its methods do something and note what there is
// to see. After an error they do nothing, and the notes end with it.
type trial struct {
	*demo
	ctx  context.Context
	name string

	seen []string
	err  error
}

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

func (t *trial) observed() string { return strings.Join(t.seen, "; ") }

type payBody struct {
	Invoice string `json:"invoice"`
	Amount  int64  `json:"amount"`
}

type topupBody struct {
	Amount int64 `json:"amount"`
}

func (q request) invoice() string { return q.body.(payBody).Invoice }

func newKey() string { return rand.Text() }

// bill issues an invoice and returns the request to pay it, with a new key. In
// the end it must have been charged once, whatever happened.
func (t *trial) bill(c customer, amount int64) request { return t.billFor(c, amount, 1) }

func (t *trial) billFor(c customer, amount int64, charges int) request {
	invoice := fmt.Sprintf("INV-%02d", len(t.intents)+1)
	t.intents = append(t.intents, intent{t.name, invoice, c.name, amount, charges})
	t.fail(issueInvoice(t.ctx, t.ledger, invoice, c.name, amount))
	return request{path: "/payments", key: newKey(), body: payBody{invoice, amount}}
}

// topUp returns the request to top up an account, with a new key. In the end it
// must have been credited once.
func (t *trial) topUp(c customer, amount int64) request {
	t.topups[c.name] += amount
	return request{path: "/topups", key: newKey(), body: topupBody{amount}}
}

// send makes one try.
func (t *trial) send(what string, c customer, q request) {
	if t.err != nil {
		return
	}
	a, err := c.send(t.ctx, t.net.good, q)
	t.fail(err)
	t.see("%s %v", what, a)
}

// first retries until there is an answer, which is the request's from now on.
func (t *trial) first(what string, c customer, q request) answer {
	if t.err != nil {
		return answer{}
	}
	a, err := c.retry(t.ctx, t.net.good, q)
	t.fail(err)
	t.see("%s %v", what, a)
	t.keep(c, q, a)
	return a
}

// again does so for a request that can be compared with an earlier one.
func (t *trial) again(what string, c customer, q request, before answer) answer {
	if t.err != nil {
		return answer{}
	}
	a, err := c.retry(t.ctx, t.net.good, q)
	t.fail(err)
	verdict := "different"
	if a.same(before) {
		verdict = "same"
	}
	t.see("%s %v, %s", what, a, verdict)
	return a
}

// keep notes an answer as the request's from now on.
func (t *trial) keep(c customer, q request, a answer) {
	t.answers = append(t.answers, answered{c, q, a})
}

// atOnce sends a request n times together.
func (t *trial) atOnce(n int, c customer, q request) {
	if t.err != nil {
		return
	}
	answers, errs := make([]answer, n), make([]error, n)
	var senders sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		senders.Go(func() {
			<-begin
			answers[i], errs[i] = c.retry(t.ctx, t.net.good, q)
		})
	}
	close(begin)
	senders.Wait()
	t.fail(errors.Join(errs...))
	replayed, same := 0, "all the same"
	for _, a := range answers {
		if a.replayed {
			replayed++
		}
		if !a.same(answers[0]) {
			same = fmt.Sprintf("but also %v", a)
		}
	}
	t.see("%d x %d, %s, %d replayed", n, answers[0].status, same, replayed)
	t.answers = append(t.answers, answered{c, q, answers[0]})
}

// everythingAgain repeats every request that got an answer in any scenario.
func (t *trial) everythingAgain() {
	replayed, same := "all replayed", "all the same"
	for _, before := range t.answers {
		if t.err != nil {
			return
		}
		a, err := before.by.retry(t.ctx, t.net.good, before.request)
		t.fail(err)
		if !a.replayed {
			replayed = fmt.Sprintf("%v ran again", before.request.body)
		}
		if !a.same(before.answer) {
			same = fmt.Sprintf("%v got another answer", before.request.body)
		}
	}
	t.see("%s, %s", replayed, same)
}

// unanswered makes one try where the network loses it or its answer.
func (t *trial) unanswered(c customer, via string, q request) {
	if t.err != nil {
		return
	}
	if a, err := c.send(t.ctx, via, q); err == nil {
		t.see("answer %v", a)
		return
	}
	t.see("no answer")
}

// lostReply has the server answer and the network lose it. It returns what was
// lost.
func (t *trial) lostReply(c customer, q request) answer {
	if t.err != nil {
		return answer{}
	}
	t.unanswered(c, t.net.mute, q)
	select {
	case lost := <-t.net.lost:
		t.fail(lost.err)
		t.answers = append(t.answers, answered{c, q, lost.answer})
		return lost.answer
	case <-t.ctx.Done():
		t.fail(t.ctx.Err())
		return answer{}
	}
}
