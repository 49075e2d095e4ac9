package crash

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
)

// patience is a lease that no process loses because the machine is busy. Nothing but
// two takeovers of each store waits for it.
const patience = 8 * time.Second

// crash is one request, and the points at which its attempts are killed, one after the
// other.
type crash struct {
	key    string
	points []string // what its first attempt comes by
	kills  []string
}

// Field report 1, hard cases 5 to 7: a process is killed at every point that a flow
// comes by, and once more at those that only a second attempt comes by. Whoever retries
// after the lease gets the right answer, and the effects are what each kind of step
// promises.
func TestKilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			v := newService(t, p.at(t), patience)
			cases := v.cases(t)
			wantAllMethods(t, v, cases)
			v.kill(t, cases)
			var keys []string
			for _, c := range cases {
				keys = append(keys, c.key)
			}
			j := v.job(keys...)
			j.AtOnce = 8
			got := answers(v.run(t, j))
			for _, c := range cases {
				if flowOf(c.key) == once {
					v.checkOnce(t, c, got[c.key])
				} else {
					v.check(t, c, got[c.key])
				}
			}
			t.Logf("%d requests, killed at %d points", len(cases), len(distinct(cases)))
		})
	}
}

// cases goes through every flow once, and makes a crash of every point it comes by.
func (v *service) cases(t *testing.T) (all []crash) {
	t.Helper()
	flows := []string{leased, failing, renewed, once}
	if v.s.tx != nil {
		flows = append(flows, completed, transaction)
	}
	for _, flow := range flows {
		add := func(points []string, kills ...string) {
			all = append(all, crash{fmt.Sprintf("%s-%04d", flow, len(all)), points, kills})
		}
		var points []string
		j := v.job(flow + "-points")
		j.Tell = true
		for _, l := range v.run(t, j) {
			if l.Point != "" {
				points = append(points, l.Point)
			}
		}
		for _, point := range points {
			switch of := func(name string) bool { return strings.HasPrefix(point, name) }; {
			case flow == failing && !of("Release"), flow == renewed && point != "Renew/before" && point != "Renew/after":
				// as in the first flow
			case flow != renewed && of("Renew"), of("Release") && flow != failing:
				t.Logf("%s came by %s", flow, point) // a machine that is busy
			default:
				add(points, point)
			}
		}
		if flow != leased {
			continue
		}
		for _, second := range []string{"inquiry/before", "inquiry/after", "Checkpoint transfer/before", "Checkpoint transfer/after"} {
			add(points, "transfer/after", second)
		}
		add(points, "transfer/before", "transfer/after") // after "never"
		for _, second := range []string{"charge/before", "charge/after", "Checkpoint charge/before", "Checkpoint charge/after"} {
			add(points, "charge/after", second)
		}
	}
	return all
}

// kill has all requests killed, each as often as it should be.
func (v *service) kill(t *testing.T, cases []crash) {
	t.Helper()
	for round := 0; ; round++ {
		var wg sync.WaitGroup
		atOnce := make(chan struct{}, 4<<(2*round)) // the second round waits for a lease
		n := 0
		for _, c := range cases {
			if round >= len(c.kills) {
				continue
			}
			n++
			atOnce <- struct{}{}
			wg.Go(func() {
				defer func() { <-atOnce }()
				j := v.job(c.key)
				j.Point = c.kills[round]
				lines, err := start(t, j).rest(t)
				if err == nil || !killed(err) {
					t.Errorf("%s: a child that should be killed at %s ended with %v, %+v", c.key, j.Point, err, lines)
				}
				if a, ok := answers(lines)[c.key]; ok && a.Err == "" && flowOf(c.key) != once {
					v.wantEffects(t, c.key) // never none after an answer
				}
			})
		}
		wg.Wait()
		if n == 0 {
			return
		}
	}
}

// index is where the flow comes by a point for the first time, or past all of them.
func (c crash) index(point string) int {
	if i := slices.Index(c.points, point); i >= 0 {
		return i
	}
	return len(c.points)
}

// between reports whether the first kill was after one point and before another, both
// included.
func (c crash) between(first, last string) bool {
	i := c.index(c.kills[0])
	return c.index(first) <= i && i <= c.index(last)
}

// attempts is how many there are: killed ones that got the key, and the one that
// answers.
func (c crash) attempts() int {
	last := "Complete/before"
	switch flowOf(c.key) {
	case transaction:
		return 1 // nothing is left of one that was killed
	case completed:
		last = "InLease's step/after#2"
	}
	if c.between("Claim/after", last) {
		return 1 + len(c.kills)
	}
	return 1
}

