package sqlite

import (
	"os"
	"time"
)

// logFile is the path of the write-ahead log, to which every commit of every
// process appends. It is looked at and never opened: closing it would drop SQLite's
// locks.
type logFile string

// logState differs before and after a commit.
type logState struct {
	size    int64
	written time.Time
}

func (f logFile) state() logState {
	info, err := os.Stat(string(f))
	if err != nil {
		return logState{}
	}
	return logState{info.Size(), info.ModTime()}
}
