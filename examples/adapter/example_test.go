//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package adapter_test

import (
	"context"
	"fmt"
	"os"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/examples/adapter"
)

func ExampleNew() {
	dir, err := os.MkdirTemp("", "records")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	ex, err := idem.New(adapter.New(dir))
	if err != nil {
		panic(err)
	}
	defer ex.Close(ctx)
	for range 2 {
		res, err := idem.Do(ctx, ex, idem.Request{
			Scope: idem.Scope{Tenant: "shop", Actor: "ada"}, Key: "order-0017", Operation: "greet",
		}, func(context.Context, *idem.Run) (string, error) { return "hello", nil })
		fmt.Println(res.Value, res.Replayed, err)
	}
	// Output:
	// hello false <nil>
	// hello true <nil>
}
