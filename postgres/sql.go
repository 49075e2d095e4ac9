package postgres

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/idem-go/idem/backend"
)

// statements are the SQL of one table, for use on their own or within a
// transaction.
//
// All that can wait for a lock is joined to "cfg", a row that says for how long
// ($1) and reads the clock: it is evaluated before anything is locked. Parameters
// are cast, because without a prepared statement the server has no other way to
// know their types.
//
// Within a transaction the statements end in exactly one row, which also puts
// lock_timeout back: nothing is left behind in a transaction of the caller's.
type statements struct {
	get   string
	claim string // a row of its own, or the record that is there; not within a transaction it raises when it is late
	lock  string // the record, locked

	// Updates of a record that is as it was read, or nothing.
	replace  string // an expired one
	takeOver string // a lapsed one
	revive   string // an abandoned one
	extend   string // one's own, lapsed
	redraw   string // one's own, just inserted but late; only within a transaction: nobody else has seen it

	// Updates by its holder.
	renew      string // by a claim of one's own as well
	checkpoint string
	complete   string
	release    string // not within a transaction

	sweep  string // not within a transaction
	lapsed string // not within a transaction

	// The first statement of a transaction whose effect follows: claim and lock,
	// and the server may let the session be idle for no longer than the lease.
	claimFirst string
	lockFirst  string

	// The last statement before a COMMIT: they raise division by zero instead of
	// changing nothing, so that the COMMIT behind them fails too.
	checkpointLast string
	completeLast   string
}

// A server that does not wait for its disk on COMMIT is told to do so for this
// transaction.
const durable = `CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', true) END AS sync`

const settings = `clock_timestamp() AS at, set_config('lock_timeout', $1::text, true) AS wait,
         ` + durable

const cfgAlone = `cfg AS MATERIALIZED (SELECT ` + settings + `)`

// The old value is read in a subquery of its own (OFFSET 0 keeps it apart), so that
// it is read before it is set.
const cfgWithin = `cfg AS MATERIALIZED (
  SELECT before.lock_timeout, ` + settings + `
  FROM (SELECT current_setting('lock_timeout') AS lock_timeout OFFSET 0) before
)`

// The last statement of a transaction that has the record's lock waits for nobody.
// Its $1 is there for the sake of one order of parameters. It is durable again,
// whatever the effect has set.
const cfgLast = `cfg AS MATERIALIZED (SELECT clock_timestamp() AS at, $1::text AS wait, ` + durable + `)`

const putBack = `set_config('lock_timeout', cfg.lock_timeout, true)`

// idle is putBack with a limit of idleness besides, in microseconds: at least
// 100 ms, which is what a busy machine may need from one statement to the next, and
// at most what a setting can hold.
func idle(us string) string {
	return putBack + ` || set_config('idle_in_transaction_session_timeout', least(greatest(100, (` + us + ` + 999) / 1000), 2147483647)::text, true)`
}

// byKey takes the key as $2 to $4.
const byKey = `r.tenant = $2::text AND r.actor = $3::text AND r.key = $4::text`

// us reads an instant as microseconds since 1970, whatever DateStyle and TimeZone
// are; NULL is 0. A double holds them exactly until 2106.
func us(expr string) string {
	return "coalesce((date_part('epoch', " + expr + ") * 1000000)::bigint, 0)"
}

// after adds the microseconds of a parameter or column to an instant.
func after(at, us string) string { return at + " + " + us + " * interval '1 microsecond'" }

// columns of a record as reading.scan takes them, of the row called alias.
func columns(alias string) string {
	var s []string
	for _, c := range []struct{ name, null string }{
		{"operation", "''"},
		{"method", "''"},
		{"path", "''"},
		{"fingerprint_version", "''"},
		{"fingerprint", ""},
		{"status", "''"},
		{"claim_id::text", "''"},
		{"token", "0"},
		{"sequence", "0"},
		{"attempt", "0"},
		{"recovery_point", "''"},
		{"state", ""},
		{"payload", ""},
		{"tombstone", "''"},
		{"response_status", "0"},
		{"response_header", ""},
		{"response_body", ""},
		{"lease_us", "0"},
		{"retention_us", "0"},
		{"abandon_us", "0"},
	} {
		e := alias + "." + c.name
		if c.null != "" {
			e = "coalesce(" + e + ", " + c.null + ")"
		}
		s = append(s, e)
	}
	for _, c := range []string{"locked_until", "created_at", "updated_at", "completed_at", "expires_at"} {
		s = append(s, us(alias+"."+c))
	}
	return strings.Join(s, ", ")
}

