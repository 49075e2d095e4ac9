package idem_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/sqlite"
)

// bank is a database with a table of charges beside the records.
type bank struct {
	*sqlite.Backend
	db *sql.DB

	// transact, if set, stands in the way of Transact.
	transact func(ctx context.Context, c backend.Claim, effect txEffect) (backend.Claimed, error)
}

type txEffect = func(context.Context, *sql.Tx, backend.Claimed) (backend.Effect, error)

func (b *bank) Transact(ctx context.Context, c backend.Claim, effect txEffect) (backend.Claimed, error) {
	if b.transact != nil {
		return b.transact(ctx, c, effect)
	}
	return b.Backend.Transact(ctx, c, effect)
}

func openBank(t *testing.T) *bank {
	t.Helper()
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "bank.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := sqlite.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE charges (id TEXT) STRICT"); err != nil {
		t.Fatal(err)
	}
	b, err := sqlite.New(db)
	if err != nil {
		t.Fatal(err)
	}
	return &bank{Backend: b, db: db}
}

func (b *bank) charges(t *testing.T) int {
	t.Helper()
	var n int
	if err := b.db.QueryRowContext(t.Context(), "SELECT count(*) FROM charges").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (b *bank) wantCharges(t *testing.T, want int) {
	t.Helper()
	if n := b.charges(t); n != want {
		t.Errorf("%d charges, want %d", n, want)
	}
}

func newTx(t *testing.T, b backend.Transactor[*sql.Tx], opts ...idem.Option) *idem.TxExecutor[*sql.Tx] {
	t.Helper()
	e, err := idem.NewTx(b, opts...)
	if err != nil {
		t.Fatalf("NewTx() = %v", err)
	}
	return e
}

// charge is an effect that writes a charge and then ends as told.
func charge(answer string, err error) func(context.Context, *sql.Tx) (string, error) {
	return func(ctx context.Context, tx *sql.Tx) (string, error) {
		if _, err := tx.ExecContext(ctx, "INSERT INTO charges VALUES ('c')"); err != nil {
			return "", err
		}
		return answer, err
	}
}

func neverTx(t *testing.T) func(context.Context, *sql.Tx) (string, error) {
	return func(context.Context, *sql.Tx) (string, error) {
		t.Helper()
		t.Error("the effect ran")
		return "", nil
	}
}

func TestTxFirstAndReplay(t *testing.T) {
	b := openBank(t)
	var ev events
	e := newTx(t, b, idem.WithObserver(ev.observe))
	for _, replayed := range []bool{false, true} {
		res, err := idem.DoTx(t.Context(), e, request("key-0001"), charge("ok", nil))
		if err != nil || res.Value != "ok" || res.Replayed != replayed || res.Attempt != 1 {
			t.Errorf("DoTx = %+v, %v, want ok, Replayed %v", res, err, replayed)
		}
	}
	b.wantCharges(t, 1)
	ev.want(t, "acquired", "replayed")
	bad := request("key-0001")
	bad.Content.Body = nil
	_, err := idem.DoTx(t.Context(), e, bad, neverTx(t))
	wantError(t, "DoTx of another request", err, idem.ErrMismatch)
	// The leased path sees the same records.
	if res, err := idem.Do(t.Context(), e.Executor, request("key-0001"), never(t)); err != nil || res.Value != "ok" {
		t.Errorf("Do = %+v, %v, want the replay", res, err)
	}
}

func TestTxFailureUndoesEverything(t *testing.T) {
	b := openBank(t)
	var ev events
	e := newTx(t, b, idem.WithObserver(ev.observe))
	_, err := idem.DoTx(t.Context(), e, request("key-0001"), charge("", errBoom))
	if err != errBoom {
		t.Errorf("DoTx = %v, want the effect's error as it is", err)
	}
	func() {
		defer func() {
			if p := recover(); p != errBoom {
				t.Errorf("recover() = %v, want the effect's panic", p)
			}
		}()
		_, _ = idem.DoTx(t.Context(), e, request("key-0001"), func(ctx context.Context, tx *sql.Tx) (string, error) {
			_, _ = charge("", nil)(ctx, tx)
			panic(errBoom)
		})
	}()
	_, err = idem.DoTx(t.Context(), e, request("key-0001"), func(ctx context.Context, tx *sql.Tx) (func(), error) {
		_, err := charge("", nil)(ctx, tx)
		return func() {}, err
	})
	wantError(t, "DoTx with a value that does not encode", err, idem.ErrInvalid)
	b.wantCharges(t, 0)
	if _, err := b.Get(t.Context(), backend.Key{Tenant: "shop", Actor: "ada", Value: "key-0001"}); !errors.Is(err, idem.ErrNotFound) {
		t.Errorf("Get() = %v, want no record", err)
	}
	ev.want(t, "acquired", "released", "acquired", "released", "acquired", "released")
}

// Hard case 13: a refusal undoes the effect and is stored.
func TestTxReject(t *testing.T) {
	b := openBank(t)
	e := newTx(t, b)
	for i, effect := range []func(context.Context, *sql.Tx) (string, error){charge("", idem.Reject("no")), neverTx(t)} {
		res, err := idem.DoTx(t.Context(), e, request("key-0001"), effect)
		if err != nil || res.Value != "no" || res.Replayed != (i == 1) {
			t.Errorf("DoTx, call %d = %+v, %v, want the refusal", i, res, err)
		}
	}
	b.wantCharges(t, 0)
}

func TestTxOversize(t *testing.T) {
	b := openBank(t)
	e := newTx(t, b, idem.WithMaxResponse(3))
	if res, err := idem.DoTx(t.Context(), e, request("key-0001"), charge("long answer", nil)); err != nil || res.Value != "long answer" {
		t.Errorf("DoTx = %+v, %v, want the answer", res, err)
	}
	_, err := idem.DoTx(t.Context(), e, request("key-0001"), neverTx(t))
	wantError(t, "DoTx again", err, idem.ErrTombstone)
	b.wantCharges(t, 1)
}

func TestTxConcurrentRetries(t *testing.T) {
	b := openBank(t)
	e := newTx(t, b)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			res, err := idem.DoTx(t.Context(), e, request("key-0001"), charge("ok", nil))
			if err != nil || res.Value != "ok" {
				t.Errorf("DoTx = %+v, %v, want ok", res, err)
			}
		})
	}
	wg.Wait()
	b.wantCharges(t, 1)
}

