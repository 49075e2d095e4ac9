//go:build unix

package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// startLocalEtcd runs the etcd of this machine, or one that is built for it.
func startLocalEtcd(flags []string) (instance, error) {
	bin, err := etcdBin()
	if err != nil {
		return nil, err
	}
	// Somebody else may take the port between finding and using it.
	for try := 1; ; try++ {
		addr, err := freeAddr()
		if err != nil {
			return nil, err
		}
		proc, err := startEtcdProcess(bin, addr, flags)
		if err != nil {
			return nil, err
		}
		err = waitReady(proc, etcdStart, etcdReady(addr))
		if err == nil {
			return proc, nil
		}
		if err := errors.Join(err, proc.close()); try == 3 {
			return nil, err
		}
	}
}

func startEtcdProcess(bin, addr string, flags []string) (*process, error) {
	dir, err := serverDir("etcd", "")
	if err != nil {
		return nil, err
	}
	return startProcess(program{
		path: bin, args: etcdFlags(addr, filepath.Join(dir, "data"), flags),
		quit: syscall.SIGTERM, crash: syscall.SIGKILL,
	}, dir, addr)
}

func freeAddr() (string, error) {
	port, err := freePort()
	return fmt.Sprintf("127.0.0.1:%d", port), err
}

// startLocalEtcdSet runs the members of a cluster side by side on this machine.
func startLocalEtcdSet(flags []string) (*etcdSet, error) {
	bin, err := etcdBin()
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		set, err := tryLocalEtcdSet(bin, flags)
		if err == nil {
			return set, nil
		}
		if err := errors.Join(err, set.close()); try == 3 {
			return nil, err
		}
	}
}

func tryLocalEtcdSet(bin string, flags []string) (*etcdSet, error) {
	set, at := new(etcdSet), make([]string, 2*etcdMembers)
	for i := range at {
		var err error
		if at[i], err = freeAddr(); err != nil {
			return set, err
		}
	}
	peers := at[etcdMembers:]
	for i, more := range etcdMemberFlags(peers, func(i int) string { return peers[i] }, flags) {
		proc, err := startEtcdProcess(bin, at[i], more)
		if err != nil {
			return set, err
		}
		set.members = append(set.members, proc)
	}
	for _, m := range set.members {
		if err := waitReady(m, etcdStart, etcdReady(m.addr())); err != nil {
			return set, err
		}
	}
	return set, nil
}

// etcdBin is the etcd on the PATH, or the one that the module in tools/ pins, in the
// repository's bin/.
var etcdBin = sync.OnceValues(func() (string, error) {
	if path, err := exec.LookPath("etcd"); err == nil {
		return filepath.Abs(path)
	}
	root, err := repositoryRoot()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(root, "bin", "etcd")
	if err := os.MkdirAll(filepath.Dir(bin), 0o755); err != nil {
		return "", err
	}
	// Other packages' tests may be at it at the same time.
	lock, err := os.OpenFile(filepath.Join(root, "bin", ".etcd.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Close() }() // and with it the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	if newer(bin, filepath.Join(root, "tools", "go.sum")) {
		return bin, nil
	}
	return bin, buildEtcd(filepath.Join(root, "tools"), bin)
})

const etcdBuild = 8 * time.Minute // a download and an empty cache; usually under a minute

func buildEtcd(tools, bin string) error {
	ctx, cancel := context.WithTimeout(context.Background(), etcdBuild)
	defer cancel()
	made := bin + ".new" // renamed when it is complete
	cmd := exec.CommandContext(ctx, "go", "build", "-o", made, "./etcd")
	cmd.Dir = tools
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-buildvcs=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("no etcd on this machine, and it can't be built with make tools: %w: %s", err, bytes.TrimSpace(out))
	}
	return os.Rename(made, bin)
}

// newer reports whether a file is there and younger than another one.
func newer(file, than string) bool {
	f, err := os.Stat(file)
	if err != nil {
		return false
	}
	o, err := os.Stat(than)
	return err == nil && f.ModTime().After(o.ModTime())
}

// repositoryRoot is the directory above the test's that has tools/go.mod.
func repositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "tools", "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no etcd on this machine, and the test does not run within the repository: install etcd, or set IDEM_TEST_ETCD_ENDPOINTS")
		}
		dir = up
	}
}
