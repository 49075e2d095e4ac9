// Package crash kills processes between any two steps of the library, on every
// store that more than one process can use, and looks at what is left.
//
// A child process, which is the test binary again, runs one flow that has a step of
// every kind (flow_test.go). The backend it uses is wrapped so that all its methods are
// points where it can end (points_test.go), as are the effects of the steps, the foreign
// calls and the answer: what the points are is found out by going through the flow once.
// The tests play the system at the far side, which counts (farside_test.go).
//
// The memory backend has no process that could be killed: it dies with its user.
package crash

import (
	"flag"
	"testing"

	"go.uber.org/goleak"

	"github.com/idem-go/idem/internal/testenv"
)

// Most tests wait for a lease to end: more of them run at once than there are
// processors. go-redis looks for a server that was down also a last time after Close.
func TestMain(m *testing.M) {
	if playChild() {
		return
	}
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("8") // a number
	}
	testenv.Main(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}
