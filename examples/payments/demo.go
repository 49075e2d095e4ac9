package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"
)

// demo is one run of all scenarios.
type demo struct {
	life    context.Context // of the servers
	dsn     string
	out     io.Writer
	verbose bool
	ledger  database // the driver's own look into the database
	net     *network
	servers []*process

	alice, bob, carol customer

	// What must be in the ledger when all is over.
	intents []intent
	topups  map[string]int64 // by owner, in cents
	// Every request that got its final answer: the one it must get for ever.
	answers []answered
}

// intent is an invoice that somebody means to pay, and how often that must have
// happened.
type intent struct {
	scenario string
	invoice  string
	owner    string
	amount   int64
	charges  int
}

type answered struct {
	by      customer
	request request
	answer  answer
}

// Opening balances in cents. Carol is poor.
var opening = map[string]int64{"alice": 1000_00, "bob": 500_00, "carol": 5_00}

// runDemo plays the scenarios on the fresh database at dsn and reports whether all
// went as expected.
func runDemo(ctx context.Context, ledger database, dsn string, verbose bool, out io.Writer) (passed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	d := &demo{life: ctx, dsn: dsn, out: out, verbose: verbose, ledger: ledger, topups: map[string]int64{}}
	d.alice, d.bob, d.carol = newCustomer("alice", d.say), newCustomer("bob", d.say), newCustomer("carol", d.say)
	for owner, cents := range opening {
		if err := openAccount(ctx, d.ledger, owner, cents); err != nil {
			return false, err
		}
	}

	if d.net, err = newNetwork(); err != nil {
		return false, err
	}
	defer d.net.close()
	defer func() {
		for _, p := range d.servers {
			p.kill()
		}
	}()
	if err := d.start(ctx); err != nil {
		return false, err
	}

	fine := 0
	for _, sc := range scenarios {
		if d.play(ctx, sc) {
			fine++
		}
		if len(d.servers) == 0 { // a failed scenario left none
			if err := d.start(ctx); err != nil {
				return false, err
			}
		}
	}
	balanced, err := d.check(ctx)
	if err != nil {
		return false, err
	}
	verdict := "every intent was charged as often as it was meant"
	if !balanced {
		verdict = "the ledger is WRONG"
	}
	fmt.Fprintf(out, "%d of %d scenarios went as expected; %s\n", fine, len(scenarios), verdict)
	return fine == len(scenarios) && balanced, nil
}

func (d *demo) play(ctx context.Context, sc scenario) bool {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	t := &trial{demo: d, ctx: ctx, name: sc.name}
	sc.run(t)
	got, verdict := t.observed(), "ok  "
	if got != sc.expect {
		verdict = "FAIL"
	}
	fmt.Fprintf(d.out, "%s %-40s expected: %s | observed: %s\n", verdict, sc.name, sc.expect, got)
	return got == sc.expect
}

func (d *demo) say(format string, args ...any) {
	if d.verbose {
		fmt.Fprintf(d.out, "       "+format+"\n", args...)
	}
}

// start starts one more server. The customers' addresses stay the same.
func (d *demo) start(ctx context.Context) error {
	p, err := startServer(ctx, d.life, d.dsn)
	if err != nil {
		return err
	}
	d.servers = append(d.servers, p)
	d.route()
	return nil
}

// route tells the network which servers there are.
func (d *demo) route() {
	addrs := make([]string, len(d.servers))
	for i, p := range d.servers {
		addrs[i] = p.addr
	}
	d.net.servers.Store(&addrs)
}

// forget takes a server that ended off the list.
func (d *demo) forget(p *process) {
	d.servers = slices.DeleteFunc(d.servers, func(q *process) bool { return p == q })
	d.route()
}

// stop asks the server that was started last to end.
func (d *demo) stop() error {
	p := d.servers[len(d.servers)-1]
	d.forget(p)
	return p.stop()
}