// insert is the new record of a claim, from the row cfg. Without a conflict target
// every unique index arbitrates, also one that is being built: with a target,
// REINDEX CONCURRENTLY makes claims fail with unique violations.
func insert(table string) string {
	return `INSERT INTO ` + table + ` (tenant, actor, key, claim_id, operation, method, path, fingerprint_version, fingerprint, payload,
    lease_us, retention_us, abandon_us, status, token, locked_until, created_at, updated_at, expires_at)
  SELECT $2::text, $3::text, $4::text, $5::uuid, $6::text, $7::text, $8::text, $9::text, $10::bytea, $11::bytea,
    $12::bigint, $13::bigint, $14::bigint, 'started', ` + us("cfg.at") + `, ` + after("cfg.at", "$12::bigint") + `, cfg.at, cfg.at,
    ` + after("cfg.at", "($12::bigint + $13::bigint)") + `
  FROM cfg WHERE NOT EXISTS (SELECT FROM seen)
  ON CONFLICT DO NOTHING
  RETURNING true AS ok, created_at AS at`
}

// found is what a claim statement reports, if inserted is true where it is to say so.
func found(inserted string) string {
	return `CASE WHEN ` + inserted + ` THEN 'inserted' WHEN seen.token IS NOT NULL THEN 'seen' ELSE '' END`
}

// inTime is true for a record that was inserted within $15 microseconds, NULL for
// none, and raises division by zero for a late one: its token may be older than one
// drawn meanwhile, and once it is committed others see it.
const inTime = `1 / (CASE WHEN clock_timestamp() - ins.at > $15::bigint * interval '1 microsecond' THEN 0 WHEN ins.ok THEN 1 END) = 1`

// underLock are the common table expressions of an update that draws a token: the
// clock is read with the record's lock in hand. Elsewhere in an UPDATE, also in its
// SET, it can be read before a wait for a change that is then rolled back.
func underLock(cfg, table string) string {
	return cfg + `,
held AS MATERIALIZED (SELECT FROM cfg, ` + table + ` r WHERE ` + byKey + ` AND cfg.at IS NOT NULL FOR UPDATE OF r),
clock AS MATERIALIZED (SELECT clock_timestamp() AS at FROM held)`
}

// alone gives the statements that are transactions of their own.
func alone(table string) statements {
	now := us("clock_timestamp()")
	s := statements{
		get: `SELECT 'seen', '', 0::bigint, ` + now + `, ` + columns("r") + ` FROM ` + table + ` r
WHERE r.tenant = $1::text AND r.actor = $2::text AND r.key = $3::text`,

		// A record that is there is answered from the plain read: the insert is not
		// tried, so that nothing is locked and nothing written. Both halves read one
		// snapshot; a record that appears between it and the insert is in neither.
		claim: `WITH seen AS MATERIALIZED (SELECT * FROM ` + table + ` r WHERE ` + byKey + `),
` + cfgAlone + `,
ins AS (` + insert(table) + `)
SELECT ` + found(inTime) + `, '', ` + us("ins.at") + `, ` + now + `, ` + columns("seen") + `
FROM (SELECT) one LEFT JOIN seen ON true LEFT JOIN ins ON true`,

		// The record is joined outside: what is selected together with FOR UPDATE
		// is evaluated before the lock is there.
		lock: `WITH ` + cfgAlone + `,
held AS (SELECT r.* FROM cfg, ` + table + ` r WHERE ` + byKey + ` AND cfg.at IS NOT NULL FOR UPDATE OF r)
SELECT 'seen', '', 0::bigint, ` + now + `, ` + columns("held") + ` FROM held`,
	}
	update := func(with, clock string) form {
		return func(set, where string) string {
			return `WITH ` + with + `
UPDATE ` + table + ` r SET ` + set + `
FROM ` + clock + ` WHERE ` + byKey + ` AND ` + where + `
RETURNING true, '', 0::bigint, ` + us("clock.at") + `, ` + now
		}
	}
	s.claimed(update(underLock(cfgAlone, table), "clock"))
	s.held(update(cfgAlone, "cfg clock"))
	s.release = `WITH ` + cfgAlone + `,
gone AS (DELETE FROM ` + table + ` r USING cfg WHERE ` + byKey + ` AND ` + running + ` AND r.recovery_point = '' RETURNING 1),
kept AS (UPDATE ` + table + ` r SET claim_id = NULL, locked_until = cfg.at, updated_at = cfg.at
  FROM cfg WHERE ` + byKey + ` AND ` + running + ` AND r.recovery_point <> '' RETURNING 1)
SELECT EXISTS (SELECT FROM gone) OR EXISTS (SELECT FROM kept), '', 0::bigint, 0::bigint, 0::bigint`
	s.sweep, s.lapsed = sweep(table), lapsed(table)
	return s
}

