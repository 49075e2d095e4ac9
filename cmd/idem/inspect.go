package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
)

// inspect shows one record.
func inspect(ctx context.Context, c *call) (int, error) {
	c.records()
	var k backend.Key
	c.scope(&k.Tenant, &k.Actor, &k.Value)
	body := c.flags.Bool("body", false, "show what was stored, too: header, body, state and payload")
	asJSON := c.flags.Bool("json", false, "print JSON; with -body, bytes are in base64")
	ctx, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	p, err := c.parse()
	if err != nil {
		return 0, err
	}
	if err := wholeKey(k.Tenant, k.Actor, k.Value); err != nil {
		return 0, err
	}
	b, done, err := p.open(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	r, err := b.Get(ctx, k)
	switch {
	case errors.Is(err, backend.ErrNotFound):
		fmt.Fprintln(c.stderr, "idem inspect: no such record: never claimed, released, over, or not committed yet; or it is elsewhere (-table, -schema, -prefix)")
		return statusNo, nil
	case err != nil:
		return 0, explain(p, err)
	}
	out := look(r, *body)
	if *asJSON {
		return statusOK, printJSON(c.stdout, out)
	}
	return statusOK, out.print(c.stdout)
}

// record is what inspect prints. Content stays out unless it was asked for, its
// size does not. Durations are seconds.
type record struct {
	Tenant             string     `json:"tenant"`
	Actor              string     `json:"actor"`
	Key                string     `json:"key"`
	Operation          string     `json:"operation"`
	Method             string     `json:"method"`
	Path               string     `json:"path"`
	Fingerprint        string     `json:"fingerprint"`
	FingerprintVersion string     `json:"fingerprint_version"`
	Status             string     `json:"status"`
	Meaning            string     `json:"meaning"`
	ClaimID            string     `json:"claim_id"` // empty after a release
	Token              int64      `json:"token"`
	Sequence           int64      `json:"sequence"`
	Attempt            int        `json:"attempt"`
	RecoveryPoint      string     `json:"recovery_point"`
	DownstreamKey      string     `json:"downstream_key"` // of a call that was sent and has no outcome
	LeaseLeft          float64    `json:"lease_left_seconds"`
	Lease              float64    `json:"lease_seconds"`
	Retention          float64    `json:"retention_seconds"`
	Remember           float64    `json:"remember_seconds"`
	Abandon            float64    `json:"abandon_seconds"`
	CreatedAt          *time.Time `json:"created_at,omitempty"`
	UpdatedAt          *time.Time `json:"updated_at,omitempty"`
	CompletedAt        *time.Time `json:"completed_at,omitempty"`
	LockedUntil        *time.Time `json:"locked_until,omitempty"`
	ExpiresAt          *time.Time `json:"expires_at,omitempty"`
	Tombstone          string     `json:"tombstone"`
	ResponseStatus     int        `json:"response_status"`
	HeaderBytes        int        `json:"header_bytes"`
	BodyBytes          int        `json:"body_bytes"`
	StateBytes         int        `json:"state_bytes"`
	PayloadBytes       int        `json:"payload_bytes"`
	Content            *content   `json:"content,omitempty"`
}

// content is what a client or the service would not want to see in a ticket.
type content struct {
	Header  []byte `json:"header"`
	Body    []byte `json:"body"`
	State   []byte `json:"state"`
	Payload []byte `json:"payload"`
}

func look(r backend.Record, body bool) record {
	out := record{
		Tenant: r.Key.Tenant, Actor: r.Key.Actor, Key: r.Key.Value,
		Operation: r.Operation, Method: r.Target.Method, Path: r.Target.Path,
		Fingerprint: fmt.Sprintf("%x", r.Fingerprint.Sum), FingerprintVersion: r.Fingerprint.Version,
		Status: r.Status.String(), Meaning: meaning(r),
		ClaimID: claimID(r), Token: int64(r.Token), Sequence: int64(r.Sequence), Attempt: r.Attempt,
		RecoveryPoint: r.RecoveryPoint, DownstreamKey: downstreamKey(r),
		LeaseLeft: r.LeaseLeft.Seconds(), Lease: r.Lease.Seconds(), Retention: r.Retention.Seconds(), Remember: r.Remember.Seconds(), Abandon: r.Abandon.Seconds(),
		CreatedAt: at(r.CreatedAt), UpdatedAt: at(r.UpdatedAt), CompletedAt: at(r.CompletedAt), LockedUntil: at(r.LockedUntil), ExpiresAt: at(r.ExpiresAt),
		Tombstone: string(r.Response.Tombstone), ResponseStatus: r.Response.Status,
		HeaderBytes: len(r.Response.Header), BodyBytes: len(r.Response.Body), StateBytes: len(r.State), PayloadBytes: len(r.Payload),
	}
	if body {
		out.Content = &content{r.Response.Header, r.Response.Body, r.State, r.Payload}
	}
	return out
}

func claimID(r backend.Record) string {
	if r.ClaimID == (backend.ClaimID{}) {
		return ""
	}
	return fmt.Sprintf("%x", r.ClaimID)
}

// at is nil for a time that is not.
func at(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// waitingStep is the step that was sent and has no outcome; empty: none.
func waitingStep(r backend.Record) string {
	step, sent := strings.CutSuffix(r.RecoveryPoint, " (sent)")
	if !sent || r.Status == backend.Completed && r.Response.Tombstone != backend.Abandoned {
		return ""
	}
	return step
}

// downstreamKey is what the far side knows the waiting step by.
func downstreamKey(r backend.Record) string {
	step := waitingStep(r)
	if step == "" {
		return ""
	}
	return idem.DownstreamKey(idem.Scope{Tenant: r.Key.Tenant, Actor: r.Key.Actor}, r.Key.Value, r.Operation, step)
}

// meaning says what a retry with this key gets.
func meaning(r backend.Record) string {
	completed := r.Status == backend.Completed
	switch {
	case completed && r.Response.Tombstone == backend.Abandoned:
		return "nobody finished the run, and what it did is unknown: a person has to find out; retries get ErrNeedsResolution"
	case completed && r.Response.Tombstone == backend.Expired:
		return "the run ended and its answer expired: retries get ErrTombstone until it is remembered no more"
	case completed && r.Response.Tombstone != "":
		return "the run ended and its answer was not kept: retries get ErrTombstone"
	case completed && r.Remember > 0:
		return "the run ended: retries get its answer until the retention is over, and then ErrTombstone while it is remembered"
	case completed:
		return "the run ended: retries get its answer until the retention is over"
	case r.LeaseLeft > 0:
		return "a run holds the key: retries are told that it is in progress"
	case waitingStep(r) != "":
		return "a call was sent and has no outcome, and nobody holds the key: the next retry asks, sends it again, or needs idem resolve"
	case r.RecoveryPoint != "":
		return "nobody holds the key: the next retry goes on from the recovery point"
	}
	return "nobody holds the key: the next retry runs again, unless the operation refuses that (WithTakeover)"
}

// print writes the record for people. What clients and the service chose is quoted:
// it could be commands for a terminal.
func (r record) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, l := range []struct {
		name string
		show bool
		text string
	}{
		{"tenant", true, strconv.Quote(r.Tenant)},
		{"actor", true, strconv.Quote(r.Actor)},
		{"key", true, strconv.Quote(r.Key)},
		{"operation", true, strconv.Quote(r.Operation)},
		{"target", true, strings.TrimSpace(r.Method + " " + strconv.Quote(r.Path))},
		{"fingerprint", true, r.FingerprintVersion + " " + r.Fingerprint},
		{"status", true, r.Status},
		{"that is", true, r.Meaning},
		{"attempt", true, strconv.Itoa(r.Attempt)},
		{"claim", r.ClaimID != "", fmt.Sprintf("%s, token %d, sequence %d", r.ClaimID, r.Token, r.Sequence)},
		{"recovery point", r.RecoveryPoint != "", fmt.Sprintf("%q, %d bytes of state", r.RecoveryPoint, r.StateBytes)},
		{"downstream key", r.DownstreamKey != "", r.DownstreamKey + ": the far side knows the call by it"},
		{"lease", r.CompletedAt == nil, fmt.Sprintf("%vs, of which %vs are left", r.Lease, r.LeaseLeft)},
		{"retention", true, time.Duration(r.Retention * float64(time.Second)).String()},
		{"remembered after it", r.Remember > 0, time.Duration(r.Remember * float64(time.Second)).String()},
		{"created", r.CreatedAt != nil, date(r.CreatedAt)},
		{"updated", r.UpdatedAt != nil, date(r.UpdatedAt)},
		{"completed", r.CompletedAt != nil, date(r.CompletedAt)},
		{"swept after", r.ExpiresAt != nil, date(r.ExpiresAt)},
		{"tombstone", r.Tombstone != "", r.Tombstone},
		{"response", r.CompletedAt != nil, fmt.Sprintf("status %d, %d bytes of header, %d of body", r.ResponseStatus, r.HeaderBytes, r.BodyBytes)},
		{"payload", r.PayloadBytes > 0, fmt.Sprintf("%d bytes", r.PayloadBytes)},
	} {
		if l.show {
			fmt.Fprintf(t, "%s\t%s\n", l.name, l.text)
		}
	}
	if c := r.Content; c != nil {
		fmt.Fprintf(t, "header\t%q\nbody\t%q\nstate\t%q\npayload\t%q\n", c.Header, c.Body, c.State, c.Payload)
	}
	return t.Flush()
}

func date(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.Format(time.RFC3339)
}
