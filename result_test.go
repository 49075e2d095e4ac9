package idem_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/memory"
)

// Decoders quote what they can't decode. An error of ours, which goes to a log, does
// not: what is stored can be a card's number.
func TestErrorsDontQuoteStoredValues(t *testing.T) {
	e, err := idem.New(memory.New())
	if err != nil {
		t.Fatal(err)
	}
	stored := map[string]any{"Card": 4111111111111111, "Name": "Jane Doe"}
	if _, err := idem.Do(t.Context(), e, request("key-0001"), func(context.Context, *idem.Run) (any, error) { return stored, nil }); err != nil {
		t.Fatal(err)
	}
	_, number := idem.Do(t.Context(), e, request("key-0001"), func(context.Context, *idem.Run) (v struct{ Card int8 }, _ error) { return v, nil })
	_, text := idem.Do(t.Context(), e, request("key-0001"), func(context.Context, *idem.Run) (v struct{ Name time.Time }, _ error) { return v, nil })
	for _, err := range []error{number, text} {
		if !errors.Is(err, idem.ErrInvalid) || strings.Contains(err.Error(), "4111") || strings.Contains(err.Error(), "Jane") {
			t.Errorf("Do() = %v, want ErrInvalid without what is stored", err)
		}
	}
	if _, ok := errors.AsType[*json.UnmarshalTypeError](number); !ok {
		t.Errorf("Do() = %v, want to find the decoder's error in it", number)
	}
}

// A status that no column takes can't make a run that is never stored: the effect
// would run again with every retry.
func TestStatusThatCannotBeStored(t *testing.T) {
	e, err := idem.New(memory.New())
	if err != nil {
		t.Fatal(err)
	}
	runs := 0
	for _, want := range []error{idem.ErrInvalid, idem.ErrTombstone} {
		_, err := idem.Do(t.Context(), e, request("key-0001"), func(context.Context, *idem.Run) (idem.Response, error) {
			runs++
			return idem.Response{Status: -1}, nil
		})
		if !errors.Is(err, want) || runs != 1 {
			t.Errorf("Do() = %v after %d runs, want %v after one", err, runs, want)
		}
	}
}
