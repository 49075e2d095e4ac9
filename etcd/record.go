package etcd

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/idem-go/idem/backend"
)

// format is the first byte of a record's value. Members may be added to stored
// without a new one.
const format = 1

var errFormat = errors.New("the record is damaged or of a newer version of idem")

// stored is what a value begins with: the format, the length of stored as JSON, this
// JSON, and then header, body and state as they are. Durations are in nanoseconds,
// times in microseconds since 1970.
type stored struct {
	Status      backend.Status    `json:"status"`
	Operation   string            `json:"operation"`
	Method      string            `json:"method,omitempty"`
	Path        string            `json:"path,omitempty"`
	Version     string            `json:"fingerprint_version"`
	Fingerprint []byte            `json:"fingerprint"`
	ClaimID     []byte            `json:"claim_id"`
	Token       backend.Token     `json:"token,omitempty"` // 0: the revision of this value
	Sequence    backend.Sequence  `json:"sequence,omitempty"`
	Attempt     int               `json:"attempt"`
	Point       string            `json:"recovery_point,omitempty"`
	Tombstone   backend.Tombstone `json:"tombstone,omitempty"`
	Response    int               `json:"response_status,omitempty"`
	Lease       time.Duration     `json:"lease"`
	Retention   time.Duration     `json:"retention"`
	Abandon     time.Duration     `json:"abandon"`
	LockedUntil int64             `json:"locked_until,omitempty"`
	CreatedAt   int64             `json:"created_at"`
	UpdatedAt   int64             `json:"updated_at"`
	CompletedAt int64             `json:"completed_at,omitempty"`
	ExpiresAt   int64             `json:"expires_at,omitempty"`
	Header      int               `json:"header,omitempty"` // bytes
	Body        int               `json:"body,omitempty"`   // bytes
}

// encode gives the value of a record, without key and payload.
func encode(r *backend.Record) (string, error) {
	head, err := json.Marshal(stored{
		Status: r.Status, Operation: r.Operation, Method: r.Target.Method, Path: r.Target.Path,
		Version: r.Fingerprint.Version, Fingerprint: r.Fingerprint.Sum[:],
		ClaimID: r.ClaimID[:], Token: r.Token, Sequence: r.Sequence, Attempt: r.Attempt,
		Point: r.RecoveryPoint, Tombstone: r.Response.Tombstone, Response: r.Response.Status,
		Lease: r.Lease, Retention: r.Retention, Abandon: r.Abandon,
		LockedUntil: micros(r.LockedUntil), CreatedAt: micros(r.CreatedAt), UpdatedAt: micros(r.UpdatedAt),
		CompletedAt: micros(r.CompletedAt), ExpiresAt: micros(r.ExpiresAt),
		Header: len(r.Response.Header), Body: len(r.Response.Body),
	})
	if err != nil {
		return "", err
	}
	v := make([]byte, 0, 1+binary.MaxVarintLen64+len(head)+r.Response.Size()+len(r.State))
	v = binary.AppendUvarint(append(v, format), uint64(len(head)))
	v = append(append(append(append(v, head...), r.Response.Header...), r.Response.Body...), r.State...)
	return string(v), nil
}

// decodeRecord reads what encode wrote. The result shares no bytes with kv.
func decodeRecord(k backend.Key, kv *mvccpb.KeyValue) (*backend.Record, error) {
	if len(kv.Value) == 0 || kv.Value[0] != format {
		return nil, errFormat
	}
	length, n := binary.Uvarint(kv.Value[1:])
	rest := kv.Value[min(1+max(n, 0), len(kv.Value)):]
	if n <= 0 || length > uint64(len(rest)) {
		return nil, errFormat
	}
	var s stored
	if err := json.Unmarshal(rest[:length], &s); err != nil {
		return nil, errFormat
	}
	rest = rest[length:]
	if s.Header < 0 || s.Body < 0 || s.Header > len(rest) || s.Body > len(rest)-s.Header {
		return nil, errFormat
	}
	r := &backend.Record{
		Key: k, Operation: s.Operation, Target: backend.Target{Method: s.Method, Path: s.Path},
		Fingerprint: backend.Fingerprint{Version: s.Version}, Status: s.Status,
		Token: s.Token, Sequence: s.Sequence, Attempt: s.Attempt, RecoveryPoint: s.Point,
		Response: backend.Response{
			Tombstone: s.Tombstone, Status: s.Response,
			Header: bytes.Clone(rest[:s.Header]), Body: bytes.Clone(rest[s.Header : s.Header+s.Body]),
		},
		State: bytes.Clone(rest[s.Header+s.Body:]),
		Lease: s.Lease, Retention: s.Retention, Abandon: s.Abandon,
		LockedUntil: timeOf(s.LockedUntil), CreatedAt: timeOf(s.CreatedAt), UpdatedAt: timeOf(s.UpdatedAt),
		CompletedAt: timeOf(s.CompletedAt), ExpiresAt: timeOf(s.ExpiresAt),
	}
	if copy(r.Fingerprint.Sum[:], s.Fingerprint) != len(r.Fingerprint.Sum) || copy(r.ClaimID[:], s.ClaimID) != len(r.ClaimID) {
		return nil, errFormat
	}
	if r.Status != backend.Started && r.Status != backend.Completed {
		return nil, errFormat
	}
	if r.Token == 0 {
		r.Token = backend.Token(kv.ModRevision)
	}
	return r, nil
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func timeOf(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
