package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/idem-go/idem/conformance"
)

// cleanBound is how long removing what the cases left may take.
const cleanBound = time.Minute

// lab is a namespace for the cases and nothing else.
type lab struct {
	name    string // what there is to remove, for people
	store   func(t conformance.T) conformance.Store
	checkTx func(s suite) *conformance.Report // nil where there are no transactions
	remove  func(ctx context.Context) error
}

// check is the command conformance.
func check(ctx context.Context, c *call) (int, error) {
	c.flags.StringVar(&c.where.prefix, "prefix", "", "redis, etcd: what the random prefix of the run begins with, a `text` (default idem-conformance)")
	only := c.flags.String("run", "", "run only the cases whose id matches this `regexp`")
	skip := c.flags.String("skip", "", "leave out the cases whose id matches this `regexp`; what can't be run on this server, which exit status 3 is for, is listed as one")
	seed := c.flags.Uint64("seed", 0, "make the random choices those of the run that printed IDEM_TEST_SEED=`n`")
	verbose := c.flags.Bool("v", false, "print a line per case, not per group")
	format := c.flags.String("report", "", "write a report, `md` or json, to the standard output or to -o")
	file := c.flags.String("o", "", "write the report (md if -report says nothing) to this `file`")
	p, err := c.parse()
	if err != nil {
		return 0, err
	}
	write, err := reporter(*format, *file)
	if err != nil {
		return 0, err
	}
	ids, err := regexp.Compile(*only)
	if err != nil {
		return 0, fmt.Errorf("-run: %w", err)
	}
	s := suite{ctx: ctx, only: ids}
	if *skip != "" {
		if s.skip, err = regexp.Compile(*skip); err != nil {
			return 0, fmt.Errorf("-skip: %w", err)
		}
	}
	out := c.stdout
	if write != nil && *file == "" {
		out = c.stderr
	}
	told := &progress{w: out, verbose: *verbose}
	s.opts = append(s.opts, conformance.Each(told.add))
	if *seed != 0 {
		s.opts = append(s.opts, conformance.Seed(*seed))
	}
	r, err := c.play(ctx, p, s, told)
	if err != nil {
		return 0, err
	}
	if len(r.Results) == 0 {
		return 0, errors.New("-run and -skip leave no case; -v lists them")
	}
	summary(out, r)
	if write != nil {
		if err := write(c.stdout, r); err != nil {
			return 0, fmt.Errorf("write the report: %w", err)
		}
	}
	return r.Status(), nil
}

// play runs the suite in a namespace of its own, which is gone when it returns.
func (c *call) play(ctx context.Context, p place, s suite, told *progress) (r *conformance.Report, err error) {
	ask, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	l, err := p.lab(ask)
	if err != nil {
		return nil, err
	}
	defer func() {
		if left := atLast(ctx, l.remove); left != nil {
			fmt.Fprintf(c.stderr, "idem conformance: the %s is left, remove it by hand: %v\n", l.name, left)
			err = errors.Join(err, errors.New("it is not cleaned up"))
		}
	}()
	fmt.Fprintf(told.w, "in the %s, removed at the end\n", l.name)
	r = checkStore(s, l.store)
	if l.checkTx != nil {
		merge(r, l.checkTx(s))
	}
	if ctx.Err() == nil {
		told.flush()
	}
	name(ctx, p, r)
	return r, ctx.Err()
}

// name says whose report it is where no case of the run has asked. A file that is
// not there yet stays without.
func name(ctx context.Context, p place, r *conformance.Report) {
	if r.Backend != "" {
		return
	}
	b, done, err := p.open(ctx)
	if err != nil {
		return
	}
	defer done()
	if d, err := b.Describe(ctx); err == nil {
		r.Backend, r.Server = d.Name, d.Server
	}
}

// atLast calls what cleans up, also after an interrupt.
func atLast(ctx context.Context, remove func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanBound)
	defer cancel()
	return remove(ctx)
}

// reporter gives what writes the report, nil if none is wanted. What is wrong with
// the place of the file is better known before the run.
func reporter(format, file string) (func(stdout io.Writer, r *conformance.Report) error, error) {
	var render func(r *conformance.Report, w io.Writer) error
	switch {
	case format == "" && file == "":
		return nil, nil
	case format == "" || format == "md":
		render = (*conformance.Report).WriteMarkdown
	case format == "json":
		render = (*conformance.Report).WriteJSON
	default:
		return nil, errors.New("-report is md or json")
	}
	if file == "" {
		return func(stdout io.Writer, r *conformance.Report) error { return render(r, stdout) }, nil
	}
	if _, err := os.Stat(filepath.Dir(file)); err != nil {
		return nil, fmt.Errorf("-o: %w", err)
	}
	return func(_ io.Writer, r *conformance.Report) error {
		var b bytes.Buffer
		if err := render(r, &b); err != nil {
			return err
		}
		return os.WriteFile(file, b.Bytes(), 0o644)
	}, nil
}
