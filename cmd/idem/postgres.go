package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/conformance"
	"github.com/idem-go/idem/postgres"
)

// poolSize is the most connections of one handle.
const poolSize = 4

type postgresPlace struct {
	cfg  *pgxpool.Config
	opts []postgres.Option
}

func locatePostgres(dsn string, o options) (place, error) {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil { // it repeats the DSN
		return nil, errors.New("the DSN is no URL of a PostgreSQL server: write postgres://user@host:5432/database, with special characters in user and password percent-encoded; values after ? are those of libpq")
	}
	cfg.MaxConns = poolSize
	if cfg.ConnConfig.RuntimeParams["application_name"] == "" {
		cfg.ConnConfig.RuntimeParams["application_name"] = "idem"
	}
	p := postgresPlace{cfg: cfg}
	switch {
	case o.table != "":
		p.opts = append(p.opts, postgres.WithTable(o.schema, o.table))
	case o.schema != "":
		p.opts = append(p.opts, postgres.WithTable(o.schema, "idem_keys"))
	}
	return p, nil
}

func (p postgresPlace) String() string {
	c := p.cfg.ConnConfig
	at := c.Host // the directory of a socket
	if !strings.HasPrefix(at, "/") {
		at = net.JoinHostPort(at, strconv.Itoa(int(c.Port)))
	}
	return at + ", database " + c.Database
}

func (p postgresPlace) pool(ctx context.Context) (*pgxpool.Pool, error) {
	return pgxpool.NewWithConfig(ctx, p.cfg.Copy())
}

func (p postgresPlace) open(ctx context.Context) (backend.Backend, func(), error) {
	pool, err := p.pool(ctx)
	if err != nil {
		return nil, nil, err
	}
	b, err := postgres.New(pool, p.opts...)
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	return b, pool.Close, nil
}

// postgresLab is a schema. Every case has a table in it, and one for the effects.
type postgresLab struct {
	postgresPlace
	schema  string
	harness *pgxpool.Pool
	cases   atomic.Int64
}

func (p postgresPlace) lab(ctx context.Context) (*lab, error) {
	pool, err := p.pool(ctx)
	if err != nil {
		return nil, err
	}
	l := &postgresLab{postgresPlace: p, schema: "idem_conformance_" + strings.ToLower(rand.Text()), harness: pool}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, cantAsk(p, err)
	}
	// Not cut off by an interrupt: the schema could then be made after it was removed.
	create, cancel := context.WithTimeout(context.WithoutCancel(ctx), askBound)
	defer cancel()
	if _, err := pool.Exec(create, "CREATE SCHEMA "+l.schema); err != nil {
		err = fmt.Errorf("create a schema for the cases, for which the role needs CREATE on the database: %w", err)
		return nil, errors.Join(err, atLast(ctx, l.remove)) // it may have been made all the same
	}
	return &lab{
		name: "schema " + l.schema, remove: l.remove, store: l.store,
		checkTx: func(s suite) *conformance.Report { return checkTx(s, l.txStore) },
	}, nil
}

func (l *postgresLab) remove(ctx context.Context) error {
	defer within(5*time.Second, l.harness.Close)
	if _, err := l.harness.Exec(ctx, "DROP SCHEMA IF EXISTS "+l.schema+" CASCADE"); err != nil {
		return fmt.Errorf("DROP SCHEMA %s CASCADE: %w", l.schema, err)
	}
	return nil
}

// table makes a table for a case.
func (l *postgresLab) table(t conformance.T) string {
	name := fmt.Sprintf("case_%d", l.cases.Add(1))
	if err := postgres.Migrate(t.Context(), l.harness, postgres.WithTable(l.schema, name)); err != nil {
		t.Fatalf("make a table for the case: %v", err)
	}
	return name
}

// handle has a pool of its own, as another process would.
func (l *postgresLab) handle(t conformance.T, table string) (*postgres.Backend, *pgxpool.Pool) {
	pool, err := l.pool(t.Context())
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { within(5*time.Second, pool.Close) })
	b, err := postgres.New(pool, postgres.WithTable(l.schema, table))
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return b, pool
}

func (l *postgresLab) store(t conformance.T) conformance.Store {
	table := l.table(t)
	return conformance.Store{Open: func(t conformance.T) backend.Backend {
		b, _ := l.handle(t, table)
		return b
	}}
}

func (l *postgresLab) txStore(t conformance.T) conformance.TxStore[pgx.Tx] {
	table := l.table(t)
	effects := pgx.Identifier{l.schema, table + "_effects"}.Sanitize()
	if _, err := l.harness.Exec(t.Context(), "CREATE TABLE "+effects+" (name text NOT NULL)"); err != nil {
		t.Fatalf("make a table for the effects: %v", err)
	}
	return conformance.TxStore[pgx.Tx]{
		Open: func(t conformance.T) conformance.TxHandle[pgx.Tx] {
			b, pool := l.handle(t, table)
			return conformance.TxHandle[pgx.Tx]{
				Transactor: b,
				InTx:       func(ctx context.Context, f func(tx pgx.Tx) error) error { return pgx.BeginFunc(ctx, pool, f) },
			}
		},
		Put: func(ctx context.Context, tx pgx.Tx, name string) error {
			_, err := tx.Exec(ctx, "INSERT INTO "+effects+" VALUES ($1)", name)
			return err
		},
		Count: func(ctx context.Context, name string) (n int, err error) {
			err = l.harness.QueryRow(ctx, "SELECT count(*) FROM "+effects+" WHERE name = $1", name).Scan(&n)
			return n, err
		},
	}
}
