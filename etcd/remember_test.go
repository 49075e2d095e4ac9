package etcd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
)

// A claim to be remembered is refused before anything is sent: this store would forget
// it, and a late retry would be a second run.
func TestRememberIsRefused(t *testing.T) {
	t.Parallel()
	c := backend.Claim{
		Key: backend.Key{Tenant: "t", Actor: "a", Value: "key"}, ID: backend.ClaimID{1}, Operation: "op",
		Fingerprints: []backend.Fingerprint{{Version: "1"}},
		Lease:        time.Second, Retention: time.Hour, Abandon: time.Hour,
	}
	if err := validate(c); err != nil {
		t.Fatalf("validate(nothing to remember) = %v, want nil", err)
	}
	c.Remember = time.Millisecond
	ctx := context.Background()
	for name, claim := range map[string]func() error{
		"Claim": func() error {
			_, err := new(Backend).Claim(ctx, c)
			return err
		},
	} {
		if err := claim(); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("%s(remember) = %v, want ErrInvalid", name, err)
		}
	}
}
