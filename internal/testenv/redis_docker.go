package testenv

import (
	"cmp"
	"net"
	"os"

	"github.com/moby/moby/api/types/network"
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
	// The servers of a group know each other by their addresses, so these have to last.
	peers, err := peerNetwork()
	if err != nil {
		return nil, err
	}
	ip := peers.next()
	d, err := startContainer(testcontainers.ContainerRequest{
		Image:    cmp.Or(os.Getenv("IDEM_TEST_REDIS_IMAGE"), redisImage),
		Cmd:      command,
		Networks: []string{peers.name},
		EndpointSettingsModifier: func(of map[string]*network.EndpointSettings) {
			of[peers.name] = &network.EndpointSettings{IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: ip}}
		},
	}, "6379/tcp", redisStart, asksRedis(password))
	if err != nil {
		return nil, err
	}
	return &redisServer{instance: d, password: password, peer: net.JoinHostPort(ip.String(), "6379")}, nil
}
