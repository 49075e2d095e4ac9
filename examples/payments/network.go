package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// network is a bad one: a TCP proxy between the customer and the server, which
// does to each connection what its port stands for.
type network struct {
	// Addresses for customers.
	good string
	mute string // takes the request to the server and loses the reply
	dead string // loses the request

	servers   atomic.Pointer[[]string] // where they listen now; connections take turns
	turn      atomic.Uint64
	lost      chan lostAnswer // what mute has lost
	listeners []net.Listener
	open      sync.WaitGroup
}

// lostAnswer is one that the server gave and nobody got.
type lostAnswer struct {
	answer answer
	err    error
}

func newNetwork() (*network, error) {
	n := &network{lost: make(chan lostAnswer, 1)}
	for _, port := range []struct {
		addr   *string
		handle func(client net.Conn)
	}{{&n.good, n.pass}, {&n.mute, n.loseReply}, {&n.dead, loseRequest}} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			n.close()
			return nil, fmt.Errorf("start the network: %w", err)
		}
		*port.addr = l.Addr().String()
		n.listeners = append(n.listeners, l)
		n.open.Go(func() { n.accept(l, port.handle) })
	}
	return n, nil
}

// close takes no more connections and waits for the open ones to end.
func (n *network) close() {
	for _, l := range n.listeners {
		l.Close()
	}
	n.open.Wait()
}

func (n *network) accept(l net.Listener, handle func(client net.Conn)) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		n.open.Go(func() {
			defer client.Close()
			handle(client)
		})
	}
}

func (n *network) dial() (net.Conn, error) {
	servers := *n.servers.Load()
	if len(servers) == 0 {
		return nil, errors.New("no server is running")
	}
	return net.Dial("tcp", servers[n.turn.Add(1)%uint64(len(servers))])
}

// pass copies both ways until either side ends.
func (n *network) pass(client net.Conn) {
	server, err := n.dial()
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client)
		server.Close()
	}()
	_, _ = io.Copy(client, server)
}

// loseRequest reads the request, so that the customer surely sent it.
func loseRequest(client net.Conn) {
	_, _ = http.ReadRequest(bufio.NewReader(client))
}

// loseReply waits for all of the server's answer before the customer loses the
// connection, so that the answer was surely given.
func (n *network) loseReply(client net.Conn) {
	a, err := n.relay(client)
	n.lost <- lostAnswer{a, err}
}

func (n *network) relay(client net.Conn) (answer, error) {
	server, err := n.dial()
	if err != nil {
		return answer{}, err
	}
	defer server.Close()
	go func() { _, _ = io.Copy(server, client) }()
	resp, err := http.ReadResponse(bufio.NewReader(server), nil)
	if err != nil {
		return answer{}, err
	}
	return readAnswer(resp)
}
