package crash

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/etcd"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/postgres"
	"github.com/idem-go/idem/redis"
	"github.com/idem-go/idem/sqlite"
)

// place is where a store is, for the test and its children.
type place struct {
	Store, Address, Prefix string
}

// places are the stores that more than one process can use.
var places = []struct {
	name string
	at   func(*testing.T) place
}{
	{"sqlite", func(t *testing.T) place { return place{Store: "sqlite", Address: filepath.Join(t.TempDir(), "a.db")} }},
	{"postgres", func(t *testing.T) place { return place{Store: "postgres", Address: testenv.Postgres(t).URL} }},
	{"redis", func(t *testing.T) place {
		srv := testenv.Redis(t)
		return place{Store: "redis", Address: srv.URL, Prefix: srv.Prefix}
	}},
	{"etcd", func(t *testing.T) place {
		srv := testenv.Etcd(t)
		return place{Store: "etcd", Address: srv.Endpoints[0], Prefix: srv.Prefix}
	}},
}

// store is an open backend, all of whose methods are points.
type store struct {
	backend.Backend
	tx      transactions // nil: it has none
	migrate func(context.Context) error
	close   func()
}

// transactions are what a Transactor can do besides. The rows are those of a table
// beside the records.
type transactions interface {
	phase(ctx context.Context, run *idem.Run, name, request string) (string, error)
	completeTx(ctx context.Context, run *idem.Run, name, request, answer string) (string, error)
	doTx(ctx context.Context, req idem.Request, name string, opts ...idem.Option) (idem.Result[string], error)
	rows(ctx context.Context, name, request string) (int, error)
}

const table = `CREATE TABLE effects (name TEXT, request TEXT)`

func (at place) open(ctx context.Context, p *points) (*store, error) {
	switch at.Store {
	case "sqlite":
		return openSQLite(ctx, at, p)
	case "postgres":
		return openPostgres(ctx, at, p)
	case "redis":
		opts, err := goredis.ParseURL(at.Address)
		if err != nil {
			return nil, err
		}
		client := goredis.NewClient(opts)
		b, err := redis.New(client, redis.WithPrefix(at.Prefix))
		return &store{Backend: watch(b, p), close: func() { _ = client.Close() }}, err
	case "etcd":
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{at.Address}, Logger: zap.NewNop(), Context: context.WithoutCancel(ctx)})
		if err != nil {
			return nil, err
		}
		b, err := etcd.New(client, etcd.WithPrefix(at.Prefix))
		return &store{Backend: watch(b, p), close: func() { _ = client.Close() }}, err
	}
	return nil, errors.New("no store is called " + at.Store)
}

func openSQLite(_ context.Context, at place, p *points) (*store, error) {
	db, err := sqlite.Open(at.Address)
	if err != nil {
		return nil, err
	}
	// Machines whose disk is slow have many processes here.
	b, err := sqlite.New(db, sqlite.WithBusyBudget(20*time.Second))
	if err != nil {
		return nil, err
	}
	w := watchTx(b, p)
	return &store{
		Backend: w,
		tx: &within[*sql.Tx]{w, func(ctx context.Context, tx *sql.Tx, name, request string) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES (?, ?)", name, request)
			return err
		}, func(ctx context.Context, name, request string) (n int, err error) {
			return n, db.QueryRowContext(ctx, "SELECT count(*) FROM effects WHERE name = ? AND request = ?", name, request).Scan(&n)
		}},
		migrate: func(ctx context.Context) error {
			_, err := db.ExecContext(ctx, table)
			return errors.Join(sqlite.Migrate(ctx, db), err)
		},
		close: func() { _ = db.Close() },
	}, nil
}

func openPostgres(ctx context.Context, at place, p *points) (*store, error) {
	cfg, err := pgxpool.ParseConfig(at.Address)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = 8
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), cfg)
	if err != nil {
		return nil, err
	}
	b, err := postgres.New(pool)
	if err != nil {
		return nil, err
	}
	w := watchTx(b, p)
	return &store{
		Backend: w,
		tx: &within[pgx.Tx]{w, func(ctx context.Context, tx pgx.Tx, name, request string) error {
			_, err := tx.Exec(ctx, "INSERT INTO effects VALUES ($1, $2)", name, request)
			return err
		}, func(ctx context.Context, name, request string) (n int, err error) {
			return n, pool.QueryRow(ctx, "SELECT count(*) FROM effects WHERE name = $1 AND request = $2", name, request).Scan(&n)
		}},
		migrate: func(ctx context.Context) error {
			_, err := pool.Exec(ctx, table)
			return errors.Join(postgres.Migrate(ctx, pool), err)
		},
		close: pool.Close,
	}, nil
}

// within is what one kind of transactions can do.
type within[T any] struct {
	b      backend.Transactor[T]
	insert func(ctx context.Context, tx T, name, request string) error
	count  func(ctx context.Context, name, request string) (int, error)
}

func (w *within[T]) phase(ctx context.Context, run *idem.Run, name, request string) (string, error) {
	return idem.PhaseTx(ctx, run, w.b, name, func(ctx context.Context, tx T) (string, error) {
		return result(name, request), w.insert(ctx, tx, name, request)
	})
}

func (w *within[T]) completeTx(ctx context.Context, run *idem.Run, name, request, answer string) (string, error) {
	return idem.CompleteTx(ctx, run, w.b, func(ctx context.Context, tx T) (string, error) {
		return answer, w.insert(ctx, tx, name, request)
	})
}

func (w *within[T]) doTx(ctx context.Context, req idem.Request, name string, opts ...idem.Option) (idem.Result[string], error) {
	e, err := idem.NewTx(w.b, opts...)
	if err != nil {
		return idem.Result[string]{}, err
	}
	return idem.DoTx(ctx, e, req, func(ctx context.Context, tx T) (string, error) {
		return result(name, req.Key), w.insert(ctx, tx, name, req.Key)
	})
}

func (w *within[T]) rows(ctx context.Context, name, request string) (int, error) {
	return w.count(ctx, name, request)
}