func (v *service) check(t *testing.T, c crash, got line) {
	t.Helper()
	if got.Err != "" || got.Value != answerOf(c.key) || got.Attempt != c.attempts() {
		t.Errorf("%s, killed at %q: answered with %+v, want %q by attempt %d", c.key, c.kills, got, answerOf(c.key), c.attempts())
	}
	v.wantEffects(t, c.key)
	v.wantReplay(t, c.key, c.attempts())
	if len(c.kills) > 1 || flowOf(c.key) == transaction || flowOf(c.key) == renewed {
		return
	}
	// No step runs again whose recovery point is there.
	for _, what := range []string{"create", "charge", "transfer", "note"} {
		want := 1
		switch {
		case what == "create" && v.s.tx != nil:
			want = 0
		case what == "note" && flowOf(c.key) == failing:
			want = 2
		case what != "transfer" && c.between(what+"/after", "Checkpoint "+what+"/before"):
			want = 2
		}
		if asked, _, _ := v.count(what, c.key); asked != want {
			t.Errorf("%s, killed at %q: %q was asked for %d times, want %d", c.key, c.kills, what, asked, want)
		}
	}
}

// checkOnce: between the mark and the result of a call that may not be sent twice
// nobody knows what became of it, and it is for a person to find out.
func (v *service) checkOnce(t *testing.T, c crash, got line) {
	t.Helper()
	if !c.between("Checkpoint once (sent)/after", "Checkpoint once/before") {
		if got.Err != "" || got.Value != answerOf(c.key) || got.Attempt != c.attempts() {
			t.Errorf("%s, killed at %q: answered with %+v, want %q by attempt %d", c.key, c.kills, got, answerOf(c.key), c.attempts())
		}
		v.wantReplay(t, c.key, c.attempts())
		v.wantDone(t, "once", c.key, 1, 1)
		return
	}
	sent := 0
	if !c.between("Checkpoint once (sent)/after", "once/before") {
		sent = 1
	}
	if got.Err != "needs resolution" {
		t.Errorf("%s, killed at %q: answered with %+v, want that it needs resolution", c.key, c.kills, got)
	}
	for range 2 {
		_, err := idem.Do(t.Context(), v.e, request(c.key), func(ctx context.Context, run *idem.Run) (string, error) {
			return idem.Call(ctx, run, "once", idem.Foreign[string]{Do: func(ctx context.Context, k string) (string, error) {
				return far{v.url, c.key}.do(ctx, "once", k)
			}, Once: true})
		})
		if kind(err) != "needs resolution" {
			t.Errorf("%s: Do at last = %v, want ErrNeedsResolution", c.key, err)
		}
	}
	v.wantDone(t, "once", c.key, sent, sent)
}

// wantAllMethods finds the step of a backend that no process is killed at.
func wantAllMethods(t *testing.T, v *service, cases []crash) {
	t.Helper()
	covered := map[string]bool{
		"Get": true, "Describe": true, // they only read
		"Sweep": true, // no part of a request; every record of its own is one step
		"Bind":  true, // no step
	}
	for _, c := range cases {
		for _, point := range c.kills {
			name, _, _ := strings.Cut(strings.ReplaceAll(point, "/", " "), " ")
			covered[name] = true
		}
	}
	contract := reflect.TypeFor[backend.Backend]()
	if v.s.tx != nil {
		contract = reflect.TypeFor[backend.Transactor[any]]()
	}
	for m := range contract.Methods() {
		if !covered[m.Name] {
			t.Errorf("no process is killed at %s", m.Name)
		}
	}
}

// A power of a backend that is not watched is one that no process is killed in.
func TestAllPowersAreWatched(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("..", "..", "backend", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var powers []string
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok && spec.Name.IsExported() {
				if _, ok := spec.Type.(*ast.InterfaceType); ok {
					powers = append(powers, spec.Name.Name)
				}
			}
			return true
		})
	}
	slices.Sort(powers)
	// Lister is no part of a request: it reads, for those that look for what was left.
	if want := []string{"Backend", "Lister", "Transactor", "TxView", "Waiter"}; !slices.Equal(powers, want) {
		t.Errorf("package backend has the interfaces %q, and %q are known here: give a new one to watch in points_test.go, and a flow that needs it", powers, want)
	}
}

// distinct are the points of all cases.
func distinct(cases []crash) map[string]bool {
	m := make(map[string]bool)
	for _, c := range cases {
		for _, p := range c.kills {
			m[flowOf(c.key)+" "+p] = true
		}
	}
	return m
}

// never is an effect that must not run.
func never(t *testing.T, key string) func(context.Context, *idem.Run) (string, error) {
	return func(context.Context, *idem.Run) (string, error) {
		t.Errorf("%s: the effect ran again", key)
		return "", nil
	}
}
