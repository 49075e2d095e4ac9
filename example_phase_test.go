package idem_test

import (
	"context"
	"database/sql"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/memory"
	"github.com/idem-go/idem/sqlite"
)

var order = idem.Request{
	Scope: idem.Scope{Tenant: "shop", Actor: "ada"}, Key: "4b2f6a0c-7f0d-4c8e-9a35-d8b0c1a2e3f4", Operation: "checkout",
}

// The first attempt fails after its first phase. The second goes on behind it.
func ExamplePhase() {
	ex, err := idem.New(memory.New(), idem.WithPhases("1"))
	if err != nil {
		panic(err)
	}
	down := true
	checkout := func(ctx context.Context, run *idem.Run) (string, error) {
		id, err := idem.Phase(ctx, run, "reserve", func(context.Context) (int, error) {
			fmt.Println("reserving")
			return 42, nil
		})
		if err != nil {
			return "", err
		}
		return idem.Phase(ctx, run, "ship", func(context.Context) (string, error) {
			if down {
				return "", errors.New("the warehouse is down")
			}
			return fmt.Sprintf("parcel of reservation %d", id), nil
		})
	}
	_, err = idem.Do(context.Background(), ex, order, checkout)
	fmt.Println(err)
	down = false
	res, err := idem.Do(context.Background(), ex, order, checkout)
	fmt.Println(res.Value, res.Attempt, err)
	// Output:
	// reserving
	// the warehouse is down
	// parcel of reservation 42 2 <nil>
}

// A gateway that has its own idempotency keys, and can be asked. What it refuses is
// refused for good.
func ExampleCall() {
	ex, err := idem.New(memory.New(), idem.WithPhases("1"))
	if err != nil {
		panic(err)
	}
	charge := idem.Foreign[string]{
		Do: func(_ context.Context, key string) (string, error) {
			return "", idem.Refused("card_declined")
		},
		Inquire: func(_ context.Context, key string) (string, idem.Outcome, error) {
			return "", idem.OutcomeUnknown, nil
		},
	}
	for range 2 {
		res, err := idem.Do(context.Background(), ex, order, func(ctx context.Context, run *idem.Run) (string, error) {
			id, err := idem.Call(ctx, run, "charge", charge)
			if no, ok := errors.AsType[*idem.RefusedError](err); ok {
				return "", idem.Reject("not paid: " + no.Reason)
			}
			return id, err
		})
		fmt.Println(res.Value, res.Replayed, err)
	}
	// Output:
	// not paid: card_declined false <nil>
	// not paid: card_declined true <nil>
}

// An error of a call that was surely not sent leaves nothing to find out.
func ExampleNotDone() {
	ex, err := idem.New(memory.New(), idem.WithPhases("1"))
	if err != nil {
		panic(err)
	}
	dial := errors.New("dial: connection refused")
	sms := idem.Foreign[string]{
		Do:   func(context.Context, string) (string, error) { return "sent", idem.NotDone(dial) },
		Once: true, // the operator sends twice what it gets twice
	}
	send := func(ctx context.Context, run *idem.Run) (string, error) { return idem.Call(ctx, run, "sms", sms) }
	_, err = idem.Do(context.Background(), ex, order, send)
	fmt.Println(err)
	dial = nil
	res, err := idem.Do(context.Background(), ex, order, send)
	fmt.Println(res.Value, err)
	// Output:
	// dial: connection refused
	// sent <nil>
}

// The downstream key is derived from the request and the step. The token is for a
// store of one's own that fences: it refuses a smaller one than it has seen.
func ExampleRun_Key() {
	ex, err := idem.New(memory.New())
	if err != nil {
		panic(err)
	}
	var highest int64 // as the downstream store keeps it
	write := func(token int64) bool {
		if token < highest {
			return false
		}
		highest = token
		return true
	}
	_, err = idem.Do(context.Background(), ex, order, func(_ context.Context, run *idem.Run) (string, error) {
		fmt.Println(run.Key("charge"), run.Attempt())
		fmt.Println(write(run.Token()), write(run.Token()-1))
		return "", nil
	})
	fmt.Println(err)
	// Output:
	// 81f2dcf2-dde8-80d2-a5f9-efb945a1912e 1
	// true false
	// <nil>
}

