package httpsuite_test

import (
	"bytes"
	"net"
	"net/http"
	"strings"

	"github.com/idem-go/idem/conformance/httpsuite"
	"github.com/idem-go/idem/idemhttp"
)

// keyFaults are wrong ways to read a key.
var keyFaults = map[string]planted{
	"a missing key is made up": {
		fault:  func(l *layer) { l.missing = true },
		caught: "key/missing", groups: "problem", only: "first key",
	},
	"an optional key is required": {
		fault:  none,
		config: func(c *httpsuite.Config) { c.Optional = true },
		caught: "key/missing", groups: "problem",
	},
	"requests without a key are one": {
		fault: func(l *layer) {
			none := []string{`"00000000-0000-4000-8000-000000000000"`}
			l.lines = func(r *http.Request) []string {
				if lines := r.Header["Idempotency-Key"]; lines != nil {
					return lines
				}
				return none
			}
		},
		config: func(c *httpsuite.Config) { c.Optional = true },
		caught: "key/missing", only: "key",
	},
	"the field is known by one spelling": {
		fault:  none,
		wire:   func(l net.Listener) net.Listener { return spelled{l} },
		caught: "key/field-name",
	},
	"an empty key is none": {
		fault: func(l *layer) {
			l.missing = true
			l.lines = func(r *http.Request) []string {
				if k := r.Header.Get("Idempotency-Key"); k == "" {
					return nil
				}
				return r.Header["Idempotency-Key"]
			}
		},
		config: func(c *httpsuite.Config) { c.Optional = true },
		caught: "key/empty", only: "key/empty key/missing key/quoted",
	},
	"blank keys are keys": {
		fault: parser(func(lines []string) (string, error) {
			k, err := idemhttp.KeySyntax{}.Parse(lines)
			if err != nil && len(lines) == 1 && len(lines[0]) > 8 && strings.Trim(lines[0], `" `) == "" {
				return lines[0], nil
			}
			return k, err
		}),
		caught: "key/empty",
	},
	"the first line counts": {
		fault: func(l *layer) {
			l.lines = func(r *http.Request) []string {
				if k := r.Header.Get("Idempotency-Key"); k != "" {
					return []string{k}
				}
				return r.Header["Idempotency-Key"]
			}
		},
		caught: "key/several",
	},
	"lines are joined": {
		fault: func(l *layer) {
			l.lines = func(r *http.Request) []string {
				if lines := r.Header["Idempotency-Key"]; len(lines) > 1 {
					return []string{strings.Join(lines, "")}
				}
				return r.Header["Idempotency-Key"]
			}
			l.parse = loose
		},
		caught: "key/several", only: "first key/several",
	},
	"quotes are part of the key": {
		fault:  parser(func(lines []string) (string, error) { return lines[0], nil }),
		caught: "key/bare", groups: "key problem", only: "first key/bare key/case",
	},
	"keys are trimmed inside of their quotes": {
		fault: parser(func(lines []string) (string, error) {
			k, err := idemhttp.KeySyntax{}.Parse(lines)
			return strings.TrimSpace(k), err
		}),
		caught: "key/quoted",
	},
	"a comma ends the key": {
		fault: parser(func(lines []string) (string, error) {
			for i, l := range lines {
				if strings.Contains(l, ", ") {
					lines[i], _, _ = strings.Cut(l, ", ")
				}
			}
			return idemhttp.KeySyntax{}.Parse(lines)
		}),
		caught: "key/quoted key/several",
	},
	"quotes are cut off, and nothing is unescaped": {
		fault:  parser(loose),
		caught: "key/malformed key/escapes key/parameters", groups: "key problem",
	},
	"escapes are dropped": {
		fault: parser(func(lines []string) (string, error) {
			k, err := idemhttp.KeySyntax{}.Parse(lines)
			return strings.ReplaceAll(k, `\`, ""), err
		}),
		caught: "key/escapes",
	},
	"any letter can be escaped": {
		fault: parser(func(lines []string) (string, error) {
			if len(lines) == 1 {
				lines[0] = strings.NewReplacer(`\n`, `\\n`, `\,`, `\\,`).Replace(lines[0])
			}
			return idemhttp.KeySyntax{}.Parse(lines)
		}),
		caught: "key/escapes",
	},
	"single quotes are quotes": {
		fault: parser(func(lines []string) (string, error) {
			if len(lines) == 1 && strings.HasPrefix(lines[0], "'") {
				return strings.Trim(lines[0], "'"), nil
			}
			return idemhttp.KeySyntax{}.Parse(lines)
		}),
		caught: "key/malformed",
	},
	"what follows the string is dropped": {
		fault: parser(func(lines []string) (string, error) {
			if len(lines) == 1 && strings.HasSuffix(lines[0], `"x`) {
				lines[0] = strings.TrimSuffix(lines[0], "x")
			}
			return idemhttp.KeySyntax{}.Parse(lines)
		}),
		caught: "key/malformed",
	},
	"any bytes are a key": {
		fault: parser(func(lines []string) (string, error) {
			if len(lines) == 1 && strings.ContainsFunc(lines[0], func(r rune) bool { return r > '~' || r == '\t' }) {
				return lines[0], nil
			}
			return idemhttp.KeySyntax{}.Parse(lines)
		}),
		caught: "key/characters",
	},
	"parameters are part of the key": {
		fault: parser(func(lines []string) (string, error) {
			k, err := idemhttp.KeySyntax{}.Parse(lines)
			if err == nil && strings.Contains(lines[0], `";`) {
				return lines[0], nil
			}
			return k, err
		}),
		caught: "key/parameters",
	},
	"parameters are refused": {
		fault: parser(func(lines []string) (string, error) {
			if len(lines) == 1 && strings.Contains(lines[0], `";`) {
				return "", idemhttp.ErrKeyMalformed
			}
			return idemhttp.KeySyntax{}.Parse(lines)
		}),
		caught: "key/parameters",
	},
	"keys are in lower case": {
		fault: parser(func(lines []string) (string, error) {
			k, err := idemhttp.KeySyntax{}.Parse(lines)
			return strings.ToLower(k), err
		}),
		caught: "key/case",
	},
	"strict, though it says it isn't": {
		fault:  parser(idemhttp.KeySyntax{Strict: true}.Parse),
		caught: "key/bare",
	},
	"not strict, though it says it is": {
		fault:  none,
		config: func(c *httpsuite.Config) { c.Strict = true },
		caught: "key/bare",
	},
	"the shortest key is too short": {
		fault:  parser(idemhttp.KeySyntax{MinLen: 9}.Parse),
		caught: "key/length",
	},
	"shorter keys are taken": {
		fault:  parser(idemhttp.KeySyntax{MinLen: 7}.Parse),
		caught: "key/length",
	},
	"longer keys are taken": {
		fault:  parser(idemhttp.KeySyntax{MaxLen: 256}.Parse),
		caught: "key/length",
	},
	"length is counted with the escapes": {
		fault: parser(func(lines []string) (string, error) {
			if len(lines) == 1 && len(lines[0]) > 257 {
				return "", idemhttp.ErrKeyMalformed
			}
			return idemhttp.KeySyntax{}.Parse(lines)
		}),
		caught: "key/length",
	},
	"long keys are cut": {
		fault: parser(func(lines []string) (string, error) {
			k, err := idemhttp.KeySyntax{MaxLen: 1000}.Parse(lines)
			return k[:min(len(k), 255)], err
		}),
		caught: "key/length",
	},
}

// loose takes whatever there is.
func loose(lines []string) (string, error) {
	k := strings.Trim(strings.Join(lines, ","), `"`)
	if strings.TrimSpace(k) == "" {
		return "", idemhttp.ErrKeyMalformed
	}
	return k, nil
}

func parser(f func(lines []string) (string, error)) func(l *layer) {
	return func(l *layer) {
		l.parse = func(lines []string) (string, error) {
			if len(lines) == 0 {
				return "", idemhttp.ErrKeyMissing
			}
			return f(append([]string(nil), lines...))
		}
	}
}

// spelled is a server that doesn't see the field in lower case. net/http can't be told
// to, so that it doesn't get to see it.
type spelled struct{ net.Listener }

func (l spelled) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return spelledConn{c}, err
}

type spelledConn struct{ net.Conn }

func (c spelledConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	copy(b, bytes.Replace(b[:n], []byte("idempotency-key:"), []byte("other-fieldname:"), 1))
	return n, err
}
