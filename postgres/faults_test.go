package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/postgres"
)

// faulty is a backend behind a proxy, a second one that reaches the server
// directly, and that one's pool.
func faulty(t testing.TB, change ...func(*pgxpool.Config)) (b *postgres.Backend, proxy *testenv.Proxy, direct *postgres.Backend, pool *pgxpool.Pool) {
	t.Helper()
	direct, pool, srv := migrated(t)
	effectsTable(t, pool)
	proxy = srv.Proxy(t)
	return newBackend(t, open(t, srv.Via(proxy.Addr()), change...)), proxy, direct, pool
}

// modes are all the ways in which pgx can send a statement.
var modes = map[string]pgx.QueryExecMode{
	"cache_statement": pgx.QueryExecModeCacheStatement,
	"cache_describe":  pgx.QueryExecModeCacheDescribe,
	"describe_exec":   pgx.QueryExecModeDescribeExec,
	"exec":            pgx.QueryExecModeExec,
	"simple_protocol": pgx.QueryExecModeSimpleProtocol,
}

func mode(m pgx.QueryExecMode) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = m }
}

// commits matches the message that makes the server commit, alone or behind others.
func commits(u testenv.Unit) bool {
	return (u.Type == 'E' || u.Type == 'Q') && strings.HasSuffix(u.SQL, "commit")
}

// wantMaybe checks that an error does not claim to know that nothing was done.
func wantMaybe(t testing.TB, call string, err error) {
	t.Helper()
	if err == nil || backend.NotApplied(err) {
		t.Errorf("%s = %v, want an error of unknown outcome", call, err)
	}
}

// PG-12, hard case 10: the answer of a COMMIT is lost. Transacting again with the
// same claim finds out, and the effect happens once.
func TestCommitWithoutAnswer(t *testing.T) {
	t.Parallel()
	for name, m := range modes {
		for _, arrives := range []bool{true, false} {
			do := testenv.CutBefore
			if arrives {
				do = testenv.CutAfter
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				b, proxy, direct, pool := faulty(t, mode(m))
				c := request("key")
				// Warm up, so that the batch is one round trip.
				if _, err := b.Transact(t.Context(), request("other"), writes("")); err != nil {
					t.Fatal(err)
				}
				cut := proxy.Add(testenv.Rule{On: testenv.ToServer, Match: commits, Do: do})
				_, err := b.Transact(t.Context(), c, writes("once"))
				<-cut.Fired()
				wantMaybe(t, "Transact", err)
				c.Wait = 10 * time.Second
				ran := 0
				got, err := b.Transact(t.Context(), c, func(ctx context.Context, tx pgx.Tx, h backend.Claimed) (backend.Effect, error) {
					ran++
					return writes("once")(ctx, tx, h)
				})
				if err != nil || got.Record.ClaimID != c.ID || got.Record.Status != backend.Completed || got.Acquired == arrives {
					t.Errorf("Transact again = acquired %v (%v), %v, want its own completed record, acquired %v", got.Acquired, got.Record.Status, err, !arrives)
				}
				if (ran == 0) != arrives {
					t.Errorf("the effect ran %d times more where the COMMIT arrived = %v", ran, arrives)
				}
				wantRecord(t, direct, c.Key, backend.Completed, "once")
				wantEffects(t, pool, 2)
			})
		}
	}
}

// PG-12: the same for a COMMIT that travels alone, in a transaction of the caller's.
func TestBoundCommitWithoutAnswer(t *testing.T) {
	t.Parallel()
	for _, arrives := range []bool{true, false} {
		b, proxy, direct, pool := faulty(t)
		c := request("key")
		do := testenv.CutBefore
		if arrives {
			do = testenv.CutAfter
		}
		proxy.Add(testenv.Rule{On: testenv.ToServer, Match: commits, Do: do})
		run := func(tx pgx.Tx) error {
			v := b.Bind(tx)
			got, err := v.Claim(t.Context(), c)
			if err != nil || !got.Acquired {
				return errors.Join(err, errEffect)
			}
			exec2(t, tx, `INSERT INTO effects (key) VALUES ('key')`)
			return v.Complete(t.Context(), got.Record.Holder(), completion("once"))
		}
		proxied := open(t, via(t, pool, proxy))
		if err := pgx.BeginFunc(t.Context(), proxied, run); err == nil {
			t.Error("Commit = nil, want an error")
		}
		// pgx says of this error that it is safe to retry. It is not: look.
		err := pgx.BeginFunc(t.Context(), proxied, run)
		if arrives != errors.Is(err, errEffect) {
			t.Errorf("running it again where the COMMIT arrived (%v) = %v", arrives, err)
		}
		wantRecord(t, direct, c.Key, backend.Completed, "once")
		wantEffects(t, pool, 1)
	}
}

