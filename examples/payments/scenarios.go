package main

// scenario is something that happens to customers. What there is to see of it must
// be what is expected, word for word.
type scenario struct {
	name   string
	expect string
	run    func(t *trial)
}

var scenarios = []scenario{
	{"double click", "2 x 201, all the same, 1 replayed; charged once", func(t *trial) {
		q := t.bill(t.alice, 42_00)
		t.atOnce(2, t.alice, q)
		t.charged(q)
	}},

	{"request lost on its way", "no answer; not charged; retry 201; charged once", func(t *trial) {
		q := t.bill(t.alice, 10_00)
		t.unanswered(t.alice, t.net.dead, q)
		t.charged(q)
		t.first("retry", t.alice, q)
		t.charged(q)
	}},

	{"response lost after the commit", "no answer; charged once; retry 201 replayed, same; charged once", func(t *trial) {
		q := t.bill(t.alice, 19_99)
		lost := t.lostReply(t.alice, q)
		t.charged(q)
		t.again("retry", t.alice, q, lost)
		t.charged(q)
	}},

	{"20 retries at once", "20 x 201, all the same, 19 replayed; charged once", func(t *trial) {
		q := t.bill(t.alice, 7_50)
		t.atOnce(20, t.alice, q)
		t.charged(q)
	}},

	{"20 retries at once, over two servers", "20 x 201, all the same, 19 replayed; charged once", func(t *trial) {
		t.startServer()
		q := t.bill(t.bob, 3_10)
		t.atOnce(20, t.bob, q)
		t.charged(q)
		t.stopServer()
	}},

	{"same key, another amount", "pay 201; other amount 422 key-reused; retry 201 replayed, same; charged once", func(t *trial) {
		q := t.bill(t.alice, 25_00)
		first := t.first("pay", t.alice, q)
		other := q
		other.body = payBody{q.invoice(), 2_50}
		t.send("other amount", t.alice, other)
		t.again("retry", t.alice, q, first)
		t.charged(q)
	}},

	{"another user, same key", "alice 201; bob 201, different; carol, with alice's invoice, 404, different; alice again 201 replayed, same; charged once; charged once", func(t *trial) {
		hers, his := t.bill(t.alice, 30_00), t.bill(t.bob, 30_00)
		his.key = hers.key
		first := t.first("alice", t.alice, hers)
		t.keep(t.bob, his, t.again("bob", t.bob, his, first))
		t.again("carol, with alice's invoice,", t.carol, hers, first)
		t.again("alice again", t.alice, hers, first)
		t.charged(hers)
		t.charged(his)
	}},

	{"insufficient balance", "pay 402; retry 402 replayed, same; not charged; top-up 201; retry 402 replayed, same; new key 201; charged once", func(t *trial) {
		q := t.bill(t.carol, 60_00)
		refused := t.first("pay", t.carol, q)
		t.again("retry", t.carol, q, refused)
		t.charged(q)
		t.first("top-up", t.carol, t.topUp(t.carol, 100_00))
		t.again("retry", t.carol, q, refused)
		q.key = newKey()
		t.first("new key", t.carol, q)
		t.charged(q)
	}},

	{"top-up sent 5 times", "5 x 201, all the same, 4 replayed; credited once", func(t *trial) {
		q := t.topUp(t.bob, 12_34)
		t.atOnce(5, t.bob, q)
		t.credited(q)
	}},

	{"server killed between charge and commit", "killed; not charged; retry 201; retry 201 replayed, same; charged once", func(t *trial) {
		q := t.bill(t.alice, 88_00)
		t.killAt(beforeCommit, t.alice, q)
		t.charged(q)
		t.startServer()
		first := t.first("retry", t.alice, q)
		t.again("retry", t.alice, q, first)
		t.charged(q)
	}},

	{"server killed between commit and answer", "killed; charged once; retry 201 replayed; retry 201 replayed, same; charged once", func(t *trial) {
		q := t.bill(t.alice, 99_00)
		t.killAt(beforeAnswer, t.alice, q)
		t.charged(q)
		t.startServer()
		first := t.first("retry", t.alice, q)
		t.again("retry", t.alice, q, first)
		t.charged(q)
	}},

	{"a key that is too short, then none", "pay 400 key-malformed; pay 400 key-missing; not charged", func(t *trial) {
		q := t.billFor(t.alice, 5_00, 0)
		q.key = "42"
		t.send("pay", t.alice, q)
		q.key = ""
		t.send("pay", t.alice, q)
		t.charged(q)
	}},

	{"all of it again, after a restart", "all replayed, all the same", func(t *trial) {
		t.stopServer()
		t.startServer()
		t.everythingAgain()
	}},
}
