//go:build unix

package crash

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Field reports 3 and 4, hard cases 2, 5 and 9: a process is stopped past its lease and
// another one takes over and answers. When the first goes on, its late recovery point
// and its late answer are refused, its context has ended with the lease lost, and what
// it had not sent it doesn't send.
func TestPausedPastTheLease(t *testing.T) {
	t.Parallel()
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			v := newService(t, p.at(t), 3*time.Second)
			for name, c := range pauses(v) {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					c.check(t, v)
				})
			}
		})
	}
}

// pause is where a process is stopped and what comes of it.
type pause struct {
	key, point string
	refused    string // what the store refuses when it goes on; empty: it need not be asked
	completes  bool   // the effect had ended, and its context is not looked at
	what       string // a call of the flow
	asked      int    // how often the far side gets it from both processes
}

func pauses(v *service) map[string]pause {
	all := map[string]pause{
		"before a recovery point": {key: "leased-pause-1", point: "Checkpoint note/before", refused: "Checkpoint note", what: "note", asked: 2},
		"before a call is marked": {key: "leased-pause-2", point: "Checkpoint charge (sent)/before", refused: "Checkpoint charge (sent)", what: "charge", asked: 1},
		"before a call is sent":   {key: "leased-pause-3", point: "Checkpoint charge (sent)/after", what: "charge", asked: 1},
		"with a call sent":        {key: "leased-pause-4", point: "transfer/after", refused: "Checkpoint transfer", what: "transfer", asked: 1},
		"before the completion":   {key: "leased-pause-5", point: "Complete/before", refused: "Complete", what: "note", asked: 1, completes: true},
	}
	if v.s.tx != nil {
		all["before the first transaction"] = pause{key: "leased-pause-6", point: "InLease/before", what: "charge", asked: 1}
		all["before the last transaction"] = pause{key: "completed-pause-7", point: "InLease/before#2", what: "note", asked: 1}
	}
	return all
}

func (p pause) check(t *testing.T, v *service) {
	t.Helper()
	j := v.job(p.key)
	j.Point, j.Stop, j.Tell = p.point, true, true
	first := start(t, j)
	for l, ok := first.next(t); l.Point != p.point; l, ok = first.next(t) {
		if !ok {
			t.Fatalf("the process ended before %s", p.point)
		}
	}
	second := answers(v.run(t, v.job(p.key)))[p.key]
	if second.Err != "" || second.Value != answerOf(p.key) || second.Attempt != 2 {
		t.Errorf("the process that took over answers %+v, want %q by attempt 2", second, answerOf(p.key))
	}
	if err := first.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if _, err := first.stdin.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	lines, err := first.rest(t)
	if err != nil {
		t.Errorf("the process that was stopped ended with %v", err)
	}
	const lost = "lease lost"
	if got := answers(lines)[p.key]; got.Err != lost || got.Value != "" {
		t.Errorf("the process that was stopped answers %+v, want that its lease is lost", got)
	}
	refused := func(l line) bool { return strings.HasPrefix(l.Point, p.refused+"/after") && l.Err == lost }
	if p.refused != "" && !slices.ContainsFunc(lines, refused) {
		t.Errorf("after the pause: %+v, want %s refused", lines, p.refused)
	}
	if !p.completes && !slices.Contains(lines, line{Cause: lost}) {
		t.Errorf("after the pause: %+v, want a context that ended with the lease lost", lines)
	}
	if asked, _, _ := v.count(p.what, p.key); asked != p.asked {
		t.Errorf("the far side got %q %d times, want %d", p.what, asked, p.asked)
	}
	v.wantEffects(t, p.key)
	v.wantReplay(t, p.key, 2)
}
