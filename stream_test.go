package idem_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/memory"
)

// deaf is a store that answers no renewal.
type deaf struct{ *memory.Backend }

func (deaf) Renew(context.Context, backend.Lease, time.Duration) error { return errors.New("deaf") }

// Nobody can take over what Stream has completed: an answer on its way is not cut off
// because the store can't be reached.
func TestStreamOutlastsTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := idem.New(deaf{memory.New()}, idem.WithLease(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		_, err = idem.Do(t.Context(), e, request("key-0001"), func(ctx context.Context, run *idem.Run) (string, error) {
			if err := run.Stream(ctx, idem.Response{Status: 200}); err != nil {
				return "", err
			}
			time.Sleep(time.Minute)
			return "", ctx.Err()
		})
		if err != nil {
			t.Errorf("Do() of an answer that takes longer than the lease = %v, want nil", err)
		}
	})
}