// via is the URL of a pool's database through a proxy.
func via(t testing.TB, pool *pgxpool.Pool, proxy *testenv.Proxy) string {
	t.Helper()
	c := pool.Config().ConnConfig
	return "postgres://" + c.User + ":" + c.Password + "@" + proxy.Addr() + "/" + c.Database + "?sslmode=disable"
}

// Hard case 10: a COMMIT stuck in the network. Until it is through, its record can't be
// seen and its effect must not run again.
func TestCommitStuckInTheNetwork(t *testing.T) {
	t.Parallel()
	b, proxy, direct, pool := faulty(t)
	c := request("key")
	c.Lease = 4 * time.Second
	if _, err := b.Transact(t.Context(), request("other"), writes("")); err != nil {
		t.Fatal(err)
	}
	held := proxy.Add(testenv.Rule{On: testenv.ToServer, Match: commits, Do: testenv.Hold})
	_, err := b.Transact(t.Context(), c, writes("once"))
	wantMaybe(t, "Transact", err)
	if _, err := b.Get(t.Context(), c.Key); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("Get = %v, want ErrNotFound: nothing is committed", err)
	}
	c.Wait = 100 * time.Millisecond
	got, err := b.Transact(t.Context(), c, never(t))
	if err != nil || !got.Hidden {
		t.Errorf("Transact again = %+v, %v, want hidden", got, err)
	}
	c.Wait = 10 * time.Second
	answer := inBackground(func() (backend.Claimed, error) { return b.Transact(t.Context(), c, never(t)) })
	waiting(t, pool, 1)
	held.Release()
	if a := <-answer; a.err != nil || a.got.Acquired || a.got.Record.ClaimID != c.ID || a.got.Record.Status != backend.Completed {
		t.Errorf("Transact again = acquired %v (%v), %v, want its own completed record", a.got.Acquired, a.got.Record.Status, a.err)
	}
	wantRecord(t, direct, c.Key, backend.Completed, "once")
	wantEffects(t, pool, 2)
}

// Before COMMIT is sent a lost connection is proof that nothing was done.
func TestConnectionLostInTheEffect(t *testing.T) {
	t.Parallel()
	b, proxy, direct, pool := faulty(t)
	c := request("key")
	_, err := b.Transact(t.Context(), c, func(ctx context.Context, tx pgx.Tx, h backend.Claimed) (backend.Effect, error) {
		_, err := writes("x")(ctx, tx, h)
		proxy.CutAll()
		_, lost := tx.Exec(ctx, `SELECT 1`)
		if lost == nil {
			t.Error("Exec on a cut connection = nil, want an error")
		}
		return backend.Effect{Response: response("x")}, err
	})
	if !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("Transact = %v, want ErrUnavailable", err)
	}
	cut := proxy.Add(testenv.Rule{On: testenv.ToServer, Match: testenv.Runs("begin"), Do: testenv.CutAfter})
	_, err = b.Transact(t.Context(), c, never(t))
	<-cut.Fired()
	if !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("Transact whose claim got no answer = %v, want ErrUnavailable", err)
	}
	eventually(t, "the server has rolled back", func() bool {
		got, err := direct.Transact(t.Context(), c, writes("x"))
		return err == nil && got.Acquired
	})
	wantEffects(t, pool, 1)
}

// Field report 8: one's own retry after a lost answer is not a rival.
func TestAnswersLost(t *testing.T) {
	t.Parallel()
	b, proxy, direct, _ := faulty(t)
	acquire(t, b, request("warm up"))
	lose := func(statement string) {
		proxy.Add(testenv.Rule{On: testenv.ToServer, Match: testenv.Runs(statement), Do: testenv.CutAfter})
	}
	c := request("key")
	lose("insert into")
	_, err := b.Claim(t.Context(), c)
	wantMaybe(t, "Claim", err)
	stored, err := direct.Get(t.Context(), c.Key)
	if err != nil || stored.ClaimID != c.ID {
		t.Fatalf("Get = %x, %v, want the claim's record", stored.ClaimID, err)
	}
	again := acquire(t, b, c)
	if again.Token != stored.Token || again.Attempt != 1 {
		t.Errorf("Claim again = token %d, attempt %d, want %d and 1", again.Token, again.Attempt, stored.Token)
	}
	l := again.Holder()
	for _, w := range []struct {
		name, statement string
		write           func() error
	}{
		{"Renew", "set locked_until", func() error { return b.Renew(t.Context(), l, time.Hour) }},
		{"Checkpoint", "recovery_point = $8", func() error {
			return b.Checkpoint(t.Context(), l, backend.Checkpoint{Sequence: 1, Point: "p", State: []byte("s")})
		}},
		{"Complete", "status = 'completed'", func() error {
			return b.Complete(t.Context(), l, backend.Completion{Sequence: 2, Response: response("once")})
		}},
	} {
		lose(w.statement)
		wantMaybe(t, w.name, w.write())
		if err := w.write(); err != nil {
			t.Errorf("%s again = %v, want nil", w.name, err)
		}
	}
	wantRecord(t, direct, c.Key, backend.Completed, "once")

	c = request("released")
	l = acquire(t, b, c).Holder()
	lose("delete from")
	wantMaybe(t, "Release", b.Release(t.Context(), l))
	if err := b.Release(t.Context(), l); err != nil {
		t.Errorf("Release again = %v, want nil", err)
	}
	wantNoRecord(t, direct, c.Key)
}

