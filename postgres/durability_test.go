package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/postgres"
)

// PG-20: what was acknowledged survives a SIGKILL of the server, also where it is
// told not to wait for its disk. What was not committed leaves no trace.
func TestServerIsKilled(t *testing.T) {
	t.Parallel()
	srv := testenv.PostgresPrivate(t, "synchronous_commit=off", "wal_writer_delay=10s")
	pool := open(t, srv.URL)
	if err := postgres.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	effectsTable(t, pool)
	exec(t, pool, `CHECKPOINT`)
	b := newBackend(t, pool)
	claimed := acquire(t, b, request("claimed"))
	done := acquire(t, b, request("done"))
	if err := b.Complete(t.Context(), done.Holder(), completion("done")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Transact(t.Context(), request("transacted"), writes("transacted")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.InLease(t.Context(), claimed.Holder(), 1, stepTo("charged")); err != nil {
		t.Fatal(err)
	}
	c := request("interrupted")
	_, err := b.Transact(t.Context(), c, func(ctx context.Context, tx pgx.Tx, h backend.Claimed) (backend.Effect, error) {
		eff, err := writes("lost")(ctx, tx, h)
		srv.Kill(t)
		return eff, err
	})
	if err == nil {
		t.Error("Transact on a killed server = nil, want an error")
	}
	srv.Start(t)
	pool.Reset()
	if r := wantRecord(t, b, claimed.Key, backend.Started, ""); r.RecoveryPoint != "charged" || r.Token != claimed.Token {
		t.Errorf("claimed record = %q, token %d, want its recovery point and token", r.RecoveryPoint, r.Token)
	}
	wantRecord(t, b, done.Key, backend.Completed, "done")
	wantRecord(t, b, request("transacted").Key, backend.Completed, "transacted")
	wantNoRecord(t, b, c.Key)
	wantEffects(t, pool, 2)
	if _, err := b.Transact(t.Context(), c, writes("again")); err != nil {
		t.Errorf("Transact again = %v, want nil", err)
	}
}

// An effect that makes its transaction asynchronous, as bulk writes do, doesn't make
// an acknowledged COMMIT one that a crash can take back.
func TestEffectTurnsSynchronousCommitOff(t *testing.T) {
	t.Parallel()
	b, pool := withEffects(t)
	exec(t, pool, `CREATE FUNCTION refuse_async() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF current_setting('synchronous_commit') = 'off' THEN RAISE 'asynchronous'; END IF;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse_async()`)
	off := func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `SET LOCAL synchronous_commit = off; INSERT INTO effects (key) VALUES ('bulk')`)
		return err
	}
	_, err := b.Transact(t.Context(), request("transacted"), func(ctx context.Context, tx pgx.Tx, _ backend.Claimed) (backend.Effect, error) {
		return backend.Effect{Response: response("transacted")}, off(ctx, tx)
	})
	if err != nil {
		t.Errorf("Transact = %v, want nil", err)
	}
	l := acquire(t, b, request("stepped")).Holder()
	if _, err := b.InLease(t.Context(), l, 1, func(ctx context.Context, tx pgx.Tx) (backend.Step, error) {
		return backend.Step{Point: "p"}, off(ctx, tx)
	}); err != nil {
		t.Errorf("InLease = %v, want nil", err)
	}
	wantEffects(t, pool, 2)
}

// Field report 24: in a long transaction now() stands still; leases are judged by
// the clock of the statement, and granted by it.
func TestLongTransaction(t *testing.T) {
	t.Parallel()
	b, pool, _ := migrated(t)
	tx := begin(t, pool)
	exec2(t, tx, `SELECT now()`)
	old := request("key")
	old.Lease = 200 * time.Millisecond
	acquire(t, b, old)
	until(t, b, old.Key)
	c := request("key")
	c.Lease = time.Second
	r := claimIn(t, b, tx, c)
	if r.Attempt != 2 || r.LeaseLeft < 900*time.Millisecond {
		t.Errorf("Claim in a long transaction = attempt %d with %v left, want a takeover with a whole lease", r.Attempt, r.LeaseLeft)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Claim(t.Context(), request("key")); err != nil || got.Acquired {
		t.Errorf("Claim at once = acquired %v, %v, want it in progress", got.Acquired, err)
	}
}

// Field report 13, and 23: nothing but what was asked changes on completion, and a
// lapsed record is compared before it is taken over.
func TestMismatchAtEveryStage(t *testing.T) {
	t.Parallel()
	b, _, srv := migrated(t)
	for _, stage := range []string{"in flight", "lapsed", "released", "completed"} {
		c := request(stage)
		if stage == "lapsed" {
			c.Lease = time.Millisecond
		}
		l := acquire(t, b, c).Holder()
		var err error
		switch stage {
		case "lapsed":
			until(t, b, c.Key)
		case "released":
			err = errors.Join(b.Checkpoint(t.Context(), l, backend.Checkpoint{Sequence: 1, Point: "p"}), b.Release(t.Context(), l))
		case "completed":
			err = b.Complete(t.Context(), l, completion("x"))
		}
		if err != nil {
			t.Fatal(err)
		}
		cold := newBackend(t, open(t, srv.URL, size(1)))
		for part, change := range map[backend.Part]func(*backend.Claim){
			backend.Method:  func(c *backend.Claim) { c.Target.Method = "PUT" },
			backend.Path:    func(c *backend.Claim) { c.Target.Path += "/" },
			backend.Content: func(c *backend.Claim) { c.Fingerprints[0].Sum[31]++ },
			backend.Unknown: func(c *backend.Claim) { c.Fingerprints[0].Version = "v2" },
		} {
			other := request(stage)
			change(&other)
			got, err := cold.Claim(t.Context(), other)
			if err != nil || got.Acquired || other.Compare(got.Record) != part {
				t.Errorf("Claim with another %s, %s = acquired %v, differs in %q, %v, want not acquired", part, stage, got.Acquired, other.Compare(got.Record), err)
			}
		}
	}
}
