package redis

import (
	"encoding/hex"
	"strconv"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
)

// key is the name of a record's hash. With its length before it no part can run into the next.
func (b *Backend) key(k backend.Key) string {
	return b.cfg.prefix + strconv.Itoa(len(k.Tenant)) + ":" + k.Tenant + ":" +
		strconv.Itoa(len(k.Actor)) + ":" + k.Actor + ":" + k.Value
}

func hexID(id backend.ClaimID) string { return hex.EncodeToString(id[:]) }
func hexSum(sum [32]byte) string      { return hex.EncodeToString(sum[:]) }

func decimal[N ~int64](n N) string { return strconv.FormatInt(int64(n), 10) }

// micros is the resolution of the server's clock. Durations are rounded up to it,
// so that nothing is granted for shorter than asked.
func micros(d time.Duration) string {
	return decimal((d + time.Microsecond - 1) / time.Microsecond)
}

func flag(is bool) string {
	if is {
		return "1"
	}
	return "0"
}

// readClaimed reads what the script claim answers.
func readClaimed(k backend.Key, reply any) (backend.Claimed, error) {
	all, ok := reply.([]any)
	if !ok || len(all) != 3 {
		return backend.Claimed{}, unreadable("claim")
	}
	r, _, err := readRecord("claim", k, all[1:])
	if err != nil || r == nil {
		return backend.Claimed{}, unreadable("claim")
	}
	return backend.Claimed{Acquired: all[0] == int64(1), Record: *r}, nil
}

// readRecord reads the server's time and a record, nil if there is none.
func readRecord(what string, k backend.Key, reply any) (*backend.Record, time.Time, error) {
	two, ok := reply.([]any)
	if !ok || len(two) != 2 {
		return nil, time.Time{}, unreadable(what)
	}
	now := fields{"now": text(two[0])}.time("now")
	flat, ok := two[1].([]any)
	if !ok || now.IsZero() {
		return nil, time.Time{}, unreadable(what)
	}
	if len(flat) == 0 {
		return nil, now, nil
	}
	f := make(fields, len(flat)/2)
	for i := 0; i+1 < len(flat); i += 2 {
		f[text(flat[i])] = text(flat[i+1])
	}
	r := f.record(k)
	r.LeaseLeft = machine.LeaseLeft(*r, now)
	return r, now, nil
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// fields are those of a hash. One that is missing is zero, one that this version
// does not know is left alone.
type fields map[string]string

func (f fields) record(k backend.Key) *backend.Record {
	r := &backend.Record{
		Key:         k,
		Operation:   f["operation"],
		Target:      backend.Target{Method: f["method"], Path: f["path"]},
		Fingerprint: backend.Fingerprint{Version: f["fingerprint_version"]},
		Status:      backend.Started,

		Token:    backend.Token(f.int("token")),
		Sequence: backend.Sequence(f.int("sequence")),
		Attempt:  int(f.int("attempt")),

		RecoveryPoint: f["recovery_point"],
		State:         []byte(f["state"]),
		Payload:       []byte(f["payload"]),
		Response: backend.Response{
			Tombstone: backend.Tombstone(f["tombstone"]), Status: int(f.int("response_status")),
			Header: []byte(f["header"]), Body: []byte(f["body"]),
		},

		Lease: f.duration("lease"), Retention: f.duration("retention"), Abandon: f.duration("abandon"),

		LockedUntil: f.time("locked_until"), CreatedAt: f.time("created_at"), UpdatedAt: f.time("updated_at"),
		CompletedAt: f.time("completed_at"), ExpiresAt: f.time("expires_at"),
	}
	if f["status"] == "completed" {
		r.Status = backend.Completed
	}
	f.hex("claim_id", r.ClaimID[:])
	f.hex("fingerprint", r.Fingerprint.Sum[:])
	return r
}

func (f fields) int(name string) int64 {
	n, _ := strconv.ParseInt(f[name], 10, 64) // written by a script of ours, or missing
	return n
}

func (f fields) duration(name string) time.Duration {
	return time.Duration(f.int(name)) * time.Microsecond
}

func (f fields) time(name string) time.Time {
	if f[name] == "" {
		return time.Time{}
	}
	return time.UnixMicro(f.int(name)).UTC()
}

func (f fields) hex(name string, into []byte) {
	if b, err := hex.DecodeString(f[name]); err == nil && len(b) == len(into) {
		copy(into, b)
	}
}
