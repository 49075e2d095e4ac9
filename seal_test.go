package idem_test

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/memory"
)

// gcm is a Sealer of one key.
type gcm struct{ cipher.AEAD }

func newGCM(key byte) gcm {
	block, err := aes.NewCipher(bytes.Repeat([]byte{key}, 32))
	if err != nil {
		panic(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return gcm{aead}
}

func (g gcm) Seal(plain, about []byte) ([]byte, error) {
	return g.AEAD.Seal(nil, nil, plain, about), nil
}

func (g gcm) Open(sealed, about []byte) ([]byte, error) {
	return g.AEAD.Open(nil, nil, sealed, about)
}

// broken is a Sealer that can't reach its keys.
type broken struct{ gcm }

var errKeys = errors.New("no keys")

func (broken) Seal(_, _ []byte) ([]byte, error) { return nil, errKeys }

var secretAnswer = idem.Response{Status: 201, Header: []byte("Location: /secret/1\r\n"), Body: []byte("secret")}

func checkSealed(t *testing.T, when string, stored idem.Response) {
	t.Helper()
	if all := fmt.Sprintf("%s%s", stored.Header, stored.Body); strings.Contains(all, "secret") {
		t.Errorf("%s: %q is stored, want nothing that can be read", when, all)
	}
}

// stored is what a store keeps of an answer.
func stored(t *testing.T, b backend.Backend, key string) idem.Response {
	t.Helper()
	r := request(key)
	rec, err := b.Get(t.Context(), backend.Key{Tenant: r.Scope.Tenant, Actor: r.Scope.Actor, Value: r.Key})
	if err != nil {
		t.Fatal(err)
	}
	return rec.Response
}

func neverResponse(t *testing.T) func(context.Context, *idem.Run) (idem.Response, error) {
	return func(context.Context, *idem.Run) (idem.Response, error) {
		t.Error("the effect ran")
		return idem.Response{}, nil
	}
}

// Every way in which an answer is stored seals it, and every way in which it is read
// opens it.
func TestSealed(t *testing.T) {
	t.Parallel()
	answer := func(context.Context, *sql.Tx) (idem.Response, error) { return secretAnswer, nil }
	ways := map[string]func(t *testing.T, e *idem.TxExecutor[*sql.Tx], b *bank, r idem.Request) (idem.Result[idem.Response], error){
		"Do": func(t *testing.T, e *idem.TxExecutor[*sql.Tx], _ *bank, r idem.Request) (idem.Result[idem.Response], error) {
			return idem.Do(t.Context(), e.Executor, r, returns(secretAnswer))
		},
		"DoTx": func(t *testing.T, e *idem.TxExecutor[*sql.Tx], _ *bank, r idem.Request) (idem.Result[idem.Response], error) {
			return idem.DoTx(t.Context(), e, r, answer)
		},
		"Reject": func(t *testing.T, e *idem.TxExecutor[*sql.Tx], _ *bank, r idem.Request) (idem.Result[idem.Response], error) {
			return idem.DoTx(t.Context(), e, r, func(context.Context, *sql.Tx) (idem.Response, error) {
				return idem.Response{}, idem.Reject(secretAnswer)
			})
		},
		"DoIn": func(t *testing.T, e *idem.TxExecutor[*sql.Tx], b *bank, r idem.Request) (idem.Result[idem.Response], error) {
			tx, err := b.db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Commit() }()
			return idem.DoIn(t.Context(), e, tx, r, answer)
		},
		"CompleteTx": func(t *testing.T, e *idem.TxExecutor[*sql.Tx], b *bank, r idem.Request) (idem.Result[idem.Response], error) {
			return idem.Do(t.Context(), e.Executor, r, func(ctx context.Context, run *idem.Run) (idem.Response, error) {
				_, err := idem.CompleteTx(ctx, run, b, answer)
				got, ok := run.Answer()
				if err != nil || !ok || !got.Equal(secretAnswer) {
					t.Errorf("Answer() after CompleteTx = %+v, %v, %v, want the answer", got, ok, err)
				}
				return idem.Response{}, err
			})
		},
	}
	for name, do := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := openBank(t)
			e := newTx(t, b, idem.WithSealer(newGCM(1)), idem.WithPhases("1"), idem.WithLease(time.Second))
			for i := range 2 {
				res, err := do(t, e, b, request("key-0001"))
				if err != nil || !res.Value.Equal(secretAnswer) {
					t.Errorf("call %d = %+v, %v, want the answer", i+1, res, err)
				}
			}
			checkSealed(t, name, stored(t, b, "key-0001"))
			for path, again := range map[string]func() (idem.Result[idem.Response], error){
				"Do":   func() (idem.Result[idem.Response], error) { return ways["Do"](t, e, b, request("key-0001")) },
				"DoTx": func() (idem.Result[idem.Response], error) { return ways["DoTx"](t, e, b, request("key-0001")) },
			} {
				if res, err := again(); err != nil || !res.Replayed || !res.Value.Equal(secretAnswer) {
					t.Errorf("replay by %s = %+v, %v, want the answer", path, res, err)
				}
			}
			// A mismatch is found out before anything is opened.
			bad := request("key-0001")
			bad.Content.Body = []byte(`{"amount":6}`)
			_, err := idem.Do(t.Context(), newExecutor(t, b, idem.WithSealer(newGCM(2))), bad, never(t))
			wantError(t, "Do of another request, with another sealer", err, idem.ErrMismatch)
		})
	}
}

