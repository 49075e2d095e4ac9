package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"strings"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/idemhttp"
)

// resolution is what the flags of resolve say.
type resolution struct {
	done, never, refused, result, reason, answer string

	nothing bool
	status  int
	header  http.Header
	body    string
}

// resolve records what a person found out about a request.
func resolve(ctx context.Context, c *call) (int, error) {
	c.records()
	var scope idem.Scope
	var key string
	c.scope(&scope.Tenant, &scope.Actor, &key)
	r := resolution{header: make(http.Header)}
	c.flags.StringVar(&r.done, "done", "", "the `step` has happened, with -result")
	c.flags.StringVar(&r.result, "result", "", "of the step that has happened: `JSON`, as its code would have stored it; null for none")
	c.flags.StringVar(&r.refused, "refused", "", "the `step` was refused by the far side for good, with -reason")
	c.flags.StringVar(&r.reason, "reason", "", "the far side's reason, a `text`")
	c.flags.StringVar(&r.never, "never", "", "the `step` has not happened and never will: the next retry sends it")
	c.flags.StringVar(&r.answer, "answer", "", "the request is over, and this is a job's answer: `JSON`")
	c.flags.IntVar(&r.status, "status", 0, "the request is over, and this is the `status` of its HTTP answer, with -header and -body")
	c.flags.Func("header", "a `field` of the HTTP answer, \"Name: value\"; can be given several times", r.field)
	c.flags.StringVar(&r.body, "body", "", "the body of the HTTP answer, a `text`")
	c.flags.BoolVar(&r.nothing, "nothing-done", false, "the run died before its first recovery point and has done nothing: the next retry runs")
	ctx, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	p, err := c.parse()
	if err != nil {
		return 0, err
	}
	if err := wholeKey(scope.Tenant, scope.Actor, key); err != nil {
		return 0, err
	}
	res, err := r.resolution()
	if err != nil {
		return 0, err
	}
	b, done, err := p.open(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	ex, err := idem.New(b)
	if err != nil {
		return 0, err
	}
	switch err := ex.Resolve(ctx, scope, key, res); {
	case err == nil:
		fmt.Fprintln(c.stdout, "resolved")
		return statusOK, nil
	case errors.Is(err, idem.ErrNotFound), errors.Is(err, idem.ErrInProgress), errors.Is(err, idem.ErrConflict):
		fmt.Fprintln(c.stderr, "idem resolve: nothing was changed:", err)
		return statusNo, nil
	default:
		return 0, explain(p, err)
	}
}

func (r *resolution) field(s string) error {
	name, value, ok := strings.Cut(s, ":")
	if !ok || name == "" {
		return errors.New("it has the form Name: value")
	}
	r.header.Add(textproto.CanonicalMIMEHeaderKey(name), strings.TrimSpace(value))
	return nil
}

// resolution is the one thing that the flags say.
func (r *resolution) resolution() (res idem.Resolution, err error) {
	said := 0
	say := func(is bool, what idem.Resolution) {
		if is {
			said++
			res = what
		}
	}
	result, answer := json.RawMessage(r.result), json.RawMessage(r.answer)
	say(r.done != "", idem.CallDone(r.done, result))
	say(r.refused != "", idem.CallRefused(r.refused, r.reason))
	say(r.never != "", idem.CallNever(r.never))
	say(r.nothing, idem.NothingDone())
	say(r.answer != "", idem.Answered(answer))
	switch {
	case r.status != 0:
		resp, err := idemhttp.NewAnswer(r.status, r.header, []byte(r.body))
		if err != nil {
			return res, err
		}
		say(true, idem.Answered(resp))
	case len(r.header) > 0 || r.body != "":
		return res, errors.New("-header and -body need -status")
	}
	switch {
	case (r.done == "") != (r.result == ""):
		return res, errors.New("-done and -result go together: the next retry goes on with that result, for good")
	case said != 1:
		return res, errors.New("say one thing: -done, -refused, -never, -nothing-done, -answer or -status")
	case r.result != "" && !json.Valid(result), r.answer != "" && !json.Valid(answer):
		return res, errors.New("-result and -answer are JSON: a text has quotes of its own")
	}
	return res, nil
}