// Hard case 10: a COMMIT whose reply was lost is found out by claiming again with
// the same claim id.
func TestTxCommitReplyLost(t *testing.T) {
	for name, tc := range map[string]struct {
		committed bool
		runs      int
	}{"committed": {true, 1}, "not committed": {false, 2}} {
		t.Run(name, func(t *testing.T) {
			b := openBank(t)
			var ids []backend.ClaimID
			b.transact = func(ctx context.Context, c backend.Claim, effect txEffect) (backend.Claimed, error) {
				ids = append(ids, c.ID)
				if len(ids) > 1 {
					return b.Backend.Transact(ctx, c, effect)
				}
				if tc.committed {
					_, _ = b.Backend.Transact(ctx, c, effect)
				} else {
					_, _ = b.Backend.Transact(ctx, c, func(ctx context.Context, tx *sql.Tx, held backend.Claimed) (backend.Effect, error) {
						_, _ = effect(ctx, tx, held)
						return backend.Effect{}, errBoom
					})
				}
				return backend.Claimed{}, errLost
			}
			runs := 0
			ctx, cancel := context.WithCancel(t.Context())
			res, err := idem.DoTx(ctx, newTx(t, b), request("key-0001"), func(ctx context.Context, tx *sql.Tx) (string, error) {
				runs++
				defer cancel() // a caller that goes away does not stop it
				return charge("ok", nil)(context.WithoutCancel(ctx), tx)
			})
			if err != nil || res.Value != "ok" || res.Replayed {
				t.Errorf("DoTx = %+v, %v, want its own answer", res, err)
			}
			if runs != tc.runs || len(ids) != 2 || ids[0] != ids[1] {
				t.Errorf("%d runs, claim ids %x, want %d runs and one id twice", runs, ids, tc.runs)
			}
			b.wantCharges(t, 1)
		})
	}
}

