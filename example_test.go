package idem_test

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/memory"
)

type receipt struct {
	ID     string `json:"id"`
	Amount int    `json:"amount"`
}

// The second call is a retry of the first: same scope, key and content.
func ExampleDo() {
	ctx := context.Background()
	ex, err := idem.New(memory.New(), idem.WithLease(30*time.Second))
	if err != nil {
		panic(err)
	}
	req := idem.Request{
		Scope:     idem.Scope{Tenant: "shop", Actor: "ada"},
		Key:       "8e03978e-40d5-43e8-bc93-6894a57f9324",
		Operation: "charge",
		Content:   idem.Content{Type: "application/json", Body: []byte(`{"amount": 500}`)},
	}
	for range 2 {
		res, err := idem.Do(ctx, ex, req, func(context.Context, *idem.Run) (receipt, error) {
			fmt.Println("charging")
			return receipt{ID: "r-1", Amount: 500}, nil
		})
		fmt.Println(res.Value, res.Replayed, err)
	}
	// Output:
	// charging
	// {r-1 500} false <nil>
	// {r-1 500} true <nil>
}

// A refusal that a retry must not turn into a success is an answer, not an error.
func ExampleReject() {
	ctx := context.Background()
	ex, err := idem.New(memory.New())
	if err != nil {
		panic(err)
	}
	req := idem.Request{
		Scope:     idem.Scope{Tenant: "shop", Actor: "ada"},
		Key:       "1d2c0c8a-9f0e-4f5e-8a55-2f5c1b6a7e10",
		Operation: "charge",
	}
	balance := 100
	charge := func(context.Context, *idem.Run) (string, error) {
		if balance < 500 {
			return "", idem.Reject("insufficient balance")
		}
		return "charged", nil
	}
	res, _ := idem.Do(ctx, ex, req, charge)
	fmt.Println(res.Value)
	balance = 1000
	res, _ = idem.Do(ctx, ex, req, charge)
	fmt.Println(res.Value)
	// Output:
	// insufficient balance
	// insufficient balance
}

// A key that was used for another request says in what the two differ, never how.
func ExampleMismatchError() {
	ctx := context.Background()
	ex, err := idem.New(memory.New())
	if err != nil {
		panic(err)
	}
	req := idem.Request{
		Scope:     idem.Scope{Tenant: "shop", Actor: "ada"},
		Key:       "0f7c1b1e-5f0a-4c35-8f0e-6b1c0a8d9e77",
		Operation: "charge",
		Content:   idem.Content{Type: "application/json", Body: []byte(`{"amount": 500}`)},
	}
	charge := func(context.Context, *idem.Run) (string, error) { return "charged", nil }
	_, _ = idem.Do(ctx, ex, req, charge)
	req.Content.Body = []byte(`{"amount": 900}`)
	_, err = idem.Do(ctx, ex, req, charge)
	var mismatch *idem.MismatchError
	fmt.Println(errors.As(err, &mismatch), mismatch.Part)
	// Output: true content
}

// Sweep once, or leave a sweeper running until its context ends.
func ExampleExecutor_RunSweeper() {
	ex, err := idem.New(memory.New())
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- ex.RunSweeper(ctx, time.Hour) }()
	cancel()
	fmt.Println(<-done)
	fmt.Println(ex.Sweep(context.Background()))
	// Output:
	// context canceled
	// 0 <nil>
}

// Count outcomes by operation.
func ExampleWithObserver() {
	count := func(_ context.Context, e idem.Event) { fmt.Println(e.Operation, e.Kind) }
	ex, err := idem.New(memory.New(), idem.WithObserver(count))
	if err != nil {
		panic(err)
	}
	req := idem.Request{
		Scope: idem.Scope{Tenant: "shop", Actor: "ada"}, Key: "a1b2c3d4e5", Operation: "charge",
	}
	for range 2 {
		_, _ = idem.Do(context.Background(), ex, req, func(context.Context, *idem.Run) (int, error) { return 1, nil })
	}
	// Output:
	// charge acquired
	// charge replayed
}

// The key is made when the user decides, before the first try.
func ExampleContextWithKey() {
	ctx := idem.ContextWithKey(context.Background(), "0193c3c1-7f4e-7cc3-98c4-dc0c0c07398f")
	key, ok := idem.KeyFromContext(ctx)
	fmt.Println(key, ok)
	// Output: 0193c3c1-7f4e-7cc3-98c4-dc0c0c07398f true
}

