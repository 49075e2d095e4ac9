package bench

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// op does one unit of work; n is different for every call of a benchmark.
type op func(ctx context.Context, n int64) error

// compare runs floor and path in turns, a chunk each, on as many workers, and
// reports how much longer the path takes.
func compare(b *testing.B, workers int, floor, path op) {
	b.Helper()
	const chunk = 64
	var n atomic.Int64
	var spent [2]time.Duration
	turn := func(which int, f op, count int) {
		var wg sync.WaitGroup
		var left atomic.Int64
		left.Store(int64(count))
		start := time.Now()
		for range workers {
			wg.Go(func() {
				for left.Add(-1) >= 0 {
					if err := f(b.Context(), n.Add(1)); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		spent[which] += time.Since(start)
	}
	turn(0, floor, chunk) // connections, statements and caches are warm for both
	turn(1, path, chunk)
	spent = [2]time.Duration{}
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; done += chunk {
		turn(0, floor, min(chunk, b.N-done))
		turn(1, path, min(chunk, b.N-done))
	}
	b.StopTimer()
	b.ReportMetric(float64(spent[1])/float64(spent[0]), "ratio")
	b.ReportMetric(float64(spent[0].Microseconds())/float64(b.N), "floor-µs/op")
	b.ReportMetric(float64(spent[1].Microseconds())/float64(b.N), "path-µs/op")
	b.ReportMetric(0, "ns/op") // both together: means nothing
}

// run is this process's part of the keys, so that none repeats.
var run = fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano())

func request(n int64) idem.Request {
	return idem.Request{
		Scope:     idem.Scope{Tenant: "bench", Actor: "worker"},
		Key:       fmt.Sprintf("%s-%d", run, n),
		Operation: "POST /payments",
		Method:    "POST",
		Path:      "/payments",
		Content:   idem.Content{Type: "application/json", Body: body},
	}
}

var (
	body   = []byte(`{"amount":500,"currency":"EUR","reference":"an order of ordinary length"}`)
	answer = idem.Response{Status: 201, Header: []byte("Content-Type: application/json\r\n"), Body: []byte(`{"id":"p-1","state":"paid"}`)}
)

func leased(ex *idem.Executor) op {
	return func(ctx context.Context, n int64) error {
		_, err := idem.Do(ctx, ex, request(n), func(context.Context, *idem.Run) (idem.Response, error) { return answer, nil })
		return err
	}
}

// replay answers the same completed key again and again.
func replay(b *testing.B, ex *idem.Executor) op {
	b.Helper()
	if err := leased(ex)(b.Context(), -1); err != nil {
		b.Fatal(err)
	}
	return func(ctx context.Context, _ int64) error {
		res, err := idem.Do(ctx, ex, request(-1), func(context.Context, *idem.Run) (idem.Response, error) { return answer, nil })
		if err == nil && !res.Replayed {
			return fmt.Errorf("not a replay")
		}
		return err
	}
}
