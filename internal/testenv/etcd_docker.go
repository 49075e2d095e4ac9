package testenv

import (
	"fmt"
	"os"

	"github.com/testcontainers/testcontainers-go"
)

// startDockerEtcd runs the image of IDEM_TEST_ETCD_IMAGE, which has etcd on its PATH.
// There is no default: a server for this machine is built faster than most images
// are found.
func startDockerEtcd(flags []string) (instance, error) {
	image := os.Getenv("IDEM_TEST_ETCD_IMAGE")
	if image == "" {
		return nil, fmt.Errorf("IDEM_TEST_ETCD_IMAGE is not set: %w", errNotConfigured)
	}
	d, err := startContainer(testcontainers.ContainerRequest{
		Image: image,
		Cmd:   append([]string{"etcd"}, etcdFlags("0.0.0.0:2379", "/tmp/etcd", flags)...),
	}, "2379/tcp", etcdStart, etcdReady)
	if err != nil {
		return nil, err // not a nil *dockerServer in an instance
	}
	return d, nil
}
