//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package adapter

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/idem-go/idem/backend"
)

// stripe is what a lock and a temporary file belong to: the records whose names
// begin alike. Its two files are never removed, so that all processes lock the same ones.
func (b *Backend) stripe(name, suffix string) string {
	return filepath.Join(b.dir, name[:2]+suffix)
}

// lock waits for the lock of a record's stripe, as long as the context lets it. The lock
// is the kernel's, which takes it back when the file is closed, also by a kill. A
// file made with O_EXCL would stay behind, and whoever took it over after some time could
// meet its owner, who was only slow.
func (b *Backend) lock(ctx context.Context, name string) (unlock func(), err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	f, err := os.OpenFile(b.stripe(name, ".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, err
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			f.Close()
			return nil, context.Cause(ctx)
		}
	}
}

// read gives the record in a file, nil if there is none.
func (b *Backend) read(name string) (*backend.Record, error) {
	text, err := os.ReadFile(filepath.Join(b.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := new(backend.Record)
	return r, json.Unmarshal(text, r)
}

// store puts a record in the place of the one before, or takes that away (nil). Up
// to the rename nothing has happened. From there on an error leaves open what is there
// after a crash.
func (b *Backend) store(op, name string, r *backend.Record) error {
	path, tmp := filepath.Join(b.dir, name), b.stripe(name, ".tmp")
	if r != nil {
		if err := writeSynced(tmp, *r); err != nil { // a half-written one is written over by the next store
			return notDone(op, err)
		}
		if err := os.Rename(tmp, path); err != nil {
			return maybeDone(op, err)
		}
	} else if err := os.Remove(path); err != nil {
		return maybeDone(op, err)
	}
	return nil
}

// writeSynced syncs before the file gets its name: a crash could keep the name and
// lose the bytes.
func writeSynced(path string, r backend.Record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncDir makes what was renamed and removed in a directory survive a loss of power.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
