package testenv

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

// redisImage is run where IDEM_TEST_REDIS_IMAGE names no other.
const redisImage = "redis:7-alpine"

// startDockerRedis runs the official image, or another that has redis-server on
// its PATH.
func startDockerRedis(settings []string) (*redisServer, error) {
	password := redisPassword()
	d, err := startContainer(testcontainers.ContainerRequest{
		Image: cmp.Or(os.Getenv("IDEM_TEST_REDIS_IMAGE"), redisImage),
		Cmd:   append([]string{"redis-server"}, redisArgs(password, settings)...),
	}, "6379/tcp", redisStart, asksRedis(password))
	if err != nil {
		return nil, err
	}
	peer, err := containerAddr(d, "6379")
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	return &redisServer{instance: d, password: password, peer: peer}, nil
}

// containerAddr is where other containers reach a port of this one.
func containerAddr(d *dockerServer, port string) (addr string, err error) {
	err = d.call(func(ctx context.Context) error {
		got, err := d.cli.ContainerInspect(ctx, d.id, client.ContainerInspectOptions{})
		if err != nil {
			return err
		}
		for _, n := range got.Container.NetworkSettings.Networks {
			if n.IPAddress.IsValid() {
				addr = net.JoinHostPort(n.IPAddress.String(), port)
				return nil
			}
		}
		return errors.New("the container has no address")
	})
	return addr, err
}