// An outcome that nobody can find out within a bound is unknown; before the effect
// ran it is unavailability.
func TestTxUnknownOutcome(t *testing.T) {
	b := openBank(t)
	var ev events
	b.transact = func(ctx context.Context, c backend.Claim, effect txEffect) (backend.Claimed, error) {
		if len(ev.s) == 0 {
			_, _ = b.Backend.Transact(ctx, c, effect)
			return backend.Claimed{}, errLost
		}
		return backend.Claimed{}, errDown
	}
	e := newTx(t, b, idem.WithLease(50*time.Millisecond), idem.WithObserver(ev.observe))
	_, err := idem.DoTx(t.Context(), e, request("key-0001"), charge("ok", nil))
	wantError(t, "DoTx", err, idem.ErrUnknownOutcome)
	if errors.Is(err, idem.ErrUnavailable) {
		t.Errorf("DoTx = %v, which claims that surely nothing was done", err)
	}
	ev.want(t, "acquired", "unknown")
	b.transact = nil
	if res, err := idem.DoTx(t.Context(), e, request("key-0001"), neverTx(t)); err != nil || res.Value != "ok" {
		t.Errorf("DoTx afterwards = %+v, %v, want the replay", res, err)
	}

	for _, lost := range []error{errLost, errDown} {
		b.transact = func(context.Context, backend.Claim, txEffect) (backend.Claimed, error) {
			return backend.Claimed{}, lost
		}
		_, err = idem.DoTx(t.Context(), e, request("key-0002"), neverTx(t))
		wantError(t, "DoTx on a store that is down", err, idem.ErrUnavailable)
		wantError(t, "DoTx on a store that is down", err, errLost)
	}
}

// Hard case 10: the effect may be called again after a proven rollback, within a
// bound.
func TestTxRetry(t *testing.T) {
	b := openBank(t)
	conflicts := 3
	b.transact = func(ctx context.Context, c backend.Claim, effect txEffect) (backend.Claimed, error) {
		return b.Backend.Transact(ctx, c, func(ctx context.Context, tx *sql.Tx, held backend.Claimed) (backend.Effect, error) {
			eff, err := effect(ctx, tx, held)
			if conflicts > 0 {
				conflicts--
				return eff, &backend.Error{Op: "test", Kind: backend.ErrRetryTx, Err: errLost}
			}
			return eff, err
		})
	}
	e := newTx(t, b)
	if res, err := idem.DoTx(t.Context(), e, request("key-0001"), charge("ok", nil)); err != nil || res.Value != "ok" {
		t.Errorf("DoTx = %+v, %v, want it to end well after three conflicts", res, err)
	}
	b.wantCharges(t, 1)
	conflicts = 1000
	_, err := idem.DoTx(t.Context(), e, request("key-0002"), charge("ok", nil))
	wantError(t, "DoTx that always conflicts", err, idem.ErrUnavailable)
	b.wantCharges(t, 1)
}

