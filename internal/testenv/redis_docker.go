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
func startDockerRedis(conf redisConfig) (*redisServer, error) {
	password := redisPassword()
	command := append([]string{"redis-server"}, redisArgs(password, conf.settings)...)
	if conf.sentinel != "" { // which keeps what it learns in its file
		command = []string{"sh", "-c", `printf %s "$0" >/tmp/sentinel.conf && exec redis-server /tmp/sentinel.conf --sentinel --port 6379 "$@"`, conf.sentinel}
		command = append(command, redisArgs(password, conf.settings)...)
	}
	d, err := startContainer(testcontainers.ContainerRequest{
		Image: cmp.Or(os.Getenv("IDEM_TEST_REDIS_IMAGE"), redisImage),
		Cmd:   command,
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
