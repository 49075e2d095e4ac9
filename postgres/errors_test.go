package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/idem-go/idem/backend"
)

// What proves that nothing was done, and what it means.
func TestWriteError(t *testing.T) {
	t.Parallel()
	pg := func(severity, code string) error {
		return fmt.Errorf("wrapped: %w", &pgconn.PgError{Severity: "FEHLER", SeverityUnlocalized: severity, Code: code})
	}
	for _, tt := range []struct {
		err  error
		want error // nil: it may have been done
	}{
		{pg("ERROR", "40001"), backend.ErrRetryTx},
		{pg("ERROR", "40P01"), backend.ErrRetryTx},
		{pg("ERROR", "42P01"), backend.ErrUnavailable},
		{pg("ERROR", "57014"), backend.ErrUnavailable},
		{pg("ERROR", "53100"), backend.ErrUnavailable},
		{pg("ERROR", "54000"), backend.ErrTooLarge},
		{pg("ERROR", "23505"), backend.ErrInvalid},
		{pg("ERROR", "22021"), backend.ErrInvalid},
		{pg("ERROR", "P0001"), backend.ErrInvalid},
		{pg("ERROR", "25P02"), backend.ErrInvalid},
		{pg("FATAL", "25P03"), backend.ErrUnavailable}, // only ever before COMMIT
		{pg("FATAL", "57P01"), nil},                    // an administrator, perhaps after COMMIT
		{pg("PANIC", "XX000"), nil},
		{pg("FATAL", "08P01"), nil}, // a pooler that has lost its server
		{pg("ERROR", "08P01"), nil},
		{&pgconn.PgError{Severity: "ERROR", Code: "40001"}, backend.ErrRetryTx}, // servers before 9.6
		{io.ErrUnexpectedEOF, nil},
		{context.DeadlineExceeded, nil},
	} {
		err := writeError(t.Context(), "test", tt.err)
		var e *backend.Error
		if !errors.As(err, &e) || e.Kind != tt.want {
			t.Errorf("writeError(%v) = %v, want kind %v", tt.err, err, tt.want)
		}
		if !errors.Is(err, tt.err) {
			t.Errorf("writeError(%v) = %v, want the driver's error within", tt.err, err)
		}
		if err := readError(t.Context(), "test", tt.err); !backend.NotApplied(err) {
			t.Errorf("NotApplied(readError(%v)) = false, want true", tt.err)
		}
	}
	if writeError(t.Context(), "test", nil) != nil || readError(t.Context(), "test", nil) != nil {
		t.Error("the error of nil is not nil")
	}
}

// An expires_at index has a name of its own for every table.
func TestIndexName(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	long := "a_table_whose_name_leaves_no_room_for_a_suffix_at_all_as_it_seems"[:maxIdentifier]
	for _, name := range []string{"idem_keys", "t", long, long[:maxIdentifier-1], long[:maxIdentifier-2] + "é", `q"`} {
		got := table{name: name}.index()
		if len(got)-2 > maxIdentifier+1 { // quotes, one of them doubled
			t.Errorf("index of %q = %s, want at most %d bytes", name, got, maxIdentifier)
		}
		if other, ok := seen[got]; ok {
			t.Errorf("tables %q and %q share the index %s", name, other, got)
		}
		seen[got] = name
	}
}
