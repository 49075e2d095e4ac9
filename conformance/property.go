package conformance

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/idem-go/idem/backend"
)

// property is what a field of backend.Capabilities means to an operator.
type property struct {
	field string
	name  string                              // as a row of a table
	limit func(c backend.Capabilities) string // what is not guaranteed; empty where nothing is missing
}

var properties = []property{
	{"Transactions", "effect and record commit together", unless(func(c backend.Capabilities) bool { return c.Transactions },
		"An effect does not commit together with its record: where the process dies between the two, a retry runs the effect again.")},
	{"DurableKill", "what was acknowledged survives a kill of the store", unless(func(c backend.Capabilities) bool { return c.DurableKill },
		"A kill of the store's process takes back what was acknowledged, claims and answers: such a key runs again.")},
	{"DurableFailover", "what was acknowledged survives the loss of a machine", unless(func(c backend.Capabilities) bool { return c.DurableFailover },
		"The loss of a machine, or a failover to a replica that has not got everything, takes back what was acknowledged: a key that was claimed, or even completed, runs again.")},
	{"Shared", "several processes use one store", unless(func(c backend.Capabilities) bool { return c.Shared },
		"Other processes do not see the records: a retry that reaches one of them runs again.")},
	{"NativeExpiry", "what is over is deleted without a sweep", unless(func(c backend.Capabilities) bool { return c.NativeExpiry },
		"Records whose retention is over take up space until a sweep deletes them.")},
	{"FreshReads", "reads see every acknowledged write", unless(func(c backend.Capabilities) bool { return c.FreshReads },
		"A read may show a record as it was before the latest writes of others.")},
	{"Clock", "whose clock it is", func(c backend.Capabilities) string {
		return map[backend.Clock]string{
			backend.ClockHost:    "Leases go by the clock of the machine that the caller runs on: all callers have to be on one.",
			backend.ClockProcess: "Leases go by the clock of the caller's own process.",
		}[c.Clock]
	}},
	{"MaxValue", "largest answer or state", func(c backend.Capabilities) string {
		if c.MaxValue == 0 {
			return ""
		}
		return "An answer or a state of more than " + size(c.MaxValue) + " is refused. The library stores that it was too large in its place: retries do not get it, and the effect does not run again."
	}},
	{"MinLease", "shortest lease", func(c backend.Capabilities) string {
		return orNothing(c.MinLease, "No lease is shorter than %v, so that a crashed run holds its key at least that long.")
	}},
	{"LeaseRound", "leases are multiples of", func(c backend.Capabilities) string {
		return orNothing(c.LeaseRound, "Leases are rounded up to multiples of %v.")
	}},
	{"LeaseStretch", "a lease may end later by", func(c backend.Capabilities) string {
		return orNothing(c.LeaseStretch, "A lease can end up to %v later than granted, and a crashed run holds its key that much longer.")
	}},
	{"TokensBreakOn", "tokens of a key may repeat after", func(c backend.Capabilities) string {
		if len(c.TokensBreakOn) == 0 {
			return ""
		}
		return "Fencing tokens of a key can repeat or fall after: " + strings.Join(c.TokensBreakOn, ", ") +
			". The records are guarded by a random id, too; a system that is given tokens, to refuse lower ones, is not."
	}},
}

func unless(holds func(c backend.Capabilities) bool, limit string) func(c backend.Capabilities) string {
	return func(c backend.Capabilities) string {
		if holds(c) {
			return ""
		}
		return limit
	}
}

func orNothing(d time.Duration, limit string) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf(limit, d)
}

// claimOf is what capabilities say of one field.
func claimOf(c backend.Capabilities, field string) Claim {
	out := Claim{Name: field, Claimed: text(field, reflect.ValueOf(c).FieldByName(field).Interface()), Measured: "-"}
	for _, p := range properties {
		if p.field == field {
			out.Property, out.Limit = p.name, p.limit(c)
		}
	}
	return out
}

// text is a value of a field as people read it.
func text(field string, value any) string {
	switch v := value.(type) {
	case bool:
		return map[bool]string{true: "yes", false: "no"}[v]
	case []string:
		if len(v) == 0 {
			return "nothing"
		}
		return strings.Join(v, ", ")
	case time.Duration:
		if v == 0 {
			return "none"
		}
	case int64:
		if field == "MaxValue" {
			return size(v)
		}
	}
	return fmt.Sprint(value)
}

// size is a number of bytes in its largest whole unit.
func size(n int64) string {
	switch {
	case n == 0:
		return "no limit known"
	case n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}
