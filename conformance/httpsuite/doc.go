// Package httpsuite tests whether a server treats idempotency keys as its clients
// have to rely on. It knows nothing of the server but its address: the server may be written
// in any language, and use this library or not.
//
//	httpsuite.Run(t, httpsuite.Config{
//		URL: "https://staging.shop.example", Path: "/payments",
//		Body: func(n int) (string, []byte) { return "application/json", fmt.Appendf(nil, `{"amount": %d}`, n) },
//	})
//
// [Run] makes subtests; [Check] does the same without package testing, and its [report] can be
// written as Markdown and JSON.
//
// The cases have real effects, a few hundred of them: run them on a server and with credentials
// that are there for it. They come one after the other, each with keys that nobody has used.
//
// # Cases
//
// Every case has a stable id, one sentence that it checks and that it prints when it fails,
// and where that sentence is from: the Idempotency-Key draft, the RFCs, or what this library promises
// beyond them.
//
//	first       a new key is carried out
//	replay      a retry gets the same answer, byte by byte, and nothing runs
//	mismatch    the key with another request: 422, also while the first runs
//	concurrent  20 at once: one effect, the others wait or get 409
//	user        the same key of another user is another key
//	key         every way to write the key's header, as raw bytes
//	lost        the connection is cut before there is an answer
//	problem     refusals are problem details that tell nothing
//	http2       the same over HTTP/2, where an https server offers it
//
// # What is claimed
//
// Much of this the draft leaves to the server. [Claims] say what this one does; a case checks
// no more, and a claim adds cases. [Ours] are those of package idemhttp. A case that
// is about something that is not claimed, or that lacks a function of the [Config], is "not
// run" and says what it lacks: skipped by Run, and failed where the environment variable
// IDEM_TEST_REQUIRE is "all", or a list with "conformance" in it.
//
// # What counts as an effect
//
// With Config.Effects the suite counts. Without it two runs are told apart by their answers,
// which differ where they name what was created, in the body, Location or ETag. A server that answers
// every request with the same bytes shows nothing that way, and the cases about it are not run.
//
// # Requests in flight
//
// What happens while a request is being carried out can only be seen if it takes long. Config.Slow
// has the server hold a request until it is let go, or ask it for something slow.
//
// # The suite itself
//
// The tests of this package run it on servers with one fault each. Every fault is caught by the
// cases named for it and by no others, and every case catches a fault.
//
// [report]: https://pkg.go.dev/github.com/idem-go/idem/conformance#Report
package httpsuite
