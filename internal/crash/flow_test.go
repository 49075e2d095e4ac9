package crash

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/idem-go/idem"
)

// The flows. A request's key begins with the name of its flow.
const (
	leased      = "leased"      // ends with its answer
	completed   = "completed"   // ends with a step that commits with the answer
	failing     = "failing"     // its last step fails in the first attempt
	renewed     = "renewed"     // its last step takes until the lease was renewed
	once        = "once"        // has a call that must not be sent twice, and nobody to ask
	transaction = "transaction" // is one transaction
)

var errFails = errors.New("the step fails")

// request is the one with this key.
func request(key string) idem.Request {
	return idem.Request{Scope: idem.Scope{Tenant: "shop", Actor: "ada"}, Key: key, Operation: "POST /orders", Method: http.MethodPost, Path: "/orders"}
}

func flowOf(key string) string {
	flow, _, _ := strings.Cut(key, "-")
	return flow
}

// answerOf is the right answer of a request.
func answerOf(key string) string {
	switch flowOf(key) {
	case transaction:
		return result("create", key)
	case once:
		return result("once", key)
	}
	return strings.Join([]string{result("create", key), result("charge", key), result("transfer", key), result("note", key)}, ", ")
}

// options of all executors. A duplicate waits for as long as any lease can be held.
func options(lease time.Duration) []idem.Option {
	return []idem.Option{idem.WithLease(lease), idem.WithPhases("1"), idem.WithWait(time.Minute)}
}

// runner runs requests of all flows.
type runner struct {
	s     *store
	p     *points
	e     *idem.Executor
	lease time.Duration
	far   string // its address

	ended   func(context.Context, error) // called when an effect has ended
	renewed chan struct{}
}

func (r *runner) do(ctx context.Context, key string) (idem.Result[string], error) {
	if flowOf(key) == transaction {
		return r.s.tx.doTx(ctx, request(key), "create", options(r.lease)...)
	}
	return idem.Do(ctx, r.e, request(key), func(ctx context.Context, run *idem.Run) (string, error) {
		v, err := r.effect(ctx, run, key)
		r.ended(ctx, err)
		return v, err
	})
}

func (r *runner) effect(ctx context.Context, run *idem.Run, key string) (string, error) {
	to := far{r.far, key}
	send := func(what string) func(context.Context, string) (string, error) {
		return func(ctx context.Context, k string) (string, error) {
			// As those do it that look at no context: it is the library that must not call.
			return around(r.p, what, func() (string, error) { return to.do(context.WithoutCancel(ctx), what, k) })
		}
	}
	if flowOf(key) == once {
		return idem.Call(ctx, run, "once", idem.Foreign[string]{Do: send("once"), Once: true})
	}
	var err error
	step := func(v string, e error) string {
		err = e
		return v
	}
	steps := []func() string{
		func() string {
			if r.s.tx != nil {
				return step(r.s.tx.phase(ctx, run, "create", key))
			}
			return step(idem.Phase(ctx, run, "create", func(ctx context.Context) (string, error) { return send("create")(ctx, "") }))
		},
		func() string { return step(idem.Call(ctx, run, "charge", idem.Foreign[string]{Do: send("charge")})) },
		func() string {
			return step(idem.Call(ctx, run, "transfer", idem.Foreign[string]{
				Do: send("transfer"), Once: true,
				Inquire: func(ctx context.Context, k string) (string, idem.Outcome, error) {
					r.p.at("inquiry/before", nil)
					v, o, err := to.inquire(ctx, "transfer", k)
					r.p.at("inquiry/after", err)
					return v, o, err
				},
			}))
		},
		func() string {
			return step(idem.Phase(ctx, run, "note", func(ctx context.Context) (string, error) {
				v, err := send("note")(ctx, "")
				switch {
				case flowOf(key) == renewed && run.Attempt() == 1:
					<-r.renewed
				case flowOf(key) == failing && run.Attempt() == 1:
					return "", errFails
				}
				return v, err
			}))
		},
	}
	var all []string
	for _, s := range steps {
		v := s()
		if err != nil {
			return "", err
		}
		all = append(all, v)
	}
	answer := strings.Join(all, ", ")
	if flowOf(key) == completed {
		return r.s.tx.completeTx(ctx, run, "complete", key, answer)
	}
	return answer, nil
}
