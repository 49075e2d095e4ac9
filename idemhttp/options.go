package idemhttp

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
)

// Defaults of the options.
const (
	DefaultHeader    = "Idempotency-Key"
	DefaultMaxBody   = 1 << 20
	DefaultMaxBuffer = 64 << 20
	DefaultTimeout   = 5 * time.Minute
)

// Option changes how a middleware works.
type Option func(*config)

type config struct {
	scope     ScopeFunc
	header    string // canonical
	syntax    KeySyntax
	optional  bool
	methods   []string
	operation func(*http.Request) string

	maxBody   int64
	maxBuffer int
	timeout   time.Duration
	cancels   bool // the client's going away ends the handler's context
	streaming bool
	payload   bool
	stored    func(status int) bool
	onError   func(*http.Request, error)
}

// WithHeader sets the name of the key's header field, Idempotency-Key by default.
func WithHeader(name string) Option { return func(c *config) { c.header = name } }

// WithKeySyntax sets which spellings and lengths of a key are understood. The
// executor bounds the length as well (idem.WithKeyLength).
func WithKeySyntax(s KeySyntax) Option { return func(c *config) { c.syntax = s } }

// Optional lets requests without a key through to the handler, which is not
// protected then. By default they get 400.
func Optional() Option { return func(c *config) { c.optional = true } }

// WithMethods sets which methods are protected, POST and PATCH by default. Requests
// of others pass through untouched, with or without a key.
func WithMethods(methods ...string) Option {
	return func(c *config) { c.methods = slices.Clone(methods) }
}

// WithOperation sets what names the operation of a request in metrics and records,
// 1 to 255 bytes of UTF-8 from a bounded set. The default is the pattern of http.ServeMux that
// matched, where the mux is outside of the middleware, and else the method.
func WithOperation(f func(*http.Request) string) Option {
	return func(c *config) { c.operation = f }
}

// WithMaxBody sets how many bytes the body of a request may have, 1 MiB by default.
// It is kept in memory while the request runs. A larger one gets 413.
func WithMaxBody(bytes int64) Option { return func(c *config) { c.maxBody = bytes } }

// WithPayload stores the body of a request with its record until it is completed, for an
// idem.Completer that ends what its client never came back for: the payload of the
// operation's handler is the body, as it came. The limit is backend.MaxPayload, which is
// the default of WithMaxBody.
func WithPayload() Option { return func(c *config) { c.payload = true } }

// WithMaxBuffer sets how many bytes of an answer are kept in memory before it is
// sent, 64 MiB by default. It is a guard for the process; what is stored is limited by
// idem.WithMaxResponse.
//
// On the leased path, an answer that grows over it is completed without an
// answer to keep and sent from then on as it is written, as with [WithStreaming].
// On the transaction path, or if it would not be stored anyway, Write
// fails, nothing is stored and the client gets 500.
func WithMaxBuffer(bytes int) Option { return func(c *config) { c.maxBuffer = bytes } }

// WithTimeout sets when the handler's context ends, 5 minutes after the body was
// read by default. It includes the time a duplicate waits for the first request.
func WithTimeout(d time.Duration) Option { return func(c *config) { c.timeout = d } }

// WithClientCancel lets the handler's context end when the client goes away, as
// it does without the middleware. An answer that is made all the same is stored.
func WithClientCancel() Option { return func(c *config) { c.cancels = true } }

// WithStreaming lets handlers flush and hijack, on the leased path. The first time
// they do, the record is completed with a tombstone: the handler is never run again for
// the key, not even if it fails half way. Answers with a status that is not stored
// can't be flushed.
func WithStreaming() Option { return func(c *config) { c.streaming = true } }

// WithStored decides by status which answers are stored. See [Stored] for the
// default.
func WithStored(stored func(status int) bool) Option {
	return func(c *config) { c.stored = stored }
}

// WithErrorHandler has f called with every error that is answered with a 5xx
// problem, before it is. The default logs it with slog.Default.
func WithErrorHandler(f func(*http.Request, error)) Option {
	return func(c *config) { c.onError = f }
}

// Stored is the default of [WithStored]: 2xx, 3xx and 4xx, but for the statuses
// that a later try with the same request can get rid of: 401, 403, 408, 425 and 429. A
// handler's own 409 is stored; if it is a conflict that passes, the handler says so
// with [Transient].
func Stored(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout,
		http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status >= 200 && status < 500
}

func newConfig(scope ScopeFunc, opts []Option) (*config, error) {
	c := &config{
		scope:     scope,
		header:    DefaultHeader,
		methods:   []string{http.MethodPost, http.MethodPatch},
		operation: operation,
		maxBody:   DefaultMaxBody,
		maxBuffer: DefaultMaxBuffer,
		timeout:   DefaultTimeout,
		stored:    Stored,
		onError: func(r *http.Request, err error) {
			slog.ErrorContext(r.Context(), "idempotent request failed", slog.String("error", err.Error()))
		},
	}
	for _, o := range opts {
		if o == nil {
			return nil, invalid("an option is nil")
		}
		o(c)
	}
	c.header = http.CanonicalHeaderKey(c.header)
	return c, c.validate()
}

func (c *config) validate() error {
	switch {
	case c.scope == nil:
		return invalid("there is no scope function; a key belongs to somebody")
	case !isToken(c.header):
		return invalid("the key's header has no valid name (RFC 9110, section 5.1)")
	case len(c.methods) == 0:
		return invalid("no method is protected")
	case c.operation == nil, c.stored == nil, c.onError == nil:
		return invalid("an option was given nil")
	case c.payload && c.maxBody > backend.MaxPayload:
		return invalid("bodies of up to %d bytes can't be stored as payloads, the limit is %d", c.maxBody, backend.MaxPayload)
	case c.maxBody < 0, c.maxBuffer < 0:
		return invalid("a limit is negative")
	case c.timeout <= 0:
		return invalid("the handler's timeout is %v", c.timeout)
	case c.syntax.MinLen < 0, c.syntax.MaxLen < 0, c.syntax.MaxLen > backend.MaxKeyPart:
		return invalid("keys of %d to %d bytes; 1 to %d are possible", c.syntax.MinLen, c.syntax.MaxLen, backend.MaxKeyPart)
	}
	for _, m := range c.methods {
		if !isToken(m) || len(m) > backend.MaxMethod {
			return invalid("the method %q is none (RFC 9110, section 9.1), or longer than %d bytes", m, backend.MaxMethod)
		}
	}
	return nil
}

func operation(r *http.Request) string {
	if r.Pattern != "" {
		return r.Pattern
	}
	return r.Method
}

func invalid(format string, args ...any) error {
	return &backend.Error{Op: "idemhttp", Kind: idem.ErrInvalid, Hint: fmt.Sprintf(format, args...)}
}
