package backend

import "context"

// Lister is an optional interface of a Backend: it finds runs that nobody goes on
// with.
type Lister interface {
	Backend

	// Lapsed calls yield for each started record whose lease is over, until yield
	// returns false, and returns nil then, too. The order is the store's. A record that
	// is lapsed while the call lasts is found once; one that lapses, is claimed or is put
	// off by a sweep meanwhile may be found or not, or twice. No connection or lock is held during yield, and
	// nothing is changed.
	//
	// A store that has an index for this reads what is started; the others read
	// everything.
	Lapsed(ctx context.Context, yield func(Lapse) bool) error
}

// Lapse is a started record whose lease is over.
type Lapse struct {
	Key       Key
	Operation string
	Token     Token // of its last claim
	Attempt   int
}
