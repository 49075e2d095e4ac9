package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/postgres"
)

// everything does all that a backend can do, once. It returns what is wrong.
func everything(ctx context.Context, b *postgres.Backend, key string) error {
	c := request(key)
	c.Payload = []byte("payload")
	got, err := b.Claim(ctx, c)
	if err != nil || !got.Acquired {
		return fmt.Errorf("claim: acquired %v: %w", got.Acquired, err)
	}
	l := got.Record.Holder()
	if err := errors.Join(b.Renew(ctx, l, time.Hour),
		b.Checkpoint(ctx, l, backend.Checkpoint{Sequence: 1, Point: "point", State: []byte{0, 0xff}}),
		b.Release(ctx, l)); err != nil {
		return err
	}
	c.ID = newID()
	if got, err = b.Claim(ctx, c); err != nil || !got.Acquired || got.Record.Attempt != 2 || !bytes.Equal(got.Record.State, []byte{0, 0xff}) {
		return fmt.Errorf("resume: %+v: %w", got, err)
	}
	l = got.Record.Holder()
	if _, err := b.InLease(ctx, l, 1, stepTo(key)); err != nil {
		return err
	}
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	if err := b.Complete(ctx, l, backend.Completion{Sequence: 2, Response: backend.Response{Status: 200, Body: all}}); err != nil {
		return err
	}
	r, err := b.Get(ctx, c.Key)
	if err != nil || r.Status != backend.Completed || !bytes.Equal(r.Response.Body, all) || len(r.Response.Header) != 0 {
		return fmt.Errorf("get: %+v: %w", r, err)
	}
	if d := r.ExpiresAt.Sub(r.CompletedAt); d < c.Retention || d > c.Retention+c.Lease+time.Minute {
		return fmt.Errorf("expires %v after completion, want %v and some", d, c.Retention)
	}
	t := request(key + "-transact")
	for _, undo := range []bool{true, false} {
		t.Key.Value += "x"
		got, err = b.Transact(ctx, t, func(ctx context.Context, tx pgx.Tx, h backend.Claimed) (backend.Effect, error) {
			eff, err := writes("x")(ctx, tx, h)
			eff.Undo = undo
			return eff, err
		})
		if err != nil || !got.Acquired {
			return fmt.Errorf("transact: acquired %v: %w", got.Acquired, err)
		}
	}
	_, err = b.Sweep(ctx, 10)
	return err
}

