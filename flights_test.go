package idem_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/memory"
)

// slow is the context of a duplicate that waits in memory. It says when it does, and
// is late to look at the answer.
type slow struct {
	context.Context
	asked   atomic.Int32
	waiting chan struct{}
	look    chan struct{}
}

func (s *slow) Done() <-chan struct{} {
	switch s.asked.Add(1) {
	case 1:
		close(s.waiting)
	case 2:
		<-s.look
	}
	return s.Context.Done()
}

// The buffer of an answer goes back to its pool, and to another user's answer, when
// the call has returned. Duplicates that waited for it still get what it was.
func TestDuplicateOfAnAnswerInAPooledBuffer(t *testing.T) {
	e, err := idem.New(memory.New(), idem.WithWait(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	dup := &slow{Context: t.Context(), waiting: make(chan struct{}), look: make(chan struct{})}
	runs := make(chan struct{})
	got := make(chan string, 1)
	go func() {
		<-runs
		res, err := idem.Do(dup, e, request("key-0001"), func(context.Context, *idem.Run) (idem.Response, error) {
			t.Error("the effect ran twice")
			return idem.Response{}, nil
		})
		if err != nil || !res.Replayed {
			t.Errorf("Do() of a duplicate = %+v, %v, want a replay", res, err)
		}
		got <- string(res.Value.Body)
	}()
	buffer := []byte("mine")
	_, err = idem.Do(t.Context(), e, request("key-0001"), func(context.Context, *idem.Run) (idem.Response, error) {
		close(runs)
		<-dup.waiting
		return idem.Response{Status: 200, Body: buffer}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	copy(buffer, "hers")
	close(dup.look)
	if s := <-got; s != "mine" {
		t.Errorf("the duplicate got %q, want %q", s, "mine")
	}
}