// A route whose answers depend on a header field says so. A deploy that begins to do so
// accepts what was stored before, so that pending retries are still compared.
func ExampleHeaders() {
	before, err := idem.NewFingerprinter()
	if err != nil {
		panic(err)
	}
	now, err := idem.NewFingerprinter(idem.Headers("Accept-Language"))
	if err != nil {
		panic(err)
	}
	ex, err := idem.New(memory.New(), idem.WithFingerprinter(now, before))
	if err != nil {
		panic(err)
	}
	for _, language := range []string{"de", "en"} {
		req := idem.Request{
			Scope: idem.Scope{Tenant: "shop", Actor: "ada"}, Key: "key-of-the-tea", Operation: "order",
			Content: idem.Content{Header: map[string][]string{"Accept-Language": {language}}},
		}
		_, err := idem.Do(context.Background(), ex, req, func(context.Context, *idem.Run) (string, error) { return "ok", nil })
		fmt.Println(language, errors.Is(err, idem.ErrMismatch))
	}
	// Output:
	// de false
	// en true
}

// What a service publishes of its executor.
func ExampleExecutor_Policy() {
	ex, err := idem.New(memory.New(), idem.WithRetention(24*time.Hour))
	if err != nil {
		panic(err)
	}
	p := ex.Policy()
	fmt.Println(p.MinKey, p.MaxKey, p.Retention)
	fmt.Println(strings.Join(p.Fingerprint, ", "))
	// Output:
	// 8 255 24h0m0s
	// content type, query, body
}

// The version says whether two fingerprints can be compared at all, the parts what a
// client has to keep as it was.
func ExampleFingerprinter_Parts() {
	f, err := idem.NewFingerprinter(idem.Omit("/sent_at"), idem.Headers("accept-language"))
	if err != nil {
		panic(err)
	}
	for _, part := range f.Parts() {
		fmt.Println(part)
	}
	// Output:
	// content type
	// query
	// body, without /sent_at
	// header field Accept-Language
}

// sealer encrypts with AES-GCM. A service that changes its key prefixes what it wrote with
// the number of the key, and keeps the old ones.
type sealer struct{ aead cipher.AEAD }

func (s sealer) Seal(plain, about []byte) ([]byte, error) {
	return s.aead.Seal(nil, nil, plain, about), nil
}

func (s sealer) Open(sealed, about []byte) ([]byte, error) {
	return s.aead.Open(nil, nil, sealed, about)
}

// Whoever reads the store reads no answers, and can't give one user's to another.
func ExampleWithSealer() {
	block, err := aes.NewCipher(make([]byte, 32)) // the service's key, not this one
	if err != nil {
		panic(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	store, ctx := memory.New(), context.Background()
	ex, err := idem.New(store, idem.WithSealer(sealer{aead}))
	if err != nil {
		panic(err)
	}
	req := idem.Request{Scope: idem.Scope{Tenant: "shop", Actor: "ada"}, Key: "key-of-the-tea", Operation: "order"}
	for range 2 {
		res, err := idem.Do(ctx, ex, req, func(context.Context, *idem.Run) (string, error) { return "card 4711", nil })
		fmt.Println(res.Value, res.Replayed, err)
	}
	rec, err := store.Get(ctx, backend.Key{Tenant: "shop", Actor: "ada", Value: "key-of-the-tea"})
	fmt.Println(bytes.Contains(rec.Response.Body, []byte("4711")), err)
	// Output:
	// card 4711 false <nil>
	// card 4711 true <nil>
	// false <nil>
}

// While answers that were stored in plain are still kept.
func ExampleWithUnsealed() {
	block, err := aes.NewCipher(make([]byte, 32))
	if err != nil {
		panic(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	store := memory.New()
	req := idem.Request{Scope: idem.Scope{Tenant: "shop", Actor: "ada"}, Key: "key-of-the-tea", Operation: "order"}
	for _, opts := range [][]idem.Option{
		nil,
		{idem.WithSealer(sealer{aead})},
		{idem.WithSealer(sealer{aead}), idem.WithUnsealed()},
	} {
		ex, err := idem.New(store, opts...)
		if err != nil {
			panic(err)
		}
		res, err := idem.Do(context.Background(), ex, req, func(context.Context, *idem.Run) (string, error) { return "ok", nil })
		fmt.Println(res.Value, errors.Is(err, idem.ErrSealed))
	}
	// Output:
	// ok false
	//  true
	// ok false
}
