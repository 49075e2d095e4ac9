//go:build unix

package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// startLocalRedis starts the redis-server of this machine.
func startLocalRedis(conf redisConfig) (*redisServer, error) {
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
	var mode []string
	if conf.sentinel != "" { // which keeps what it learns in its file
		file := filepath.Join(data, "sentinel.conf")
		if err := os.WriteFile(file, []byte(conf.sentinel), 0o600); err != nil {
			return nil, err
		}
		mode = []string{file, "--sentinel"}
	}
	password := redisPassword()
	// Somebody else may take the port between finding and using it.
	for try := 1; ; try++ {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		args := slices.Concat(mode, []string{"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", data, "--pidfile", filepath.Join(data, "redis.pid")})
		proc, err := startProcess(program{
			path: bin, args: append(args, redisArgs(password, conf.settings)...),
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
