package testenv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"

	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

// startDockerNetwork makes a network whose containers know each other by their aliases.
func startDockerNetwork() (name string, remove func() error, err error) {
	cli, err := docker()
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), dockerCall)
	defer cancel()
	return createNetwork(ctx, cli, nil)
}

// createNetwork makes a network, of the engine's choice where ipam is nil.
func createNetwork(ctx context.Context, cli *testcontainers.DockerClient, ipam *network.IPAM) (name string, remove func() error, err error) {
	labels, err := ownerLabels()
	if err != nil {
		return "", nil, err
	}
	name = workDirPrefix + strings.ToLower(rand.Text())
	_, err = cli.NetworkCreate(ctx, name, client.NetworkCreateOptions{Driver: "bridge", Labels: labels, IPAM: ipam})
	return name, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), dockerCall)
		defer cancel()
		_, err := cli.NetworkRemove(ctx, name, client.NetworkRemoveOptions{})
		return err
	}, err
}

// fixedNetwork is a network in which a container keeps its address when it is killed
// and started again. Elsewhere it may get another one, and another container its own.
type fixedNetwork struct {
	name   string
	subnet netip.Prefix

	mu   sync.Mutex
	last netip.Addr
}

// next is an address that no container has, unless one is as old as the range is long.
func (n *fixedNetwork) next() netip.Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last = n.last.Next()
	if !n.subnet.Contains(n.last.Next()) { // the range's last address is everybody's
		n.last = firstFree(n.subnet)
	}
	return n.last
}

// firstFree is the address after the range's own and that of the engine.
func firstFree(subnet netip.Prefix) netip.Addr { return subnet.Masked().Addr().Next().Next() }

// peerNetwork is the network of this process's servers that form groups.
var peerNetwork = sync.OnceValues(func() (*fixedNetwork, error) {
	cli, err := docker()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), dockerCall)
	defer cancel()
	var errs []error
	for range 5 { // others make networks, too
		n, remove, err := newFixedNetwork(ctx, cli)
		if err == nil {
			onShutdown(remove)
			return n, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("a network with addresses that last: %w", errors.Join(errs...))
})

// newFixedNetwork makes a network of a range that the engine chose for another: it takes
// addresses of ours only where the range is ours too, and knows better which are free.
func newFixedNetwork(ctx context.Context, cli *testcontainers.DockerClient) (*fixedNetwork, func() error, error) {
	first, removeFirst, err := createNetwork(ctx, cli, nil)
	if err != nil {
		return nil, nil, err
	}
	chosen, err := cli.NetworkInspect(ctx, first, client.NetworkInspectOptions{})
	if err := errors.Join(err, removeFirst()); err != nil {
		return nil, nil, err
	}
	for _, c := range chosen.Network.IPAM.Config {
		if !c.Subnet.Addr().Is4() {
			continue
		}
		name, remove, err := createNetwork(ctx, cli, &network.IPAM{Config: []network.IPAMConfig{{Subnet: c.Subnet, Gateway: c.Gateway}}})
		if err != nil {
			return nil, nil, err
		}
		return &fixedNetwork{name: name, subnet: c.Subnet, last: firstFree(c.Subnet).Prev()}, remove, nil
	}
	return nil, nil, errors.New("the engine's networks have no IPv4 range")
}
