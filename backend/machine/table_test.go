package machine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
)

// The table of the package comment, row by row.
func TestTable(t *testing.T) {
	t.Parallel()
	own, other, earlier := holder(1, 5), holder(2, 5), holder(1, 4)
	same := func(rs ...*backend.Record) [][2]*backend.Record {
		var out [][2]*backend.Record
		for _, r := range rs {
			out = append(out, [2]*backend.Record{r, r})
		}
		return out
	}
	to := func(before, after *backend.Record) [][2]*backend.Record { return [][2]*backend.Record{{before, after}} }
	alive := []*backend.Record{started(), started(atPoint)}
	unexpired := append(slices.Clone(alive), started(lapsed), started(released), started(completed))
	for name, row := range map[string]struct {
		records  [][2]*backend.Record // before and after
		messages []machine.Message
		acquired bool
		err      error
	}{
		"none, claim":                {to(nil, fresh(clocked)), []machine.Message{claim(2), claim(2, refusing)}, true, nil},
		"retention over, claim":      {to(started(over), fresh(clocked)), []machine.Message{claim(2)}, true, nil},
		"retention over, other path": {to(started(over, func(r *backend.Record) { r.Target.Path = "/other" }), fresh(clocked)), []machine.Message{claim(2)}, true, nil},
		"another request, claim": {same(unexpired...), []machine.Message{
			claim(2, otherMethod), claim(2, otherPath), claim(2, otherContent), claim(2, unknown), claim(1, otherContent),
		}, false, nil},
		"remembered, claim": {same(started(remembered), started(forgot)), []machine.Message{claim(2), claim(1), claim(2, refusing), claim(2, reviving)}, false, nil},
		"remembered, another request": {same(started(remembered), started(forgot)), []machine.Message{
			claim(2, otherMethod), claim(2, otherPath), claim(2, otherContent), claim(2, unknown),
		}, false, nil},
		"remembered no more, claim":               {to(started(unremembered), fresh(clocked)), []machine.Message{claim(2), claim(2, refusing)}, true, nil},
		"remembered no more, swept before, claim": {to(started(unremembered, func(r *backend.Record) { r.Response = expired }), fresh(clocked)), []machine.Message{claim(2)}, true, nil},
		"remembered, complete again":              {same(started(remembered), started(forgot)), []machine.Message{complete(own, 3, 1), complete(own, 9, 1)}, false, nil},
		"remembered, complete with another":       {same(started(remembered)), []machine.Message{complete(own, 3, 2)}, false, backend.ErrConflict},
		"forgotten, complete with another":        {same(started(forgot)), []machine.Message{complete(own, 3, 2), complete(own, 9, 2)}, false, nil},
		"forgotten, its other writes":             {same(started(forgot)), []machine.Message{renew(own, time.Hour), checkpoint(own, 9, "p", ""), release(own)}, false, nil},
		"forgotten, other claim":                  {same(started(forgot)), append(writes(other), writes(earlier)...), false, backend.ErrLeaseLost},
		"completed, claim":                        {same(started(completed)), []machine.Message{claim(2), claim(1)}, false, nil},
		"alive, claim of the same id":             {same(alive...), []machine.Message{claim(1), claim(1, refusing)}, true, nil},
		"alive, claim":                            {same(alive...), []machine.Message{claim(2), claim(2, refusing)}, false, nil},
		"lapsed, claim of the same id":            {to(started(lapsed), started(lockedFor(20*time.Second))), []machine.Message{claim(1), claim(1, refusing)}, true, nil},
		"lapsed at a point, claim of same id":     {to(started(atPoint, lapsed), started(atPoint, lockedFor(20*time.Second))), []machine.Message{claim(1)}, true, nil},
		"lapsed, claim":                           {to(started(lapsed), started(resumedBy(2))), []machine.Message{claim(2)}, true, nil},
		"lapsed at a point, claim":                {to(started(atPoint, lapsed), started(atPoint, resumedBy(2))), []machine.Message{claim(2), claim(2, refusing)}, true, nil},
		"released, claim":                         {to(started(released), started(atPoint, resumedBy(2))), []machine.Message{claim(2), claim(2, refusing)}, true, nil},
		"released, claim of the same id":          {to(started(released), started(atPoint, resumedBy(1))), []machine.Message{claim(1)}, true, nil},
		"lapsed, no point, RefuseTakeover":        {same(started(lapsed)), []machine.Message{claim(2, refusing)}, false, nil},
		"started, renew":                          {to(started(), started(lockedFor(time.Minute))), []machine.Message{renew(own, time.Minute)}, false, nil},
		"lapsed, renew":                           {to(started(lapsed), started(lockedFor(time.Minute))), []machine.Message{renew(own, time.Minute)}, false, nil},
		"started, renew to less":                  {same(alive...), []machine.Message{renew(own, time.Second), renew(own, 9*time.Second)}, false, nil},
		"started, checkpoint":                     {to(started(), started(stored(1, "p", "s"))), []machine.Message{checkpoint(own, 1, "p", "s")}, false, nil},
		"at a point, higher checkpoint":           {to(started(atPoint), started(atPoint, stored(7, "p", "s"))), []machine.Message{checkpoint(own, 7, "p", "s")}, false, nil},
		"lapsed, checkpoint":                      {to(started(lapsed), started(lapsed, stored(1, "p", "s"))), []machine.Message{checkpoint(own, 1, "p", "s")}, false, nil},
		"at a point, lower checkpoint":            {same(started(atPoint)), []machine.Message{checkpoint(own, 1, "p", "s"), complete(own, 1, 1)}, false, nil},
		"at a point, equal checkpoint":            {same(started(atPoint)), []machine.Message{checkpoint(own, 2, "charged", "state")}, false, nil},
		"at a point, equal but other checkpoint":  {same(started(atPoint)), []machine.Message{checkpoint(own, 2, "p", "state"), checkpoint(own, 2, "charged", "s")}, false, backend.ErrConflict},
		"at a point, equal completion":            {same(started(atPoint)), []machine.Message{complete(own, 2, 1)}, false, backend.ErrConflict},
		"started, complete":                       {to(started(), started(completedNow(1))), []machine.Message{complete(own, 1, 1)}, false, nil},
		"at a point, complete":                    {to(started(atPoint), started(atPoint, completedNow(3))), []machine.Message{complete(own, 3, 1)}, false, nil},
		"lapsed, complete":                        {to(started(lapsed), started(completedNow(1))), []machine.Message{complete(own, 1, 1)}, false, nil},
		"complete after the expiry was due":       {to(started(idle), started(completedNow(1), func(r *backend.Record) { r.ExpiresAt = at.Add(time.Hour) })), []machine.Message{complete(own, 1, 1)}, false, nil},
		"no point, release":                       {to(started(), nil), []machine.Message{release(own)}, false, nil},
		"lapsed, no point, release":               {to(started(lapsed), nil), []machine.Message{release(own)}, false, nil},
		"at a point, release":                     {to(started(atPoint), started(released, func(r *backend.Record) { r.UpdatedAt = at })), []machine.Message{release(own)}, false, nil},
		"started, other claim":                    {same(started(), started(atPoint), started(lapsed), started(completed)), append(writes(other), writes(earlier)...), false, backend.ErrLeaseLost},
		"completed, complete again":               {same(started(completed)), []machine.Message{complete(own, 3, 1), complete(own, 9, 1), complete(own, 1, 2)}, false, nil},
		"completed, complete with another":        {same(started(completed)), []machine.Message{complete(own, 3, 2), complete(own, 9, 2)}, false, backend.ErrConflict},
		"completed, its other writes":             {same(started(completed)), []machine.Message{renew(own, time.Hour), checkpoint(own, 1, "p", ""), checkpoint(own, 9, "p", ""), release(own)}, false, nil},
		"none, writes":                            {same(nil), writes(own)[:3], false, backend.ErrLeaseLost},
		"none, release":                           {same(nil), []machine.Message{release(own)}, false, nil},
		"released, writes":                        {same(started(released)), writes(own)[:3], false, backend.ErrLeaseLost},
		"released, release":                       {same(started(released)), []machine.Message{release(own)}, false, nil},
		"none and not due, sweep":                 {same(nil, started(), started(idle, func(r *backend.Record) { r.ExpiresAt = at.Add(1) })), []machine.Message{machine.Sweep{}}, false, nil},
		"retention over, sweep":                   {to(started(over), nil), []machine.Message{machine.Sweep{}}, false, nil},
		"remembered, sweep":                       {to(started(remembered), started(forgot)), []machine.Message{machine.Sweep{}}, false, nil},
		"a tombstone, remembered, sweep": {to(started(remembered, func(r *backend.Record) {
			r.Response = backend.Response{Tombstone: backend.TooLarge, Status: 200, Header: []byte("Location: /1")}
		}), started(forgot)), []machine.Message{machine.Sweep{}}, false, nil},
		"forgotten, sweep":            {same(started(forgot)), []machine.Message{machine.Sweep{}}, false, nil},
		"remembered no more, sweep":   {to(started(unremembered), nil), []machine.Message{machine.Sweep{}}, false, nil},
		"remembered, not due, sweep":  {same(started(remembered, func(r *backend.Record) { r.ExpiresAt = at.Add(1) })), []machine.Message{machine.Sweep{}}, false, nil},
		"due but retained, sweep":     {to(started(completed, due), started(completed, func(r *backend.Record) { r.ExpiresAt = r.CompletedAt.Add(time.Hour) })), []machine.Message{machine.Sweep{}}, false, nil},
		"due but alive, sweep":        {to(started(due, func(r *backend.Record) { r.UpdatedAt = at.Add(-3 * time.Hour) }), started(func(r *backend.Record) { r.UpdatedAt, r.ExpiresAt = at.Add(-3*time.Hour), r.LockedUntil })), []machine.Message{machine.Sweep{}}, false, nil},
		"due but active, sweep":       {to(started(lapsed, due), started(lapsed, func(r *backend.Record) { r.ExpiresAt = r.UpdatedAt.Add(2 * time.Hour) })), []machine.Message{machine.Sweep{}}, false, nil},
		"abandoned, sweep":            {to(started(idle), nil), []machine.Message{machine.Sweep{}}, false, nil},
		"abandoned at a point, sweep": {to(started(atPoint, idle), started(atPoint, isAbandoned)), []machine.Message{machine.Sweep{}}, false, nil},
		"stored as abandoned, sweep": {to(
			started(over, func(r *backend.Record) { r.Response = backend.Response{Tombstone: backend.Abandoned} }),
			started(over, func(r *backend.Record) {
				r.Response, r.ExpiresAt = backend.Response{Tombstone: backend.Abandoned}, time.Time{}
			}),
		), []machine.Message{machine.Sweep{}}, false, nil},
		"tombstone abandoned, sweep and claim": {same(started(atPoint, isAbandoned)), []machine.Message{machine.Sweep{}, claim(2), claim(1)}, false, nil},
		"tombstone abandoned, Revive": {
			to(started(atPoint, isAbandoned), started(atPoint, resumedBy(2), func(r *backend.Record) { r.ExpiresAt = at.Add(3*time.Hour + 20*time.Second) })),
			[]machine.Message{claim(2, reviving), claim(2, reviving, refusing)},
			true, nil,
		},
		"tombstone abandoned, Revive of another request": {same(started(atPoint, isAbandoned)), []machine.Message{claim(2, reviving, otherPath)}, false, nil},
		"completed or alive, Revive":                     {same(append(alive, started(completed))...), []machine.Message{claim(2, reviving)}, false, nil},
		"tombstone abandoned, late completion":           {same(started(atPoint, isAbandoned)), []machine.Message{complete(own, 3, 1)}, false, backend.ErrConflict},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, r := range row.records {
				for _, m := range row.messages {
					step(t, r[0], m, row.acquired, row.err, r[1])
				}
			}
		})
	}
}
