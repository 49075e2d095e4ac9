//go:build unix

package testenv

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

func startPgBouncer(s *PostgresServer) (instance, error) {
	path, err := findPgBouncer()
	if err != nil {
		return nil, err
	}
	dir, err := serverDir("pgbouncer", postgresUser)
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	config, err := writePgBouncerConfig(dir, port, s)
	if err != nil {
		return nil, err
	}
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	proc, err := startProcess(program{
		path: path, args: []string{config}, user: postgresUser,
		quit: syscall.SIGINT, crash: syscall.SIGKILL,
	}, dir, addr)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return nil, errors.Join(err, proc.close())
	}
	database := filepath.Base(u.Path)
	password, _ := u.User.Password()
	through := access{u.User.Username(), password}.url(addr, database).String()
	if err := waitReady(proc, 10*time.Second, asks(through)); err != nil {
		return nil, errors.Join(err, proc.close())
	}
	return proc, nil
}

// writePgBouncerConfig lets the server's owner in and passes every database on.
func writePgBouncerConfig(dir string, port int, s *PostgresServer) (path string, err error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return "", err
	}
	password, _ := u.User.Password()
	users := filepath.Join(dir, "users")
	if err := writeFor(postgresUser, users, fmt.Sprintf("%q %q\n", u.User.Username(), password)); err != nil {
		return "", err
	}
	path = filepath.Join(dir, "pgbouncer.ini")
	return path, writeFor(postgresUser, path, fmt.Sprintf(`[databases]
* = host=%s port=%s

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = scram-sha-256
auth_file = %s
pool_mode = transaction
default_pool_size = 5
max_client_conn = 500
ignore_startup_parameters = extra_float_digits
`, u.Hostname(), u.Port(), port, users))
}

// findPgBouncer also looks where Debian puts programs for administrators.
func findPgBouncer() (string, error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no PgBouncer on this machine: install it (Debian: apt-get install pgbouncer)")
}

// writeFor writes a file that only the user who runs the server can read.
func writeFor(owner, path, text string) error {
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	cred, err := credential(owner)
	if err != nil || cred == nil {
		return err
	}
	return os.Chown(path, int(cred.Uid), int(cred.Gid))
}
