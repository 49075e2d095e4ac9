package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/idem-go/idem/backend"
)

// diagnosis is what doctor prints with -json. Durations are seconds.
type diagnosis struct {
	Backend      string       `json:"backend"`
	At           string       `json:"at"`
	Server       string       `json:"server"`
	Schema       int          `json:"schema"`
	Capabilities capabilities `json:"capabilities"`
	Findings     []finding    `json:"findings"`
	Unsafe       bool         `json:"unsafe"`
}

type capabilities struct {
	Transactions    bool          `json:"transactions"`
	DurableKill     bool          `json:"durable_kill"`
	DurableFailover bool          `json:"durable_failover"`
	Shared          bool          `json:"shared"`
	NativeExpiry    bool          `json:"native_expiry"`
	FreshReads      bool          `json:"fresh_reads"`
	Clock           backend.Clock `json:"clock"`
	MaxValue        int64         `json:"max_value_bytes"`
	MinLease        float64       `json:"min_lease_seconds"`
	LeaseRound      float64       `json:"lease_round_seconds"`
	LeaseStretch    float64       `json:"lease_stretch_seconds"`
	TokensBreakOn   []string      `json:"tokens_break_on"`
}

type finding struct {
	ID       string           `json:"id"`
	Severity backend.Severity `json:"severity"`
	Text     string           `json:"text"`
	Advice   string           `json:"advice"`
}

func diagnose(p place, d backend.Description) diagnosis {
	c := d.Capabilities
	out := diagnosis{
		Backend: d.Name, At: p.String(), Server: d.Server, Schema: d.Schema,
		Capabilities: capabilities{
			Transactions: c.Transactions, DurableKill: c.DurableKill, DurableFailover: c.DurableFailover,
			Shared: c.Shared, NativeExpiry: c.NativeExpiry, FreshReads: c.FreshReads, Clock: c.Clock, MaxValue: c.MaxValue,
			MinLease: c.MinLease.Seconds(), LeaseRound: c.LeaseRound.Seconds(), LeaseStretch: c.LeaseStretch.Seconds(),
			TokensBreakOn: append([]string{}, c.TokensBreakOn...), // [] and not null
		},
		Findings: []finding{},
	}
	for _, f := range d.Findings {
		out.Findings = append(out.Findings, finding(f))
		out.Unsafe = out.Unsafe || f.Severity == backend.Unsafe
	}
	return out
}

// doctor asks the server what it is and says what is wrong with it.
func doctor(ctx context.Context, c *call) (int, error) {
	c.records()
	asJSON := c.flags.Bool("json", false, "print JSON")
	ctx, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	p, err := c.parse()
	if err != nil {
		return 0, err
	}
	b, done, err := p.open(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	d, err := b.Describe(ctx)
	if err != nil {
		return 0, explain(p, err)
	}
	out := diagnose(p, d)
	if *asJSON {
		err = printJSON(c.stdout, out)
	} else {
		err = printDiagnosis(c.stdout, out, d.Capabilities)
	}
	if out.Unsafe {
		return statusNo, err
	}
	return statusOK, err
}

func printDiagnosis(w io.Writer, d diagnosis, c backend.Capabilities) error {
	fmt.Fprintf(w, "%s %s at %s", d.Backend, d.Server, d.At)
	if d.Schema > 0 {
		fmt.Fprintf(w, ", schema %d", d.Schema)
	}
	fmt.Fprint(w, "\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, l := range [][2]string{
		{"effect and record in one transaction", yes(c.Transactions)},
		{"survives the kill of its process", yes(c.DurableKill)},
		{"survives the loss of its machine", yes(c.DurableFailover)},
		{"shared by several processes", yes(c.Shared)},
		{"reads see every write", yes(c.FreshReads)},
		{"deletes by itself what is over", yes(c.NativeExpiry)},
		{"clock", string(c.Clock)},
		{"largest response or state", size(c.MaxValue)},
		{"leases", leases(c)},
		{"tokens can repeat after", strings.Join(c.TokensBreakOn, ", ")},
	} {
		fmt.Fprintf(t, "  %s\t%s\n", l[0], l[1])
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, f := range d.Findings {
		fmt.Fprintf(w, "%s %s\n  %s\n  do: %s\n", strings.ToUpper(string(f.Severity)), f.ID, f.Text, f.Advice)
	}
	if len(d.Findings) == 0 {
		fmt.Fprintln(w, "nothing found")
	}
	return nil
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func size(n int64) string {
	switch {
	case n == 0:
		return "no limit known"
	case n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

func leases(c backend.Capabilities) string {
	if c.LeaseRound == 0 && c.MinLease == 0 && c.LeaseStretch == 0 {
		return "as asked for"
	}
	return fmt.Sprintf("at least %v, in steps of %v, may last %v longer", c.MinLease, c.LeaseRound, c.LeaseStretch)
}
