//go:build unix

package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// startLocalRedis starts the redis-server of this machine with the settings
// ("name=value").
func startLocalRedis(settings []string) (*redisServer, error) {
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errors.New("no Redis server on this machine: install one (Debian: apt-get install redis-server), start Docker, or set IDEM_TEST_REDIS_URL")
	}
	dir, err := serverDir("redis", "")
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, err
	}
	password := redisPassword()
	// Somebody else may take the port between finding and using it.
	for try := 1; ; try++ {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		args := []string{"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", data, "--pidfile", filepath.Join(data, "redis.pid")}
		proc, err := startProcess(program{
			path: bin, args: append(args, redisArgs(password, settings)...),
			quit: syscall.SIGTERM, crash: syscall.SIGKILL,
		}, dir, fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return nil, err
		}
		err = waitReady(proc, redisStart, asksRedis(password)(proc.addr()))
		if err == nil {
			return &redisServer{instance: proc, password: password, peer: proc.addr()}, nil
		}
		if try == 3 {
			_ = proc.close() // the first error tells more
			return nil, err
		}
		if err := proc.kill(); err != nil {
			return nil, err
		}
	}
}
