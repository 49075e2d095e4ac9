package backend_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
)

func TestCloneSharesNoBytes(t *testing.T) {
	t.Parallel()
	bytes := func() []byte { return []byte("bytes") }
	r := backend.Record{State: bytes(), Payload: bytes(), Response: backend.Response{Header: bytes(), Body: bytes()}}
	c := r.Clone()
	if !reflect.DeepEqual(c, r) {
		t.Errorf("Clone = %+v, want %+v", c, r)
	}
	for _, b := range [][]byte{c.State, c.Payload, c.Response.Header, c.Response.Body} {
		b[0] = '#'
	}
	for _, b := range [][]byte{r.State, r.Payload, r.Response.Header, r.Response.Body} {
		if string(b) != "bytes" {
			t.Errorf("a change of the clone made %q of the original", b)
		}
	}
}

func TestResponseEqual(t *testing.T) {
	t.Parallel()
	r := backend.Response{Tombstone: backend.TooLarge, Status: 200, Header: []byte("h"), Body: []byte("b")}
	for what, change := range map[string]func(o *backend.Response){
		"tombstone": func(o *backend.Response) { o.Tombstone = "" },
		"status":    func(o *backend.Response) { o.Status = 201 },
		"header":    func(o *backend.Response) { o.Header = []byte("H") },
		"body":      func(o *backend.Response) { o.Body = nil },
	} {
		o := r
		change(&o)
		if r.Equal(o) || !r.Equal(r) {
			t.Errorf("Equal with another %s: want false, and true with itself", what)
		}
	}
	if !(backend.Response{}).Equal(backend.Response{Header: []byte{}, Body: []byte{}}) {
		t.Error("Equal(nil, empty) = false, want true")
	}
	if r.Size() != 2 {
		t.Errorf("Size = %d, want 2", r.Size())
	}
}

func TestStatusString(t *testing.T) {
	t.Parallel()
	for s, want := range map[backend.Status]string{backend.Started: "started", backend.Completed: "completed", 0: "invalid", 9: "invalid"} {
		if got := s.String(); got != want {
			t.Errorf("Status(%d).String() = %q, want %q", s, got, want)
		}
	}
}

// The limits themselves are valid, one more is not. What else a claim must not be
// is in the conformance suite.
func TestValidateLimits(t *testing.T) {
	t.Parallel()
	valid := func() backend.Claim {
		return backend.Claim{
			Key: backend.Key{Tenant: "t", Actor: "a", Value: "v"}, ID: backend.ClaimID{1}, Operation: "op",
			Fingerprints: []backend.Fingerprint{{Version: "v1"}},
			Lease:        backend.MinDuration, Retention: time.Hour, Abandon: backend.MaxDuration,
		}
	}
	if err := valid().Validate(); err != nil {
		t.Fatalf("Validate = %v, want nil", err)
	}
	for what, set := range map[string]func(c *backend.Claim, more int){
		"tenant":    func(c *backend.Claim, more int) { c.Key.Tenant = strings.Repeat("x", backend.MaxKeyPart+more) },
		"actor":     func(c *backend.Claim, more int) { c.Key.Actor = strings.Repeat("x", backend.MaxKeyPart+more) },
		"key":       func(c *backend.Claim, more int) { c.Key.Value = strings.Repeat("x", backend.MaxKeyPart+more) },
		"operation": func(c *backend.Claim, more int) { c.Operation = strings.Repeat("x", backend.MaxKeyPart+more) },
		"method":    func(c *backend.Claim, more int) { c.Target.Method = strings.Repeat("x", backend.MaxMethod+more) },
		"path":      func(c *backend.Claim, more int) { c.Target.Path = strings.Repeat("x", backend.MaxPath+more) },
		"version": func(c *backend.Claim, more int) {
			c.Fingerprints[0].Version = strings.Repeat("x", backend.MaxVersion+more)
		},
		"fingerprints": func(c *backend.Claim, more int) {
			for len(c.Fingerprints) < backend.MaxVersions+more {
				c.Fingerprints = append(c.Fingerprints, c.Fingerprints[0])
			}
		},
		"payload":   func(c *backend.Claim, more int) { c.Payload = make([]byte, backend.MaxPayload+more) },
		"abandon":   func(c *backend.Claim, more int) { c.Abandon = backend.MaxDuration + time.Duration(more) },
		"lease":     func(c *backend.Claim, more int) { c.Lease = backend.MinDuration - time.Duration(more) },
		"retention": func(c *backend.Claim, more int) { c.Lease = c.Retention + time.Duration(more) },
		"wait":      func(c *backend.Claim, more int) { c.Wait = -time.Duration(more) },
	} {
		c := valid()
		set(&c, 0)
		if err := c.Validate(); err != nil {
			t.Errorf("Validate(%s at its limit) = %v, want nil", what, err)
		}
		c = valid()
		set(&c, 1)
		if err := c.Validate(); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("Validate(%s over its limit) = %v, want ErrInvalid", what, err)
		}
	}
	for limit, want := range map[int]error{0: backend.ErrInvalid, 1: nil, backend.MaxSweepRows: nil, backend.MaxSweepRows + 1: backend.ErrInvalid} {
		if err := backend.ValidateSweep(limit); !errors.Is(err, want) {
			t.Errorf("ValidateSweep(%d) = %v, want %v", limit, err, want)
		}
	}
}

func TestValidateStatus(t *testing.T) {
	t.Parallel()
	l := backend.Lease{Key: backend.Key{Tenant: "t", Actor: "a", Value: "v"}, ClaimID: backend.ClaimID{1}}
	most := backend.MaxStatus
	for status, want := range map[int]error{-1: backend.ErrInvalid, 0: nil, most: nil, most + 1: backend.ErrInvalid} {
		c := backend.Completion{Sequence: 1, Response: backend.Response{Status: status}}
		if err := c.Validate(l, 0); !errors.Is(err, want) {
			t.Errorf("Completion.Validate(status %d) = %v, want %v", status, err, want)
		}
	}
}

func TestValidateSizes(t *testing.T) {
	t.Parallel()
	l := backend.Lease{Key: backend.Key{Tenant: "t", Actor: "a", Value: "v"}, ClaimID: backend.ClaimID{1}}
	for _, tt := range []struct {
		size, limit int64
		want        error
	}{{10, 10, nil}, {11, 10, backend.ErrTooLarge}, {1 << 20, 0, nil}} {
		body := make([]byte, tt.size)
		c := backend.Completion{Sequence: 1, Response: backend.Response{Header: body[:1], Body: body[1:]}}
		if err := c.Validate(l, tt.limit); !errors.Is(err, tt.want) {
			t.Errorf("Completion.Validate(%d bytes, limit %d) = %v, want %v", tt.size, tt.limit, err, tt.want)
		}
		p := backend.Checkpoint{Sequence: 1, Point: "p", State: body}
		if err := p.Validate(l, tt.limit); !errors.Is(err, tt.want) {
			t.Errorf("Checkpoint.Validate(%d bytes, limit %d) = %v, want %v", tt.size, tt.limit, err, tt.want)
		}
	}
}