// A store that takes its time to say that it can't be asked is not asked four
// times over.
func TestTxUnavailableSlowly(t *testing.T) {
	t.Parallel()
	b := openBank(t)
	const lease = 200 * time.Millisecond
	tries := 0
	b.transact = func(context.Context, backend.Claim, txEffect) (backend.Claimed, error) {
		tries++
		for late := time.Now().Add(lease / 4); !time.Now().After(late); {
			time.Sleep(time.Millisecond)
		}
		return backend.Claimed{}, &backend.Error{Op: "test", Kind: backend.ErrUnavailable}
	}
	tx := newTx(t, b, idem.WithLease(lease))
	if _, err := idem.DoTx(t.Context(), tx, request("key-0001"), neverTx(t)); !errors.Is(err, idem.ErrUnavailable) || tries != 1 {
		t.Errorf("DoTx = %v after %d tries, want ErrUnavailable after one", err, tries)
	}
}

// Hard case 12: a record with recovery points is not for the transaction path.
func TestTxRecoveryPoint(t *testing.T) {
	b := openBank(t)
	e := newTx(t, b)
	k := backend.Key{Tenant: "shop", Actor: "ada", Value: "key-0001"}
	_, err := idem.Do(t.Context(), e.Executor, request("key-0001"), func(ctx context.Context, _ *idem.Run) (string, error) {
		r, err := b.Get(ctx, k)
		if err != nil {
			return "", err
		}
		if err := b.Checkpoint(ctx, r.Holder(), backend.Checkpoint{Sequence: 1, Point: "created"}); err != nil {
			return "", err
		}
		return "", errBoom
	})
	wantError(t, "Do", err, errBoom)
	before, err := b.Get(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	_, err = idem.DoTx(t.Context(), e, request("key-0001"), neverTx(t))
	wantError(t, "DoTx", err, idem.ErrRecoveryPoint)
	if after, err := b.Get(t.Context(), k); err != nil || after.Attempt != before.Attempt || after.RecoveryPoint != "created" {
		t.Errorf("Get() = %+v, %v, want the record as it was", after, err)
	}
}

// Hard case 32: DoIn is the core's form of Bind.
func TestDoIn(t *testing.T) {
	b := openBank(t)
	e := newTx(t, b)
	in := func(commit bool, effect func(context.Context, *sql.Tx) (string, error)) (idem.Result[string], error) {
		t.Helper()
		tx, err := b.db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		res, err := idem.DoIn(t.Context(), e, tx, request("key-0001"), effect)
		if commit && err == nil {
			err = tx.Commit()
		}
		return res, err
	}
	if res, err := in(false, charge("first", nil)); err != nil || res.Value != "first" {
		t.Errorf("DoIn = %+v, %v", res, err)
	}
	b.wantCharges(t, 0)
	_, err := in(true, charge("", errBoom))
	wantError(t, "DoIn", err, errBoom)
	if res, err := in(true, charge("", idem.Reject("refused"))); err != nil || res.Value != "refused" || res.Replayed {
		t.Errorf("DoIn = %+v, %v, want the refusal", res, err)
	}
	b.wantCharges(t, 0)
	if res, err := in(true, neverTx(t)); err != nil || res.Value != "refused" || !res.Replayed {
		t.Errorf("DoIn = %+v, %v, want the replay", res, err)
	}
}

func TestDoInCommits(t *testing.T) {
	b := openBank(t)
	tx, err := b.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	e := newTx(t, b)
	if _, err := idem.DoIn(t.Context(), e, tx, request("key-0001"), charge("ok", nil)); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	b.wantCharges(t, 1)
	if res, err := idem.DoTx(t.Context(), e, request("key-0001"), neverTx(t)); err != nil || res.Value != "ok" {
		t.Errorf("DoTx after it = %+v, %v, want the replay", res, err)
	}
}

// Half an effect is not committed, whatever its caller does with the error.
func TestDoInCommittedInSpiteOfItsError(t *testing.T) {
	b := openBank(t)
	e := newTx(t, b)
	tx, err := b.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = idem.DoIn(t.Context(), e, tx, request("key-0001"), charge("", errBoom))
	wantError(t, "DoIn", err, errBoom)
	if err := tx.Commit(); err != nil {
		t.Errorf("Commit after it = %v", err)
	}
	b.wantCharges(t, 0)
}
