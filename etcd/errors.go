package etcd

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/idem-go/idem/backend"
)

func invalid(hint string) error {
	return &backend.Error{Op: "etcd: new", Kind: backend.ErrInvalid, Hint: hint}
}

// code is the gRPC code of an error.
func code(err error) codes.Code {
	if e, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		return e.Code()
	}
	return status.Code(err)
}

// writeError gives the error of a Txn that may have been sent. Only what the server
// refuses by itself is known not to be applied. Unavailable, DeadlineExceeded and
// Canceled say nothing: the server may have got, and may still apply, what was sent.
// So may it with ErrNoSpace, see Backend.outOfSpace. size is how many bytes were to be
// stored.
func writeError(ctx context.Context, op string, err error, size int) error {
	e := &backend.Error{Op: op, Err: err}
	switch c := code(err); {
	case errors.Is(err, rpctypes.ErrNoSpace):
		e.Hint = noSpaceHint
	case errors.Is(err, rpctypes.ErrRequestTooLarge), c == codes.ResourceExhausted && !isEtcd(err) && size >= grpcOverhead:
		e.Kind, e.Hint = backend.ErrTooLarge, "--max-request-bytes of the server or MaxCallSendMsgSize of the client is lower than WithMaxValue and 256 KiB"
	case c == codes.InvalidArgument, c == codes.NotFound, c == codes.FailedPrecondition:
		e.Kind = backend.ErrUnavailable
	case c == codes.PermissionDenied, c == codes.Unauthenticated:
		e.Kind, e.Hint = backend.ErrUnavailable, "the user needs read and write access to all keys with the prefix"
	case c == codes.DataLoss:
		e.Kind, e.Hint = backend.ErrUnavailable, "the cluster's alarm CORRUPT is raised"
	case c == codes.ResourceExhausted: // too many requests
		e.Kind = backend.ErrUnavailable
	}
	return withContext(ctx, e)
}

// grpcOverhead is what a server takes in excess of --max-request-bytes before gRPC itself
// refuses a message, without an error of etcd's.
const grpcOverhead = 512 << 10

func isEtcd(err error) bool {
	_, ok := errors.AsType[rpctypes.EtcdError](err)
	return ok
}

const noSpaceHint = "the server's space quota is used up: compact, defragment and disarm the alarm NOSPACE"

// readError gives the error of what changes no record.
func readError(ctx context.Context, op string, err error) error {
	e := &backend.Error{Op: op, Kind: backend.ErrUnavailable, Err: err}
	switch c := code(err); {
	case errors.Is(err, rpctypes.ErrNoSpace):
		e.Hint = noSpaceHint
	case c == codes.PermissionDenied, c == codes.Unauthenticated:
		e.Hint = "the user needs read and write access to all keys with the prefix"
	}
	return withContext(ctx, e)
}

// withContext adds the end of the context as the cause, where the driver says no more
// than a code.
func withContext(ctx context.Context, e *backend.Error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(e.Err, cause) {
		e.Err = fmt.Errorf("%w: %w", cause, e.Err)
	}
	return e
}

// contended is the error of an operation that others always came before.
func contended(op string) error {
	return &backend.Error{Op: op, Kind: backend.ErrUnavailable, Hint: "other operations on the key always came first; try again"}
}

// validate reports whether the claim keeps the contract and asks for no more than this
// store can do. To ignore Remember would free a key that the caller takes for remembered.
func validate(c backend.Claim) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if c.Remember > 0 {
		return &backend.Error{Op: "etcd: claim", Kind: backend.ErrInvalid, Hint: "this store forgets a completed record when its retention is over: leave out idem.WithRemember, or use a store that remembers"}
	}
	return nil
}
