package postgres_test

import (
	"testing"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/conformance"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/postgres"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Store {
		srv := testenv.Postgres(t)
		if err := postgres.Migrate(t.Context(), open(t, srv.URL)); err != nil {
			t.Fatal(err)
		}
		return conformance.Store{Open: func(conformance.T) backend.Backend {
			return newBackend(t, open(t, srv.URL, size(4)))
		}}
	})
}