// within gives the statements for a transaction that goes on.
func within(table string) statements {
	times := us("cfg.at") + `, ` + us("clock_timestamp()")
	claim := func(settings string) string {
		return `WITH ` + cfgWithin + `,
seen AS MATERIALIZED (SELECT * FROM ` + table + ` r WHERE ` + byKey + `),
ins AS (` + insert(table) + `)
SELECT ` + found("ins.ok") + `, ` + settings + `, ` + times + `, ` + columns("seen") + `
FROM cfg LEFT JOIN seen ON true LEFT JOIN ins ON true`
	}
	lock := func(settings string) string {
		return `WITH ` + cfgWithin + `,
held AS (SELECT r.* FROM cfg, ` + table + ` r WHERE ` + byKey + ` AND cfg.at IS NOT NULL FOR UPDATE OF r)
SELECT CASE WHEN held.token IS NOT NULL THEN 'seen' ELSE '' END, ` + settings + `, ` + times + `, ` + columns("held") + `
FROM cfg LEFT JOIN held ON true`
	}
	update := func(with, clock, done, settings string) form {
		return func(set, where string) string {
			return `WITH ` + with + `,
u AS (UPDATE ` + table + ` r SET ` + set + ` FROM ` + clock + ` WHERE ` + byKey + ` AND ` + where + ` RETURNING true AS ok, clock.at)
SELECT ` + done + `, ` + settings + `, ` + us("u.at") + ` - ` + us("cfg.at") + `, ` + us("u.at") + `, ` + us("clock_timestamp()") + ` FROM cfg LEFT JOIN u ON true`
		}
	}
	s := statements{get: alone(table).get, claim: claim(putBack), lock: lock(putBack)}
	const done = `coalesce(u.ok, false)`
	s.redraw = s.claimed(update(underLock(cfgWithin, table), "clock", done, putBack))
	s.held(update(cfgWithin, "cfg clock", done, putBack))
	var last statements
	last.held(update(cfgLast, "cfg clock", `1 / (CASE WHEN u.ok THEN 1 ELSE 0 END) = 1`, `''`))
	s.claimFirst, s.lockFirst = claim(idle("$12::bigint")), lock(idle("coalesce(held.lease_us, 0)"))
	s.checkpointLast, s.completeLast = last.checkpoint, last.complete
	return s
}

// mine is the guard of a holder's writes.
const mine = `r.claim_id = $5::uuid AND r.token = $6::bigint`

// A form makes a guarded update from what it sets and where. It reads the time from a
// row called clock.
type form func(set, where string) string

const running = mine + ` AND r.status = 'started'`

// lease is a new one, of $7 microseconds.
var lease = `locked_until = ` + after("clock.at", "$7::bigint") + `, updated_at = clock.at`

