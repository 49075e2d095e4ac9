package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"
)

// demo is one run of the scenarios.
type demo struct {
	life     context.Context //nolint:containedctx // of the services
	dsn      string
	out      io.Writer
	verbose  bool
	ledger   database // a look of our own into the service's database
	gateway  *gateway
	board    *board
	servers  []*httptest.Server // of the two
	partners partners

	played []*trial
}

// newDemo starts the gateway and the board.
func newDemo(ctx context.Context, ledger database, dsn string, out io.Writer) *demo {
	d := &demo{life: ctx, dsn: dsn, out: out, ledger: ledger, gateway: newGateway(), board: newBoard()}
	for _, h := range []http.Handler{d.gateway, d.board} {
		d.servers = append(d.servers, httptest.NewServer(h))
	}
	d.partners = partners{gateway: d.servers[0].URL, board: d.servers[1].URL}
	return d
}

func (d *demo) close() {
	for _, s := range d.servers {
		s.Close()
	}
}

// playAll plays all scenarios, or the one of a kill, and reports whether all went as
// expected.
func (d *demo) playAll(ctx context.Context, kill string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	found := d.play(ctx, []scenario{plain})
	known := found[0].points
	var next []scenario
	switch {
	case kill == "":
		found = append(found, d.play(ctx, scenarios)...)
		for _, p := range known {
			next = append(next, killed(plain, p))
		}
	case slices.Contains(known, kill):
		next = []scenario{killed(plain, kill)}
	default:
		return false, fmt.Errorf("no request passes the step %q; there are:\n  %s", kill, strings.Join(known, "\n  "))
	}
	// Other runs come by points that the plain one doesn't, for instance those that
	// resume: they are killed there, too.
	for len(next) > 0 {
		found = append(found, d.play(ctx, next)...)
		next = nil
		for _, t := range found {
			for _, p := range t.points {
				if !slices.Contains(known, p) {
					known = append(known, p)
					next = append(next, killed(t.scenario, append(slices.Clone(t.killedAt), p)...))
				}
			}
		}
		found = nil
	}
	d.play(ctx, []scenario{{name: "all of it again, after a restart", expect: "all replayed, all the same", run: everythingAgain}})
	return d.verdict(ctx)
}

// atOnce is how many scenarios are played at a time. Mostly they wait for a lease to end.
const atOnce = 18

// play plays scenarios side by side and prints what came of them.
func (d *demo) play(ctx context.Context, scs []scenario) []*trial {
	trials := make([]*trial, len(scs))
	places := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i, sc := range scs {
		id := fmt.Sprintf("ORD-%02d", len(d.played)+i+1)
		t := &trial{demo: d, scenario: sc, request: request{key: rand.Text(), order: order{id, int64(10_00 + i)}}}
		trials[i] = t
		all.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			t.play(ctx)
		})
	}
	all.Wait()
	for _, t := range trials {
		verdict := "ok  "
		if !t.fine() {
			verdict = "FAIL"
		}
		fmt.Fprintf(d.out, "%s %-44s expected: %s | observed: %s\n", verdict, t.name, t.expect, t.observed())
		if d.verbose {
			fmt.Fprint(d.out, strings.Join(t.said, ""))
		}
	}
	d.played = append(d.played, trials...)
	return trials
}

func (d *demo) verdict(ctx context.Context) (bool, error) {
	balanced, err := d.check(ctx)
	if err != nil {
		return false, err
	}
	fine := 0
	for _, t := range d.played {
		if t.fine() {
			fine++
		}
	}
	verdict := "every order was charged as often as it was meant"
	if !balanced {
		verdict = "the books are WRONG"
	}
	fmt.Fprintf(d.out, "%d of %d scenarios went as expected; %s\n", fine, len(d.played), verdict)
	return fine == len(d.played) && balanced, nil
}