// A person's answer is sealed as well.
func TestSealedResolution(t *testing.T) {
	t.Parallel()
	clock := memory.NewClock(time.Now())
	m := memory.New(memory.WithClock(clock))
	e := newExecutor(t, m, idem.WithSealer(newGCM(1)))
	_, err := idem.Do(t.Context(), e, request("key-0001"), func(context.Context, *idem.Run) (idem.Response, error) {
		return idem.Response{}, idem.MaybeDone(errBoom)
	})
	wantError(t, "Do", err, errBoom)
	clock.Advance(idem.DefaultLease)
	if err := e.Resolve(t.Context(), request("").Scope, "key-0001", idem.Answered(secretAnswer)); err != nil {
		t.Fatalf("Resolve = %v", err)
	}
	checkSealed(t, "Answered", stored(t, m, "key-0001"))
	res, err := idem.Do(t.Context(), e, request("key-0001"), neverResponse(t))
	if err != nil || !res.Value.Equal(secretAnswer) {
		t.Errorf("Do = %+v, %v, want the answer", res, err)
	}
}

// Duplicates that wait in memory get what the first one got.
func TestSealedForThoseThatWait(t *testing.T) {
	t.Parallel()
	e := newExecutor(t, memory.New(), idem.WithSealer(newGCM(1)), idem.WithWait(time.Minute))
	running, open := make(chan struct{}), make(chan struct{})
	first := sync.OnceFunc(func() { close(running) })
	effect := func(context.Context, *idem.Run) (string, error) {
		first()
		<-open
		return "secret", nil
	}
	answers := make(chan answer, 5)
	do := func() {
		res, err := idem.Do(t.Context(), e, request("key-0001"), effect)
		answers <- answer{res, err}
	}
	go do()
	<-running
	for range 4 {
		go do()
	}
	close(open)
	for range 5 {
		if a := <-answers; a.err != nil || a.res.Value != "secret" {
			t.Errorf("one of five = %+v, %v, want the answer", a.res, a.err)
		}
	}
}

