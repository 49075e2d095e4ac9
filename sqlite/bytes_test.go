package sqlite_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/sqlite"
)

// holder is a backend and a lease of it.
type holder struct {
	*sqlite.Backend
	lease backend.Lease
}

// A caller whose context ended has its bytes back, and uses the buffer for somebody
// else's answer. The write that is under way stores what was given to it.
func TestBufferReusedWhileWriting(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		write  func(context.Context, *holder, []byte) error
		stored func(backend.Record) []byte
	}{
		"complete": {
			func(ctx context.Context, b *holder, p []byte) error {
				return b.Complete(ctx, b.lease, backend.Completion{Sequence: 1, Response: backend.Response{Header: p[:4], Body: p}})
			},
			func(r backend.Record) []byte { return append(r.Response.Header[:4:4], r.Response.Body[4:]...) },
		},
		"checkpoint": {
			func(ctx context.Context, b *holder, p []byte) error {
				return b.Checkpoint(ctx, b.lease, backend.Checkpoint{Sequence: 1, Point: "p", State: p})
			},
			func(r backend.Record) []byte { return r.State },
		},
		"claim": {
			func(ctx context.Context, b *holder, p []byte) error {
				c := claimOf("other")
				c.Payload = p
				_, err := b.Claim(ctx, c)
				b.lease.Key = c.Key
				return err
			},
			func(r backend.Record) []byte { return r.Payload },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, _ := fresh(t)
			b := &holder{store, mustClaim(t, store, claimOf("key")).Holder()}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			writing, goOn := make(chan struct{}), make(chan struct{})
			var once sync.Once
			store.SetClock(func() time.Time { // the transaction has begun when it asks for the time
				once.Do(func() {
					close(writing)
					<-goOn
				})
				return time.UnixMicro(time.Now().UnixMicro())
			})
			buffer := []byte("one's own")
			got := make(chan error, 1)
			go func() { got <- tt.write(ctx, b, buffer) }()
			<-writing
			cancel()
			if err := <-got; err == nil || backend.NotApplied(err) {
				t.Errorf("a write that was under way = %v, want an unknown outcome", err)
			}
			copy(buffer, "another's")
			close(goOn)
			eventually(t, "the write ends", func() bool { return !store.Flushing() })
			r, err := store.Get(t.Context(), b.lease.Key)
			if s := string(tt.stored(r)); err != nil || s != "one's own" {
				t.Errorf("stored is %q, %v, want what the caller gave", s, err)
			}
		})
	}
}