// PG-24, PG-19: everything works in every mode of pgx, whatever the session's
// settings of dates and times.
func TestModes(t *testing.T) {
	t.Parallel()
	_, pool, srv := migrated(t)
	effectsTable(t, pool)
	for name, m := range modes {
		for i, settings := range []map[string]string{
			{},
			{"TimeZone": "Pacific/Chatham", "DateStyle": "SQL, DMY", "IntervalStyle": "sql_standard", "extra_float_digits": "0", "synchronous_commit": "off"},
		} {
			t.Run(fmt.Sprintf("%s, settings %d", name, i), func(t *testing.T) {
				t.Parallel()
				b := newBackend(t, open(t, srv.URL, mode(m), func(c *pgxpool.Config) { maps.Copy(c.ConnConfig.RuntimeParams, settings) }))
				if err := everything(t.Context(), b, t.Name()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// PG-19, field report 28: through PgBouncer in transaction mode, with 20 clients on
// its five connections.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t)
	url := testenv.PgBouncer(t, srv)
	migration := open(t, url, mode(pgx.QueryExecModeExec))
	if err := postgres.Migrate(t.Context(), migration); err != nil {
		t.Fatalf("Migrate through PgBouncer = %v, want nil", err)
	}
	effectsTable(t, migration)
	var wg sync.WaitGroup
	for _, name := range []string{"cache_describe", "exec", "simple_protocol"} {
		b := newBackend(t, open(t, url, mode(modes[name]), size(20)))
		for i := range 20 {
			wg.Go(func() {
				for j := range 4 {
					if err := everything(t.Context(), b, fmt.Sprintf("%s-%d-%d", name, i, j)); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
			})
		}
	}
	wg.Wait()
}

// Finding PG-20: a session that doesn't wait for its disk does so for idem's
// transactions.
func TestSynchronousCommitIsOverruled(t *testing.T) {
	t.Parallel()
	_, pool, srv := migrated(t)
	effectsTable(t, pool)
	b := newBackend(t, open(t, srv.URL, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["synchronous_commit"] = "off" }))
	got := ""
	_, err := b.Transact(t.Context(), request("key"), func(ctx context.Context, tx pgx.Tx, _ backend.Claimed) (backend.Effect, error) {
		return backend.Effect{Response: response("")}, tx.QueryRow(ctx, `SHOW synchronous_commit`).Scan(&got)
	})
	if err != nil || got != "on" {
		t.Errorf("synchronous_commit in a transaction = %q, %v, want on", got, err)
	}
	d, err := b.Describe(t.Context())
	if err != nil || !d.Capabilities.DurableKill || !slices.ContainsFunc(d.Findings, func(f backend.Finding) bool {
		return f.ID == "postgres/synchronous_commit" && f.Severity == backend.Warning
	}) {
		t.Errorf("Describe = durable %v, findings %v, %v, want durable and a warning", d.Capabilities.DurableKill, d.Findings, err)
	}
}

// PG-25, PG-26, field reports 14 and 15: keys are bytes, and their parts are not
// joined.
func TestKeysAreBytes(t *testing.T) {
	t.Parallel()
	b, pool, _ := migrated(t)
	keys := []backend.Key{
		{Tenant: "t", Actor: "a", Value: "key"},
		{Tenant: "t", Actor: "a", Value: "KEY"},
		{Tenant: "t", Actor: "a", Value: "key "},
		{Tenant: "t", Actor: "a", Value: " key"},
		{Tenant: "t", Actor: "a", Value: "\u00e9"},
		{Tenant: "t", Actor: "a", Value: "e\u0301"},
		{Tenant: "t:a", Actor: "b", Value: "key"},
		{Tenant: "t", Actor: "a:b", Value: "key"},
		{Tenant: "T", Actor: "a", Value: "key"},
		{Tenant: "t", Actor: "A", Value: "key"},
		{Tenant: `t\`, Actor: "'a'", Value: "$1; DROP TABLE idem_keys"},
		{Tenant: "t", Actor: "a", Value: "123e4567-e89b-12d3-a456-426614174000"},
		{Tenant: "t", Actor: "a", Value: "{123E4567-E89B-12D3-A456-426614174000}"},
		{Tenant: long('x'), Actor: long('y'), Value: long('z')},
		{Tenant: long('x'), Actor: long('y'), Value: long('w')},
	}
	for i, k := range keys {
		c := request("")
		c.Key = k
		r := acquire(t, b, c)
		if err := b.Complete(t.Context(), r.Holder(), completion(fmt.Sprint(i))); err != nil {
			t.Errorf("Complete(%q) = %v, want nil", k, err)
		}
	}
	for i, k := range keys {
		r, err := b.Get(t.Context(), k)
		if err != nil || r.Key != k || string(r.Response.Body) != fmt.Sprint(i) {
			t.Errorf("Get(%q) = %q of %q, %v, want %d", k, r.Response.Body, r.Key, err, i)
		}
	}
	if n := value[int](t, pool, `SELECT count(*) FROM idem_keys`); n != len(keys) {
		t.Errorf("records = %d, want %d", n, len(keys))
	}
	for _, bad := range []string{"", "a\x00b", "\xff", string(make([]byte, 256))} {
		c := request(bad)
		if _, err := b.Claim(t.Context(), c); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("Claim(%q) = %v, want ErrInvalid", bad, err)
		}
	}
}

// long is a key that does not compress, of the greatest length.
func long(seed byte) string {
	s := make([]byte, 0, backend.MaxKeyPart)
	for x := uint32(seed); len(s) < backend.MaxKeyPart; {
		x = x*1664525 + 1013904223
		s = append(s, "!#$%&()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_abcdefghijklmnopqrstuvwxyz{|}~"[(x>>16)%90])
	}
	return string(s)
}