// Steps that write to the database of the record are part of its transaction.
func ExamplePhaseTx() {
	dir, err := os.MkdirTemp("", "idem")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	db, err := sqlite.Open(filepath.Join(dir, "shop.db"))
	if err != nil {
		panic(err)
	}
	defer db.Close()
	if err := sqlite.Migrate(ctx, db); err != nil {
		panic(err)
	}
	b, err := sqlite.New(db)
	if err != nil {
		panic(err)
	}
	if _, err := db.ExecContext(ctx, "CREATE TABLE payment (id INTEGER PRIMARY KEY, amount INTEGER, charge TEXT) STRICT"); err != nil {
		panic(err)
	}
	ex, err := idem.New(b, idem.WithPhases("1"))
	if err != nil {
		panic(err)
	}
	charge := idem.Foreign[string]{Do: func(context.Context, string) (string, error) { return "ch_1", nil }}

	res, err := idem.Do(ctx, ex, order, func(ctx context.Context, run *idem.Run) (string, error) {
		id, err := idem.PhaseTx(ctx, run, b, "create", func(ctx context.Context, tx *sql.Tx) (int64, error) {
			res, err := tx.ExecContext(ctx, "INSERT INTO payment (amount) VALUES (500)")
			if err != nil {
				return 0, err
			}
			return res.LastInsertId()
		})
		if err != nil {
			return "", err
		}
		ch, err := idem.Call(ctx, run, "charge", charge)
		if err != nil {
			return "", err
		}
		return idem.CompleteTx(ctx, run, b, func(ctx context.Context, tx *sql.Tx) (string, error) {
			_, err := tx.ExecContext(ctx, "UPDATE payment SET charge = ? WHERE id = ?", ch, id)
			return fmt.Sprintf("payment %d: %s", id, ch), err
		})
	})
	fmt.Println(res.Value, err)
	// Output: payment 1: ch_1 <nil>
}

// xmlCodec stores results of steps as XML.
type xmlCodec struct{}

func (xmlCodec) Encode(v any) ([]byte, error)    { return xml.Marshal(v) }
func (xmlCodec) Decode(data []byte, v any) error { return xml.Unmarshal(data, v) }

func ExampleWithCodec() {
	ex, err := idem.New(memory.New(), idem.WithPhases("1"), idem.WithCodec(xmlCodec{}))
	if err != nil {
		panic(err)
	}
	res, err := idem.Do(context.Background(), ex, order, func(ctx context.Context, run *idem.Run) (receipt, error) {
		return idem.Phase(ctx, run, "charge", func(context.Context) (receipt, error) { return receipt{ID: "r-1", Amount: 500}, nil })
	})
	fmt.Println(res.Value, err)
	// Output: {r-1 500} <nil>
}

// The client died with the first process. A completer of another one ends what it began.
func ExampleCompleter() {
	clock := memory.NewClock(time.Now())
	store := memory.New(memory.WithClock(clock))
	ex, err := idem.New(store)
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	req := order
	req.Payload = []byte(`{"id": "o-17", "amount": 5}`)
	_, _ = idem.Do(ctx, ex, req, func(context.Context, *idem.Run) (string, error) {
		return "", idem.MaybeDone(errors.New("this is as far as the first process gets"))
	})
	clock.Advance(idem.DefaultLease)

	c, err := idem.NewCompleter(ex, idem.WithBackoff(0, 0))
	if err != nil {
		panic(err)
	}
	err = idem.Handle(c, "checkout", func(_ context.Context, run *idem.Run, o receipt) (string, error) {
		return fmt.Sprintf("%s is done in attempt %d", o.ID, run.Attempt()), nil
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(c.Pass(ctx)) // a service leaves c.Run running instead
	res, err := idem.Do(ctx, ex, req, func(context.Context, *idem.Run) (string, error) { return "not run again", nil })
	fmt.Println(res.Value, err)
	// Output:
	// {1 0 0 0 0 0 0} <nil>
	// o-17 is done in attempt 2 <nil>
}
