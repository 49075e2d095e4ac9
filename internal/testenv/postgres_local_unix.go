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
	"strings"
	"syscall"
)

// startLocalPostgres makes a database cluster and starts it with the settings
// ("name=value").
func startLocalPostgres(settings []string) (instance, access, error) {
	bin, err := postgresBin()
	if err != nil {
		return nil, access{}, err
	}
	acc := newAccess()
	dir, err := serverDir("postgres", postgresUser)
	if err != nil {
		return nil, access{}, err
	}
	if err := initdb(bin, dir, acc); err != nil {
		return nil, access{}, err
	}
	// Somebody else may take the port between finding and using it.
	for try := 1; ; try++ {
		port, err := freePort()
		if err != nil {
			return nil, access{}, err
		}
		// No Unix socket: the path of a temporary directory can be too long for one.
		args := []string{"-D", filepath.Join(dir, "data"), "-c", "listen_addresses=127.0.0.1", "-c", "port=" + strconv.Itoa(port), "-c", "unix_socket_directories="}
		for _, s := range settings {
			args = append(args, "-c", s)
		}
		proc, err := startProcess(program{
			path: filepath.Join(bin, "postgres"), args: args, user: postgresUser,
			quit: syscall.SIGINT, crash: syscall.SIGQUIT, // fast and immediate shutdown
		}, dir, fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return nil, access{}, err
		}
		err = waitReady(proc, postgresStart, acc.ask(proc.addr()))
		if err == nil {
			return proc, acc, nil
		}
		if try == 3 {
			_ = proc.close() // the first error tells more
			return nil, access{}, err
		}
		if err := proc.kill(); err != nil {
			return nil, access{}, err
		}
	}
}

// postgresUser runs the server where the tests run as root, which PostgreSQL
// refuses. Debian's package makes the user.
const postgresUser = "postgres"

func initdb(bin, dir string, acc access) error {
	secret := filepath.Join(dir, "password")
	if err := writeFor(postgresUser, secret, acc.password); err != nil {
		return err
	}
	cred, err := credential(postgresUser)
	if err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(bin, "initdb"), "-D", filepath.Join(dir, "data"), "-U", acc.user,
		"--auth=scram-sha-256", "--pwfile="+secret, "--encoding=UTF8", "--locale=C", "--no-sync")
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return nil
}

// postgresBin finds the directory with initdb and postgres: on the PATH, or the
// newest version where distributions keep several.
func postgresBin() (string, error) {
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path), nil
		}
	}
	var found []string
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin"} {
		dirs, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		for _, dir := range dirs {
			if _, err := exec.LookPath(filepath.Join(dir, "initdb")); err == nil {
				found = append(found, dir)
			}
		}
	}
	if len(found) == 0 {
		return "", errors.New("no PostgreSQL server on this machine: install one (Debian: apt-get install postgresql), start Docker, or set IDEM_TEST_POSTGRES_URL")
	}
	return slices.MaxFunc(found, func(a, b string) int { return majorVersion(a) - majorVersion(b) }), nil
}

// majorVersion is the number in a path of postgresBin.
func majorVersion(dir string) int {
	digits := strings.TrimLeft(filepath.Base(filepath.Dir(dir)), "abcdefghijklmnopqrstuvwxyz-@")
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0 // not one of ours: the last choice
	}
	return n
}
