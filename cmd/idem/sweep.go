package main

import (
	"context"
	"fmt"

	"github.com/idem-go/idem"
)

// sweep deletes what is over, in batches, until there is nothing left to do.
func sweep(ctx context.Context, c *call) (int, error) {
	c.records()
	p, err := c.parse()
	if err != nil {
		return 0, err
	}
	b, done, err := p.open(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	ex, err := idem.New(b)
	if err != nil {
		return 0, err
	}
	n, err := ex.Sweep(ctx)
	if err == nil || n > 0 {
		fmt.Fprintln(c.stdout, n)
	}
	return statusOK, explain(p, err)
}
