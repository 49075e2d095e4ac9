//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package sqlite

import (
	"errors"
	"os"
)

func tryLock(*os.File) (locked bool, err error) { return false, errors.ErrUnsupported }

func unlock(*os.File) {}