// Hard case 21: the answer of a step is lost. The step is not run again.
func TestStepWithoutAnswer(t *testing.T) {
	t.Parallel()
	for _, arrives := range []bool{true, false} {
		b, proxy, _, pool := faulty(t)
		l := acquire(t, b, request("key")).Holder()
		do := testenv.CutBefore
		if arrives {
			do = testenv.CutAfter
		}
		proxy.Add(testenv.Rule{On: testenv.ToServer, Match: commits, Do: do})
		_, err := b.InLease(t.Context(), l, 1, stepTo("charged"))
		wantMaybe(t, "InLease", err)
		again := stepTo("charged")
		if arrives {
			again = noStep(t)
		}
		r, err := b.InLease(t.Context(), l, 1, again)
		if err != nil || r.RecoveryPoint != "charged" || string(r.State) != "state of charged" {
			t.Errorf("InLease again = %q, %v, want the stored step", r.RecoveryPoint, err)
		}
		wantEffects(t, pool, 1)
	}
}

// Hard case 2: a checkpoint stuck in the network lands after the next one.
func TestCheckpointLandsLate(t *testing.T) {
	t.Parallel()
	b, proxy, direct, pool := faulty(t)
	l := acquire(t, b, request("key")).Holder()
	late := backend.Checkpoint{Sequence: 1, Point: "first", State: []byte("1")}
	held := proxy.Add(testenv.Rule{On: testenv.ToServer, Match: testenv.Runs("recovery_point = $8"), Do: testenv.Hold})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- b.Checkpoint(ctx, l, late) }()
	<-held.Fired()
	cancel()
	wantMaybe(t, "Checkpoint", <-done)
	if err := direct.Checkpoint(t.Context(), l, backend.Checkpoint{Sequence: 2, Point: "second", State: []byte("2")}); err != nil {
		t.Fatal(err)
	}
	before := value[int64](t, pool, `SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()`)
	held.Release()
	eventually(t, "the late statement has run", func() bool {
		return value[int64](t, pool, `SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()`) > before &&
			value[int](t, pool, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active'`) == 1
	})
	if r := wantRecord(t, direct, l.Key, backend.Started, ""); r.RecoveryPoint != "second" || r.Sequence != 2 {
		t.Errorf("record = %q at %d, want the second checkpoint", r.RecoveryPoint, r.Sequence)
	}
}