// An answer that can't be opened is an error, and its request never runs again.
func TestSealedAndNotOpened(t *testing.T) {
	t.Parallel()
	m := memory.New()
	store := func(key string, r idem.Response, opts ...idem.Option) {
		t.Helper()
		if _, err := idem.Do(t.Context(), newExecutor(t, m, opts...), request(key), returns(r)); err != nil {
			t.Fatal(err)
		}
	}
	sealed := idem.WithSealer(newGCM(1))
	store("key-0001", secretAnswer, sealed)
	store("key-0002", secretAnswer)
	moved := stored(t, m, "key-0001")
	altered := moved
	altered.Status = 200
	swapped := moved
	swapped.Body = bytes.Clone(bytes.TrimPrefix(moved.Header, []byte("\x00idem sealed 1\n")))
	stripped := moved
	stripped.Header = nil
	with := func(r idem.Response) backend.Backend {
		return &faulty{Backend: m, claim: func(ctx context.Context, c backend.Claim) (backend.Claimed, error) {
			got, err := m.Claim(ctx, c)
			got.Record.Response = r
			return got, err
		}}
	}
	for name, c := range map[string]struct {
		b    backend.Backend
		key  string
		opts []idem.Option
		want error // nil: the answer
	}{
		"as it is":            {m, "key-0001", []idem.Option{sealed}, nil},
		"another key":         {m, "key-0001", []idem.Option{idem.WithSealer(newGCM(2))}, idem.ErrSealed},
		"no sealer":           {m, "key-0001", nil, idem.ErrSealed},
		"stored without":      {m, "key-0002", []idem.Option{sealed}, idem.ErrSealed},
		"stored without, ok":  {m, "key-0002", []idem.Option{sealed, idem.WithUnsealed()}, nil},
		"never sealed":        {m, "key-0002", nil, nil},
		"of another record":   {with(moved), "key-0002", []idem.Option{sealed}, idem.ErrSealed},
		"of another, lenient": {with(moved), "key-0002", []idem.Option{sealed, idem.WithUnsealed()}, idem.ErrSealed},
		"another status":      {with(altered), "key-0001", []idem.Option{sealed}, idem.ErrSealed},
		"parts swapped":       {with(swapped), "key-0001", []idem.Option{sealed}, idem.ErrSealed},
		"without its mark":    {with(stripped), "key-0001", []idem.Option{sealed}, idem.ErrSealed},
	} {
		for range 2 {
			res, err := idem.Do(t.Context(), newExecutor(t, c.b, c.opts...), request(c.key), neverResponse(t))
			if !errors.Is(err, c.want) || (c.want == nil) != res.Value.Equal(secretAnswer) {
				t.Errorf("Do, %s = %+v, %v, want the answer or %v", name, res, err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("Do, %s = %v, which tells the answer", name, err)
			}
		}
	}
}

// What is too large or was streamed keeps its header, sealed; where that can't be opened
// it is a tombstone all the same.
func TestSealedTombstones(t *testing.T) {
	t.Parallel()
	m := memory.New()
	sealed := newExecutor(t, m, idem.WithSealer(newGCM(1)), idem.WithMaxResponse(25))
	_, err := idem.Do(t.Context(), sealed, request("key-0001"), returns(secretAnswer))
	if err != nil {
		t.Fatal(err)
	}
	_, err = idem.Do(t.Context(), sealed, request("key-0002"), func(ctx context.Context, run *idem.Run) (idem.Response, error) {
		return idem.Response{}, run.Stream(ctx, secretAnswer)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"key-0001", "key-0002"} {
		checkSealed(t, key, stored(t, m, key))
		for who, c := range map[string]struct {
			opts   []idem.Option
			header string
		}{
			"its own":       {[]idem.Option{idem.WithSealer(newGCM(1))}, string(secretAnswer.Header)},
			"another key":   {[]idem.Option{idem.WithSealer(newGCM(2))}, ""},
			"without a key": {nil, ""},
		} {
			_, err := idem.Do(t.Context(), newExecutor(t, m, c.opts...), request(key), neverResponse(t))
			grave, ok := errors.AsType[*idem.TombstoneError](err)
			if !ok || string(grave.Response.Header) != c.header {
				t.Errorf("Do of %s, %s = %v, want a tombstone with the header %q", key, who, err, c.header)
			}
		}
	}
}

// Where sealing fails nothing is stored in plain: a transaction is rolled back, and under
// a lease the first caller alone gets the answer.
func TestSealingFails(t *testing.T) {
	t.Parallel()
	b := openBank(t)
	e := newTx(t, b, idem.WithSealer(broken{newGCM(1)}), idem.WithPhases("1"))
	_, err := idem.DoTx(t.Context(), e, request("key-0001"), charge("secret", nil))
	wantError(t, "DoTx", err, idem.ErrUnavailable)
	wantError(t, "DoTx", err, errKeys)
	_, err = idem.Do(t.Context(), e.Executor, request("key-0002"), func(ctx context.Context, run *idem.Run) (string, error) {
		return idem.CompleteTx(ctx, run, b, charge("secret", nil))
	})
	wantError(t, "CompleteTx", err, idem.ErrUnavailable)
	b.wantCharges(t, 0)

	res, err := idem.Do(t.Context(), e.Executor, request("key-0003"), returns("secret"))
	if err != nil || res.Value != "secret" {
		t.Errorf("Do = %+v, %v, want the effect's value", res, err)
	}
	if got := stored(t, b, "key-0003"); got.Tombstone != backend.NotStored || len(got.Header)+len(got.Body) > 0 {
		t.Errorf("%+v is stored, want a tombstone", got)
	}
	_, err = idem.Do(t.Context(), e.Executor, request("key-0003"), never(t))
	wantError(t, "retry", err, idem.ErrTombstone)

	if _, err := idem.New(b, idem.WithSealer(nil)); !errors.Is(err, idem.ErrInvalid) {
		t.Errorf("New with a nil sealer = %v, want ErrInvalid", err)
	}
}
