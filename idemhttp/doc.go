// Package idemhttp makes HTTP handlers safe to retry: server middleware on
// net/http for package idem.
//
//	Idempotency-Key: "8e03978e-40d5-43e8-bc93-6894a57f9324"
//
// The first request with a key runs the handler; every retry gets the same answer.
// [New] is for effects outside of the database, on any backend: a lease holds the
// key while the handler runs. [NewTx] is for effects in the database that keeps the
// records: the handler gets the transaction that claims the key and stores the
// answer, and everything is committed together or not at all. Package idem says
// which guarantees that makes.
//
// # What happens to a request
//
//  1. Authentication, which is yours, comes before the middleware.
//  2. The key is read from its header ([KeySyntax]), and its scope is asked for.
//  3. The body is read into memory, under a limit, and fingerprinted.
//  4. The key is claimed. A retry is answered here.
//  5. The handler runs. Its request has the whole body again, and a context that
//     keeps the values of the request's but does not end when the client goes
//     away ([WithTimeout], [WithClientCancel]).
//  6. The answer is stored.
//  7. The answer is sent. Nothing of it leaves before it is stored.
//
// # What is stored
//
// Answers with a status of 2xx, 3xx or 4xx, but for 401, 403, 408, 425 and 429
// ([WithStored]). After any other answer the key is free again, and the next try runs
// the handler; with [NewTx] what it wrote is rolled back. A handler can decide for
// one answer: [Transient] keeps it from being stored, [Final] stores it. With
// [NewTx] a stored answer of 400 or above is a refusal: what the handler wrote is
// undone and the answer is kept.
//
// A handler that writes nothing has answered 200 without a body, and that is stored
// like any other. A handler that panics, with [http.ErrAbortHandler] too, has not
// answered: nothing is stored and the panic goes on.
//
// # Steps
//
// On the leased path a handler can go in steps, with the run that [RunFrom] gives it and
// an executor with idem.WithPhases. An answer that is not stored, a 500 for example, then
// does not free the key but ends the run: the client's retry goes on behind the last
// step that is done. Where a call may have been sent and has no outcome, no answer is
// stored, whatever the handler wrote, and retries get 409 until the lease is over; the next
// one finds out.
//
// # First answer and replay
//
// Both are written by the same code from what was stored, so they are equal, to the byte
// in the body, except for
//
//   - Idempotent-Replayed: true, which only a replay has;
//   - what is never stored: Set-Cookie, authentication fields (WWW-Authenticate,
//     Authentication-Info and the like), and fields that concern one connection
//     (RFC 9110, section 7.6.1, with those named by Connection). The first answer
//     has them, the replay does not;
//   - Date, which is always the present one.
//
// Content-Length is counted anew. Trailers and informational answers (1xx) are left
// out of both. What outer middleware has set on the header stands, unless the
// handler sets the same field; Vary and Set-Cookie are added to. The handler itself
// sees an empty header, as with [http.TimeoutHandler].
//
// An answer over the executor's limit (idem.WithMaxResponse) reaches its first
// caller whole. Its retries get 410 Gone, with the Location that it had. A table of
// every kind of answer is in [docs/responses.md].
//
// # Streaming
//
// The handler's ResponseWriter buffers. It is no [http.Flusher] and no
// [http.Hijacker], and [http.ResponseController] says so with
// [http.ErrNotSupported]; its deadlines work. [WithStreaming] allows both on the
// leased path: the record is completed, without an answer, before the first byte
// leaves, so that the handler runs at most once and its retries get 410 Gone.
//
// # Problems
//
// What the middleware itself has to say is application/problem+json (RFC 9457)
// with Cache-Control: no-store and a member retryable: whether to send the request
// again, with the same key. Every type is an address in [docs/problems.md].
//
//	condition                                        status  retryable
//	no key, where one is required                    400     no
//	the key is malformed                             400     no
//	the request can't be claimed (path too long)     400     no
//	the body could not be read                       400     yes
//	the body is over the limit                       413     no
//	the key was used for another request             422     no
//	another request with the key is in progress      409     yes, Retry-After
//	a person has to look what became of it           409     no
//	completed, but the answer was not kept           410     no
//	the store can't be asked; the handler did not    503     yes, Retry-After
//	  run, or its transaction was rolled back
//	the handler ran, its answer is not stored        503     yes, Retry-After
//	the handler failed ([Transient])                 503     yes, Retry-After
//	the record was left by code with other steps     503     yes, Retry-After
//	another run took the key over                    503     yes, Retry-After
//	the server is set up wrongly (no scope, …)       500     no
//
// Nothing of a key, a scope or a body is in them, and nothing of a stored answer but
// the Location above. Errors that make a 5xx go to [WithErrorHandler].
//
// [docs/problems.md]: https://github.com/idem-go/idem/blob/main/docs/problems.md
// [docs/responses.md]: https://github.com/idem-go/idem/blob/main/docs/responses.md
package idemhttp