// PG-14: the link of a waiting claim goes dead. The server gives up by itself, so
// that the claim doesn't come true when nobody expects it any more. One that gets
// the key late doesn't come true either, since nobody is there to send it again.
func TestClaimOnADeadLink(t *testing.T) {
	t.Parallel()
	for _, inTime := range []bool{false, true} {
		b, proxy, direct, pool := faulty(t)
		t.Cleanup(proxy.CutAll)
		tx := begin(t, pool)
		claimIn(t, direct, tx, request("key"))
		c := request("key")
		c.Wait = 300 * time.Millisecond
		if inTime {
			c.Wait = time.Minute
		}
		ctx, cancel := context.WithCancel(t.Context())
		answer := inBackground(func() (backend.Claimed, error) { return b.Claim(ctx, c) })
		waiting(t, pool, 1)
		proxy.Partition()
		cancel()
		a := <-answer
		wantMaybe(t, "Claim", a.err)
		if !errors.Is(a.err, context.Canceled) {
			t.Errorf("Claim = %v, want the context's error", a.err)
		}
		if inTime {
			exec(t, pool, `SELECT pg_sleep(0.1)`) // later than what a claim stores may be
		} else {
			quiet(t, pool)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		quiet(t, pool)
		wantNoRecord(t, direct, c.Key)
		if got, err := direct.Claim(t.Context(), c); err != nil || !got.Acquired || got.Record.Attempt != 1 {
			t.Errorf("Claim again = acquired %v, attempt %d, %v, want its own", got.Acquired, got.Record.Attempt, err)
		}
	}
}

// overdue is a context whose deadline is when done is closed.
type overdue struct {
	context.Context
	done chan struct{}
}

func (o *overdue) Done() <-chan struct{} { return o.done }

func (o *overdue) Err() error {
	select {
	case <-o.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// PG-15: the end of a context is the context's error, whichever way pgx cancels.
func TestContextEnds(t *testing.T) {
	t.Parallel()
	cancelRequest := func(c *pgxpool.Config) {
		c.ConnConfig.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
			return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, CancelRequestDelay: 0, DeadlineDelay: 5 * time.Second}
		}
	}
	for name, change := range map[string]func(*pgxpool.Config){"deadline": func(*pgxpool.Config) {}, "cancel request": cancelRequest} {
		_, pool, srv := migrated(t)
		b := newBackend(t, open(t, srv.URL, change))
		tx := begin(t, pool)
		held := claimIn(t, b, tx, request("key"))
		c := request("key")
		c.Wait = time.Minute
		for call, f := range map[string]func(ctx context.Context) (backend.Claimed, error){
			"Claim":    func(ctx context.Context) (backend.Claimed, error) { return b.Claim(ctx, c) },
			"Transact": func(ctx context.Context) (backend.Claimed, error) { return b.Transact(ctx, c, never(t)) },
		} {
			ctx := &overdue{Context: t.Context(), done: make(chan struct{})}
			answer := inBackground(func() (backend.Claimed, error) { return f(ctx) })
			waiting(t, pool, 1) // sooner it may have no connection yet, and applied nothing
			close(ctx.done)
			err := (<-answer).err
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s with %s = %v, want DeadlineExceeded", call, name, err)
			}
			// The server says that it did nothing; without its word it's a maybe,
			// except before a COMMIT.
			if want := name == "cancel request" || call == "Transact"; backend.NotApplied(err) != want {
				t.Errorf("NotApplied(%s with %s: %v) = %v, want %v", call, name, err, !want, want)
			}
			quiet(t, pool)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for call, err := range map[string]error{
			"Renew":   b.Renew(ctx, held.Holder(), time.Minute),
			"Release": b.Release(ctx, held.Holder()),
		} {
			if !errors.Is(err, backend.ErrUnavailable) || !errors.Is(err, context.Canceled) {
				t.Errorf("%s with an ended context = %v, want ErrUnavailable and Canceled", call, err)
			}
		}
	}
}

// PG-16: owners need no second connection for their record, and those that wait
// give theirs back in time.
func TestPoolOfTwo(t *testing.T) {
	t.Parallel()
	_, pool, srv := migrated(t)
	effectsTable(t, pool)
	b := newBackend(t, open(t, srv.URL, size(2)))
	c := request("key")
	var answers []<-chan answer
	_, err := b.Transact(t.Context(), c, func(ctx context.Context, tx pgx.Tx, h backend.Claimed) (backend.Effect, error) {
		for range 8 {
			d := request("key")
			d.Wait = 100 * time.Millisecond
			answers = append(answers, inBackground(func() (backend.Claimed, error) { return b.Transact(t.Context(), d, never(t)) }))
		}
		waiting(t, pool, 1)
		// An effect that uses the pool besides gets its turn too.
		if _, err := b.Get(ctx, request("another").Key); !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("Get in the effect = %v, want ErrNotFound", err)
		}
		return writes("once")(ctx, tx, h)
	})
	if err != nil {
		t.Errorf("Transact of the owner = %v, want nil", err)
	}
	for _, ch := range answers {
		if a := <-ch; a.err != nil || a.got.Acquired {
			t.Errorf("Transact of a duplicate = acquired %v, %v, want an answer", a.got.Acquired, a.err)
		}
	}
	wantEffects(t, pool, 1)
}

