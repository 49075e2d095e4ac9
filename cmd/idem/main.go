// Idem looks at the stores that keep idempotency records.
//
//	idem doctor DSN         what the server is, what it promises, what is wrong with it
//	idem conformance DSN    run the conformance suite on it, in a namespace of its own
//	idem inspect DSN        show one record
//	idem resolve DSN        record what a person found out about a request
//	idem sweep DSN          delete what is over, once
//	idem version
//
// docs/cli.md has the flags, the DSNs and the exit statuses.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
)

// Exit statuses. What 1 and 3 mean is the command's to say.
const (
	statusOK       = 0
	statusNo       = 1   // unsafe findings, a failed case, no such record
	statusError    = 2   // wrong usage, or the server can't be asked
	statusNotShown = 3   // nothing failed, but not everything could be shown
	statusSignal   = 130 // interrupted, and cleaned up
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// command is a sub-command. run returns the exit status, or an error for
// statusError.
type command struct {
	name, args, does string
	run              func(ctx context.Context, c *call) (int, error)
}

func commands() []command {
	return []command{
		{"doctor", "DSN", "say what the server is, what it promises and what is wrong with it", doctor},
		{"conformance", "DSN", "run the conformance suite on the server, in a namespace of its own", check},
		{"inspect", "DSN", "show one record", inspect},
		{"resolve", "DSN", "record what a person found out about a request that no program can decide", resolve},
		{"sweep", "DSN", "delete the records that are over, once, and print how many", sweep},
		{"version", "", "print the version of this program", version},
	}
}

const help = `
DSN   postgres://user@host:5432/database
      redis://host:6379/0, rediss:// with TLS
      etcd://host:2379,host:2379
      sqlite:path/to/file
      memory:
      Without the argument it is taken from the environment variable IDEM_DSN, where
      no list of processes shows its password.

"idem COMMAND -h" lists the flags of a command.
`

func usage(w io.Writer) {
	fmt.Fprintln(w, "idem looks at the stores that keep idempotency records.")
	fmt.Fprintln(w)
	for _, c := range commands() {
		fmt.Fprintf(w, "  idem %-16s %s\n", c.name+" "+c.args, c.does)
	}
	fmt.Fprint(w, help)
}

// run is the program without its process: it returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		usage(stderr)
		return statusError
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		usage(stdout)
		return statusOK
	}
	for _, cmd := range commands() {
		if cmd.name != args[0] {
			continue
		}
		status, err := cmd.run(ctx, newCall(cmd, args[1:], stdout, stderr))
		switch {
		case errors.Is(err, flag.ErrHelp):
			return statusOK
		case err != nil && ctx.Err() != nil:
			fmt.Fprintf(stderr, "idem %s: interrupted\n", cmd.name)
			return statusSignal
		case err != nil:
			fmt.Fprintf(stderr, "idem %s: %v\n", cmd.name, err)
			return statusError
		}
		return status
	}
	// The word may be a DSN and hold a password: it is not repeated.
	fmt.Fprintln(stderr, `idem: the first argument is none of the commands; "idem help" lists them`)
	return statusError
}

func version(_ context.Context, c *call) (int, error) {
	if err := c.parseNone(); err != nil {
		return 0, err
	}
	v := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		v = info.Main.Version
	}
	fmt.Fprintf(c.stdout, "idem %s (%s %s/%s)\n", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return statusOK, nil
}