// claimed sets the updates that a claim makes, and returns the one for a record that
// it has inserted in the same transaction.
func (s *statements) claimed(form form) (redraw string) {
	token := `token = greatest(r.token + 1, ` + us("clock.at") + `)`

	s.replace = form(token+`, claim_id = $5::uuid, operation = $6::text, method = $7::text, path = $8::text,
fingerprint_version = $9::text, fingerprint = $10::bytea, payload = $11::bytea,
lease_us = $12::bigint, retention_us = $13::bigint, abandon_us = $14::bigint,
status = 'started', sequence = 0, attempt = 1, recovery_point = '', state = NULL,
tombstone = '', response_status = NULL, response_header = NULL, response_body = NULL, completed_at = NULL,
locked_until = `+after("clock.at", "$12::bigint")+`, created_at = clock.at, updated_at = clock.at,
expires_at = `+after("clock.at", "($12::bigint + $13::bigint)"),
		`r.status = 'completed' AND r.token = $15::bigint AND r.tombstone <> '`+string(backend.Abandoned)+`'
AND `+after("r.completed_at", "r.retention_us")+` <= clock.at`)

	resume := token + `, claim_id = $5::uuid, lease_us = $6::bigint, retention_us = $7::bigint, abandon_us = $8::bigint,
sequence = 0, attempt = r.attempt + 1, locked_until = ` + after("clock.at", "$6::bigint") + `, updated_at = clock.at`
	const asRead = ` AND r.claim_id IS NOT DISTINCT FROM nullif($9::text, '')::uuid AND r.token = $10::bigint AND r.sequence = $11::bigint`
	s.takeOver = form(resume, `r.status = 'started'`+asRead+` AND r.locked_until <= clock.at`)
	s.revive = form(resume+`, status = 'started', tombstone = '', response_status = NULL, response_header = NULL, response_body = NULL,
completed_at = NULL, expires_at = `+after("clock.at", "($6::bigint + $7::bigint)"),
		`r.status = 'completed' AND r.tombstone = '`+string(backend.Abandoned)+`'`+asRead)

	s.extend = form(lease, running+` AND r.locked_until <= clock.at`)
	return form(token+`, `+lease, running)
}

// held sets the updates that a claim's holder makes.
func (s *statements) held(form form) {
	s.renew = form(lease, running+` AND r.locked_until < `+after("clock.at", "$7::bigint"))
	s.checkpoint = form(`sequence = $7::bigint, recovery_point = $8::text, state = $9::bytea, updated_at = clock.at`,
		running+` AND r.sequence < $7::bigint`)

	// expires_at was fixed at the claim, with the lease as slack. Only a completion
	// later than that moves it, which costs this update its place on the page.
	s.complete = form(`status = 'completed', sequence = $7::bigint, tombstone = $8::text, response_status = $9::integer,
response_header = $10::bytea, response_body = $11::bytea, state = NULL, payload = NULL, locked_until = NULL,
completed_at = clock.at, updated_at = clock.at, expires_at = greatest(r.expires_at, `+after("clock.at", "r.retention_us")+`)`,
		running+` AND r.sequence < $7::bigint`)
}

// sweep takes the most rows to look at as $1. DELETE has no LIMIT. Rows that somebody
// holds are left to the next sweep. A row that may not be deleted gets a later
// expires_at, or a batch of them would come up first for ever.
func sweep(table string) string {
	return `WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS at),
due AS MATERIALIZED (
  SELECT r.ctid, r.status = 'started' AND r.recovery_point <> '' AS resumable,
    CASE WHEN r.tombstone = '` + string(backend.Abandoned) + `' THEN NULL
    WHEN r.status = 'completed' THEN ` + after("r.completed_at", "r.retention_us") + `
    ELSE greatest(` + after("r.updated_at", "r.abandon_us") + `, r.locked_until) END AS at
  FROM ` + table + ` r WHERE r.expires_at <= (SELECT at FROM clock)
  ORDER BY r.expires_at LIMIT $1::integer FOR UPDATE SKIP LOCKED
),
gone AS (
  DELETE FROM ` + table + ` r USING due, clock
  WHERE r.ctid = due.ctid AND due.at <= clock.at AND NOT due.resumable RETURNING 1
),
later AS (
  UPDATE ` + table + ` r SET expires_at = due.at FROM due, clock
  WHERE r.ctid = due.ctid AND (due.at IS NULL OR due.at > clock.at) RETURNING 1
),
abandoned AS (
  UPDATE ` + table + ` r SET status = 'completed', tombstone = '` + string(backend.Abandoned) + `', response_status = NULL,
    response_header = NULL, response_body = NULL, locked_until = NULL, completed_at = clock.at, updated_at = clock.at, expires_at = NULL
  FROM due, clock WHERE r.ctid = due.ctid AND due.at <= clock.at AND due.resumable RETURNING 1
)
SELECT (SELECT count(*) FROM gone) + (SELECT count(*) FROM later) + (SELECT count(*) FROM abandoned)`
}

// minWait is the shortest wait for a lock: an ordinary COMMIT of somebody else
// should be seen through.
const minWait = 50 * time.Millisecond

// lockTimeout formats a wait for lock_timeout, which takes whole milliseconds up to
// 2^31-1; 0 would mean for ever.
func lockTimeout(d time.Duration) string {
	return strconv.FormatInt(min(max(minWait, d).Milliseconds(), math.MaxInt32), 10)
}
