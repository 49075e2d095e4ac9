package main

import "errors"

// killAt has the only server killed when it is at a crash point of the request.
func (t *trial) killAt(point string, c customer, q request) {
	if t.err != nil {
		return
	}
	server := t.servers[0]
	q.crash = point
	sent := make(chan error, 1)
	go func() {
		_, err := c.send(t.ctx, t.net.good, q)
		sent <- err
	}()
	_, err := server.await(t.ctx, crashLine+point)
	t.fail(err)
	server.kill()
	t.forget(server)
	if err := <-sent; err == nil {
		t.fail(errors.New("the killed server answered"))
	}
	t.see("killed")
}

// startServer starts one more server.
func (t *trial) startServer() {
	if t.err == nil {
		t.fail(t.start(t.ctx))
	}
}

// stopServer ends the one that was started last.
func (t *trial) stopServer() {
	if t.err == nil {
		t.fail(t.stop())
	}
}

// charged sees how often the invoice of a request is in the ledger.
func (t *trial) charged(q request) {
	t.count("charged", "SELECT count(*) FROM payments WHERE invoice = $1", q.invoice())
}

// credited sees how often a top-up of this amount is in the ledger.
func (t *trial) credited(q request) {
	t.count("credited", "SELECT count(*) FROM topups WHERE amount = $1", q.body.(topupBody).Amount)
}

func (t *trial) count(what, query string, arg any) {
	if t.err != nil {
		return
	}
	var n int
	t.fail(t.ledger.get(t.ctx, query, []any{arg}, &n))
	switch n {
	case 0:
		t.see("not %s", what)
	case 1:
		t.see("%s once", what)
	default:
		t.see("%s %d times", what, n)
	}
}