func TestStoreIsDown(t *testing.T) {
	t.Parallel()
	b, proxy, _, pool := faulty(t)
	l := acquire(t, b, request("key")).Holder()
	proxy.Refuse(true)
	proxy.CutAll()
	closed := newBackend(t, pool)
	check := func(name string, b *postgres.Backend) {
		ctx := t.Context()
		_, claim := b.Claim(ctx, request("x"))
		_, get := b.Get(ctx, l.Key)
		_, sweep := b.Sweep(ctx, 1)
		_, describe := b.Describe(ctx)
		_, transact := b.Transact(ctx, request("x"), never(t))
		_, inLease := b.InLease(ctx, l, 1, noStep(t))
		for call, err := range map[string]error{
			"Claim": claim, "Get": get, "Sweep": sweep, "Describe": describe, "Transact": transact, "InLease": inLease,
			"Renew": b.Renew(ctx, l, time.Minute), "Release": b.Release(ctx, l),
			"Checkpoint": b.Checkpoint(ctx, l, backend.Checkpoint{Sequence: 1, Point: "p"}),
			"Complete":   b.Complete(ctx, l, completion("")),
		} {
			if !errors.Is(err, backend.ErrUnavailable) {
				t.Errorf("%s %s = %v, want ErrUnavailable", call, name, err)
			}
		}
	}
	eventually(t, "the pool has noticed", func() bool { return proxy.Open() == 0 })
	_, _ = b.Get(t.Context(), l.Key) // the connections that stood are found dead, one by one
	check("of a store that is down", b)
	pool.Close()
	check("on a closed pool", closed)
}

// PG-12: a COMMIT that is on its way doesn't end with its caller, whose
// cancelling would make the outcome unknown.
func TestCallerLeavesDuringCommit(t *testing.T) {
	t.Parallel()
	b, proxy, direct, pool := faulty(t)
	c := request("key")
	held := proxy.Add(testenv.Rule{On: testenv.ToServer, Match: commits, Do: testenv.Hold})
	ctx, cancel := context.WithCancel(t.Context())
	answer := inBackground(func() (backend.Claimed, error) { return b.Transact(ctx, c, writes("once")) })
	<-held.Fired()
	cancel()
	held.Release()
	if a := <-answer; a.err != nil || !a.got.Acquired {
		t.Errorf("Transact = acquired %v, %v, want its own commit", a.got.Acquired, a.err)
	}
	wantRecord(t, direct, c.Key, backend.Completed, "once")
	wantEffects(t, pool, 1)
}

// Between the look at a lapsed record and its takeover the holder shows up again.
func TestTakeoverMeetsItsHolder(t *testing.T) {
	t.Parallel()
	b, proxy, direct, _ := faulty(t)
	for name, write := range map[string]func(l backend.Lease) error{
		"renewed": func(l backend.Lease) error { return direct.Renew(t.Context(), l, time.Hour) },
		"checkpointed": func(l backend.Lease) error {
			return direct.Checkpoint(t.Context(), l, backend.Checkpoint{Sequence: 1, Point: "p"})
		},
		"completed": func(l backend.Lease) error { return direct.Complete(t.Context(), l, completion("first")) },
		"released":  func(l backend.Lease) error { return direct.Release(t.Context(), l) },
	} {
		c := request(name)
		c.Lease = time.Millisecond
		l := acquire(t, direct, c).Holder()
		until(t, direct, c.Key)
		held := proxy.Add(testenv.Rule{On: testenv.ToServer, Match: testenv.Runs("attempt = r.attempt + 1"), Do: testenv.Hold})
		rival := request(name)
		answer := inBackground(func() (backend.Claimed, error) { return b.Claim(t.Context(), rival) })
		<-held.Fired()
		if err := write(l); err != nil {
			t.Fatalf("write of the holder (%s) = %v, want nil", name, err)
		}
		held.Release()
		a := <-answer
		if a.err != nil {
			t.Fatalf("Claim of a record that is %s meanwhile = %v, want nil", name, a.err)
		}
		r := a.got.Record
		switch name {
		case "renewed":
			if a.got.Acquired || r.LeaseLeft < time.Minute {
				t.Errorf("Claim of a record that is renewed meanwhile = acquired %v, %v left, want it in progress", a.got.Acquired, r.LeaseLeft)
			}
		case "checkpointed":
			if !a.got.Acquired || r.RecoveryPoint != "p" {
				t.Errorf("Claim of a record that is checkpointed meanwhile = acquired %v at %q, want it resumed there", a.got.Acquired, r.RecoveryPoint)
			}
		case "completed":
			if a.got.Acquired || r.Status != backend.Completed {
				t.Errorf("Claim of a record that is completed meanwhile = acquired %v (%v), want the replay", a.got.Acquired, r.Status)
			}
		case "released":
			if !a.got.Acquired || r.Attempt != 1 {
				t.Errorf("Claim of a record that is released meanwhile = acquired %v, attempt %d, want a fresh one", a.got.Acquired, r.Attempt)
			}
		}
	}
}
