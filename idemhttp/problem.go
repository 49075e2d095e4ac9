package idemhttp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/idem-go/idem"
)

// problemTypes is where docs/problems.md explains every type.
const problemTypes = "https://github.com/idem-go/idem/blob/main/docs/problems.md#"

// problem is what the middleware itself has to say (RFC 9457).
type problem struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail"`
	Retryable bool   `json:"retryable"` // with the same key

	retryAfter time.Duration // 0: not said
	location   string        // of the answer that was not kept
}

var (
	keyMissing = problem{
		Type: "key-missing", Title: "Idempotency key missing", Status: http.StatusBadRequest,
		Detail: "This request needs a key that its retries repeat.",
	}
	keyMalformed = problem{
		Type: "key-malformed", Title: "Idempotency key malformed", Status: http.StatusBadRequest,
	}
	invalidRequest = problem{
		Type: "invalid-request", Title: "Request can't be made idempotent", Status: http.StatusBadRequest,
		Detail: "The key, or the path and query, are too long or contain characters that are not allowed.",
	}
	bodyIncomplete = problem{
		Type: "body-incomplete", Title: "Request body incomplete", Status: http.StatusBadRequest,
		Detail: "The body could not be read to its end. Nothing was done.", Retryable: true,
	}
	methodNotAllowed = problem{
		Type: "method-not-allowed", Title: "Method not allowed", Status: http.StatusMethodNotAllowed,
		Detail: "The header field Allow lists the methods that are.",
	}
	inProgress = problem{
		Type: "in-progress", Title: "Request in progress", Status: http.StatusConflict,
		Detail: "A request with this key is being worked on. Retry with the same key.", Retryable: true,
	}
	needsResolution = problem{
		Type: "needs-resolution", Title: "Outcome has to be resolved", Status: http.StatusConflict,
		Detail: "What became of an earlier request with this key is not known, and retries won't find out. A person of the service has to.",
	}
	answerNotKept = problem{
		Type: "answer-not-kept", Title: "Answer not kept", Status: http.StatusGone,
		Detail: "The request was completed before and does not run again, but its answer was not kept.",
	}
	bodyTooLarge = problem{
		Type: "body-too-large", Title: "Request body too large", Status: http.StatusRequestEntityTooLarge,
	}
	keyReused = problem{
		Type: "key-reused", Title: "Idempotency key reused", Status: http.StatusUnprocessableEntity,
	}
	internal = problem{
		Type: "internal-error", Title: "Internal error", Status: http.StatusInternalServerError,
		Detail: "The server can't make this request idempotent.",
	}
	answerTooLarge = problem{
		Type: "answer-too-large", Title: "Answer too large", Status: http.StatusInternalServerError,
		Detail: "The answer is larger than the server can keep.",
	}
	unavailable = problem{
		Type: "unavailable", Title: "Idempotency keys unavailable", Status: http.StatusServiceUnavailable,
		Detail: "The server can't look up the key. Nothing was done. Retry with the same key.", Retryable: true, retryAfter: time.Second,
	}
	notResumable = problem{
		Type: "not-resumable", Title: "Request can't be resumed here", Status: http.StatusServiceUnavailable,
		Detail: "The request was begun by another version of the service, which has got further with it than this one can follow. Retry with the same key.", Retryable: true, retryAfter: time.Second,
	}
	requestFailed = problem{
		Type: "request-failed", Title: "Request failed", Status: http.StatusServiceUnavailable,
		Detail: "The request was not carried out to its end. Retry with the same key to go on with it.", Retryable: true, retryAfter: time.Second,
	}
	unknownOutcome = problem{
		Type: "unknown-outcome", Title: "Outcome unknown", Status: http.StatusServiceUnavailable,
		Detail: "The request may have been carried out. Retry with the same key to find out.", Retryable: true, retryAfter: time.Second,
	}
	leaseLost = problem{
		Type: "lease-lost", Title: "Request taken over", Status: http.StatusServiceUnavailable,
		Detail: "Another run of this request took over; its answer counts. Retry with the same key to get it.", Retryable: true, retryAfter: time.Second,
	}
)

// problemOf says what an error is for the client.
func problemOf(err error, cfg *config, came progress) problem {
	var (
		p        problem
		progress *idem.InProgressError
		mismatch *idem.MismatchError
		grave    *idem.TombstoneError
		body     *bodyError
		setup    *setupError
		fail     *failed
	)
	switch {
	case errors.Is(err, ErrKeyMissing):
		p = keyMissing
		p.Detail += " Send it in the header field " + cfg.header + "."
	case errors.Is(err, ErrKeyMalformed):
		p = keyMalformed
		p.Detail = "The header field " + cfg.header + " has no valid key: " + keyReason(err) + "."
	case errors.As(err, &body):
		p = bodyIncomplete
	case errors.Is(err, errBodyTooLarge):
		p = bodyTooLarge
		p.Detail = fmt.Sprintf("The body is larger than %d bytes. Nothing was done.", cfg.maxBody)
	case errors.Is(err, errAnswerTooLarge), came == ranAndUndid && errors.Is(err, idem.ErrTooLarge):
		p = answerTooLarge
	case errors.As(err, &setup), errors.Is(err, errBodyRead):
		p = internal
	case errors.As(err, &mismatch):
		p = keyReused
		p.Detail = fmt.Sprintf("The key was used for a request with another %s. Use a new key for a new request.", mismatch.Part)
	case errors.As(err, &progress):
		p = inProgress
		p.retryAfter = max(progress.RetryAfter, time.Second)
	case errors.As(err, &grave):
		p = answerNotKept
		p.location = field(grave.Response.Header, "Location")
	case errors.Is(err, idem.ErrNeedsResolution):
		p = needsResolution
	case errors.Is(err, idem.ErrUnknownOutcome):
		p = unknownOutcome
	case errors.Is(err, idem.ErrLeaseLost):
		p = leaseLost
	case errors.Is(err, idem.ErrRecoveryPoint):
		p = notResumable
	case errors.Is(err, idem.ErrUnavailable) && came == ranLeased:
		p = requestFailed // what its steps did before is done
	case errors.Is(err, idem.ErrUnavailable):
		p = unavailable
	case errors.Is(err, idem.ErrInvalid) && came == notRun:
		p = invalidRequest
	case errors.Is(err, idem.ErrInvalid), errors.Is(err, idem.ErrTooLarge):
		p = internal // a mistake in the handler's steps, or no room for them
	case errors.As(err, &fail):
		p = requestFailed
	default:
		p = internal
	}
	return p
}

// keyReason is what is wrong with a key, without the key.
func keyReason(err error) string {
	if m, ok := errors.AsType[malformedKeyError](err); ok {
		return string(m)
	}
	return "it is malformed"
}

// writeProblem sends p. What outer middleware set stays, and if that is middleware of
// this package it does not store p: it is no answer to the request.
func writeProblem(w http.ResponseWriter, r *http.Request, p problem) {
	Transient(r.Context(), nil)
	p.Type = problemTypes + p.Type
	body, _ := json.Marshal(p) // strings, a number and a bool
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((p.retryAfter+time.Second-1)/time.Second), 10))
	}
	if p.location != "" {
		h.Set("Location", p.location)
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(body)
}
