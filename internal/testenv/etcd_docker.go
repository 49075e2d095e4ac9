package testenv

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/testcontainers/testcontainers-go"
)

// startDockerEtcd runs the image of IDEM_TEST_ETCD_IMAGE, which has etcd on its PATH.
// There is no default: a server for this machine is built faster than most images
// are found.
func startDockerEtcd(flags []string) (instance, error) {
	d, err := startEtcdContainer(testcontainers.ContainerRequest{}, flags)
	if err != nil {
		return nil, err // not a nil *dockerServer in an instance
	}
	return d, nil
}

func startEtcdContainer(req testcontainers.ContainerRequest, flags []string) (*dockerServer, error) {
	req.Image = os.Getenv("IDEM_TEST_ETCD_IMAGE")
	if req.Image == "" {
		return nil, fmt.Errorf("IDEM_TEST_ETCD_IMAGE is not set: %w", errNotConfigured)
	}
	req.Cmd = append([]string{"etcd"}, etcdFlags("0.0.0.0:2379", "/tmp/etcd", flags)...)
	return startContainer(req, "2379/tcp", etcdStart, etcdReady)
}

// startDockerEtcdSet runs the members of a cluster on a network of their own, where
// they know each other by name before they start.
func startDockerEtcdSet(flags []string) (*etcdSet, error) {
	if os.Getenv("IDEM_TEST_ETCD_IMAGE") == "" {
		return nil, fmt.Errorf("IDEM_TEST_ETCD_IMAGE is not set: %w", errNotConfigured)
	}
	network, remove, err := startDockerNetwork()
	if err != nil {
		return nil, err
	}
	var names, peers []string
	for i := range etcdMembers {
		names = append(names, fmt.Sprint("m", i))
		peers = append(peers, names[i]+":2380")
	}
	// None of them answers before the majority is there.
	servers, errs := make([]*dockerServer, etcdMembers), make([]error, etcdMembers)
	var started sync.WaitGroup
	for i, more := range etcdMemberFlags(peers, func(int) string { return "0.0.0.0:2380" }, flags) {
		started.Go(func() {
			servers[i], errs[i] = startEtcdContainer(testcontainers.ContainerRequest{
				Networks: []string{network}, NetworkAliases: map[string][]string{network: {names[i]}},
			}, more)
		})
	}
	started.Wait()
	set := &etcdSet{after: remove}
	for _, d := range servers {
		if d != nil {
			set.members = append(set.members, d)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, set.close())
	}
	return set, nil
}
