package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// askBound is how long a question to a server may take.
const askBound = 15 * time.Second

// call is one use of a command.
type call struct {
	flags          *flag.FlagSet
	args           []string
	stdout, stderr io.Writer

	where options
}

// options say where on a server the records are.
type options struct{ table, schema, prefix string }

func newCall(cmd command, args []string, stdout, stderr io.Writer) *call {
	c := &call{flags: flag.NewFlagSet(cmd.name, flag.ContinueOnError), args: args, stdout: stdout, stderr: stderr}
	c.flags.SetOutput(io.Discard) // its messages repeat arguments
	c.flags.Usage = func() {}
	return c
}

// records adds the flags that say where the records are.
func (c *call) records() {
	c.flags.StringVar(&c.where.table, "table", "", "postgres, sqlite: the `name` of the table (default idem_keys)")
	c.flags.StringVar(&c.where.schema, "schema", "", "postgres: the `name` of the table's schema (default: the search_path decides)")
	c.flags.StringVar(&c.where.prefix, "prefix", "", "redis, etcd: what the keys begin with, a `text` (default idem: and idem/)")
}

// scope adds the flags that name one record.
func (c *call) scope(tenant, actor, key *string) {
	c.flags.StringVar(tenant, "tenant", "", "the `tenant` of the key's scope")
	c.flags.StringVar(actor, "actor", "", "the `actor` of the key's scope")
	c.flags.StringVar(key, "key", "", "the `key`, as the client sent it, without quotes")
}

func wholeKey(tenant, actor, key string) error {
	if tenant == "" || actor == "" || key == "" {
		return errors.New("-tenant, -actor and -key are needed: a key is nothing without its scope")
	}
	return nil
}

// parse reads flags and the DSN, in any order.
func (c *call) parse() (place, error) {
	words, err := c.words()
	if err != nil {
		return nil, err
	}
	if len(words) > 1 {
		return nil, fmt.Errorf("%d arguments that are no flags, want the DSN alone", len(words))
	}
	dsn := os.Getenv("IDEM_DSN")
	if len(words) == 1 {
		dsn = words[0]
	}
	if dsn == "" {
		return nil, errors.New(`no DSN: give it as argument or in IDEM_DSN; "idem help" shows how one looks`)
	}
	return locate(dsn, c.where)
}

// parseNone is parse for a command without arguments.
func (c *call) parseNone() error {
	words, err := c.words()
	if err == nil && len(words) > 0 {
		err = errors.New("this command takes no argument")
	}
	return err
}

// words parses the flags and returns the other arguments.
func (c *call) words() (words []string, err error) {
	for rest := c.args; ; {
		switch err := c.flags.Parse(rest); {
		case errors.Is(err, flag.ErrHelp):
			c.help()
			return nil, err
		case err != nil && strings.Contains(err.Error(), "://"):
			return nil, errors.New("a flag is unknown or has a wrong value; -h lists the flags") // a DSN may be in it
		case err != nil:
			return nil, fmt.Errorf("%w; -h lists the flags", err)
		case c.flags.NArg() == 0:
			return words, nil
		}
		words = append(words, c.flags.Arg(0))
		rest = c.flags.Args()[1:]
	}
}

func (c *call) help() {
	for _, cmd := range commands() {
		if cmd.name == c.flags.Name() {
			fmt.Fprintf(c.stdout, "idem %s [flags] %s: %s\n", cmd.name, cmd.args, cmd.does)
		}
	}
	c.flags.SetOutput(c.stdout)
	c.flags.PrintDefaults()
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
