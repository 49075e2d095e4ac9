package testenv

import (
	"cmp"
	"os"

	"github.com/testcontainers/testcontainers-go"
)

// postgresImage is run where IDEM_TEST_POSTGRES_IMAGE names no other.
const postgresImage = "postgres:17-alpine"

// startDockerPostgres runs the official image or one that keeps its contract, see
// scripts/docker-image.sh.
func startDockerPostgres(settings []string) (instance, access, error) {
	acc := newAccess()
	cmd := []string{"postgres"}
	for _, s := range settings {
		cmd = append(cmd, "-c", s)
	}
	d, err := startContainer(testcontainers.ContainerRequest{
		Image: cmp.Or(os.Getenv("IDEM_TEST_POSTGRES_IMAGE"), postgresImage),
		Env:   map[string]string{"POSTGRES_USER": acc.user, "POSTGRES_PASSWORD": acc.password},
		Cmd:   cmd,
	}, "5432/tcp", postgresStart, acc.ask)
	if err != nil {
		return nil, access{}, err // not a nil *dockerServer in an instance
	}
	return d, acc, nil
}
