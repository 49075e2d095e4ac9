package main

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
)

// gateway is the far side: somebody else's HTTP service, with a book of its own. It
// knows nothing of this library. It has idempotency keys, as gateways have, and can be
// asked what became of a charge.
type gateway struct {
	mu    sync.Mutex
	modes map[string]mode // of the next charge of an order, for the demonstration
	book  []*charge
	sent  map[string]int // how often a charge of an order was asked for
	asked map[string]int // how often somebody inquired after a key
	held  chan struct{}  // closed when charges that hang go on
}

// mode is what goes wrong at the gateway.
type mode string

const (
	works    mode = ""
	declines mode = "decline" // says no, for good
	fails    mode = "fail"    // answers 500 and does nothing
	drops    mode = "drop"    // charges, and the connection breaks before the reply
	hangs    mode = "hang"    // takes the request and does not answer before it is let go on
)

// charge is an entry of the book.
type charge struct {
	ID     string `json:"id"`
	Order  string `json:"order"`
	Amount int64  `json:"amount"` // in cents
	Status string `json:"status"`

	key string
}

// What a charge can be.
const (
	processing = "processing"
	charged    = "charged"
	declined   = "declined"
)

func newGateway() *gateway {
	return &gateway{modes: map[string]mode{}, sent: map[string]int{}, asked: map[string]int{}, held: make(chan struct{})}
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /charges", g.postCharge)
	mux.HandleFunc("GET /charges/{key}", g.getCharge)
	mux.HandleFunc("PUT /modes/{order}", g.putMode) // for the demonstration
	mux.HandleFunc("POST /go-on", g.goOn)           // for the demonstration
	mux.ServeHTTP(w, r)
}

func (g *gateway) postCharge(w http.ResponseWriter, r *http.Request) {
	var in charge
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	key := r.Header.Get("Idempotency-Key")
	c, how, held := g.enter(key, in)
	if c == nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	if held != nil {
		<-held // whoever asked has gone long since; the charge goes through all the same
		g.settle(c, charged)
	}
	if how == drops {
		panic(http.ErrAbortHandler) // closes the connection
	}
	g.reply(w, key)
}

// enter books a charge, once per key. There is none if the gateway fails. held is
// what a charge that hangs has to wait for.
func (g *gateway) enter(key string, in charge) (_ *charge, _ mode, held chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sent[in.Order]++
	how := g.modes[in.Order]
	if c := g.find(key); c != nil {
		return c, works, nil
	}
	delete(g.modes, in.Order)
	if how == fails {
		return nil, how, nil
	}
	c := &charge{ID: "ch_" + rand.Text(), Order: in.Order, Amount: in.Amount, Status: charged, key: key}
	if how == declines {
		c.Status = declined
	}
	if how == hangs {
		c.Status, held = processing, g.held
	}
	g.book = append(g.book, c)
	return c, how, held
}

func (g *gateway) find(key string) *charge {
	i := slices.IndexFunc(g.book, func(c *charge) bool { return c.key == key })
	if i < 0 {
		return nil
	}
	return g.book[i]
}

func (g *gateway) settle(c *charge, status string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.Status = status
}

func (g *gateway) getCharge(w http.ResponseWriter, r *http.Request) {
	key := r.PathValue("key")
	g.mu.Lock()
	c := g.find(key)
	if c != nil {
		g.asked[c.Order]++
	}
	g.mu.Unlock()
	if c == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	g.reply(w, key)
}

func (g *gateway) reply(w http.ResponseWriter, key string) {
	g.mu.Lock()
	c := *g.find(key)
	g.mu.Unlock()
	status := map[string]int{processing: http.StatusAccepted, charged: http.StatusCreated, declined: http.StatusPaymentRequired}[c.Status]
	writeJSON(w, status, c)
}

func (g *gateway) putMode(_ http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.modes[r.PathValue("order")] = mode(r.URL.Query().Get("mode"))
}

// goOn lets every charge that hangs go through.
func (g *gateway) goOn(http.ResponseWriter, *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.held)
	g.held = make(chan struct{})
}

// charges are those of an order that went through.
func (g *gateway) charges(order string) (through []charge) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.book {
		if c.Order == order && c.Status == charged {
			through = append(through, *c)
		}
	}
	return through
}
