package idem

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/idem-go/idem/backend"
)

// journal is what the state of a record holds: the steps that its runs have come
// by, in their order. It is JSON, for people who have to look.
type journal struct {
	Version string `json:"version"` // of the code that began it
	Steps   []step `json:"steps"`
}

// step is a phase or a foreign call.
type step struct {
	Name   string          `json:"name"`
	Status stepStatus      `json:"status"`
	Result json.RawMessage `json:"result,omitempty"` // of a step that is done
	Reason string          `json:"reason,omitempty"` // of a call that was refused
}

// stepStatus says how far a step is. A phase that is not done is not in the
// journal; a call is from before it is sent.
type stepStatus string

const (
	stepDone    stepStatus = "done"
	stepSent    stepStatus = "sent"     // and its outcome is not known
	stepNotSent stepStatus = "not sent" // after all
	stepRefused stepStatus = "refused"  // by the far side, for good
	stepLost    stepStatus = "lost"     // done, but its result was too large to be kept
)

// readJournal reads the state of a record that has a recovery point.
func readJournal(state []byte) (journal, error) {
	var j journal
	d := json.NewDecoder(bytes.NewReader(state))
	d.DisallowUnknownFields() // a newer version's: it knows something that this one would lose
	if err := d.Decode(&j); err != nil || len(j.Steps) == 0 {
		return journal{}, recoveryPoint("the record's state was not written by phases of this version of the library")
	}
	for _, s := range j.Steps {
		if !slices.Contains([]stepStatus{stepDone, stepSent, stepNotSent, stepRefused, stepLost}, s.Status) {
			return journal{}, recoveryPoint("the record has a step with a status that this version of the library does not know")
		}
	}
	return j, nil
}

// with gives the journal after the step at index at.
func (j journal) with(at int, s step) journal {
	j.Steps = append(slices.Clone(j.Steps[:at]), s)
	return j
}

// withoutUnsent leaves out a last call that was not sent after all: it is as if the code
// had never come to it, and may go another way.
func (j journal) withoutUnsent() journal {
	if last := len(j.Steps) - 1; last >= 0 && j.Steps[last].Status == stepNotSent {
		j.Steps = j.Steps[:last]
	}
	return j
}

func (j journal) bytes() ([]byte, error) {
	b, err := json.Marshal(j)
	if err != nil {
		return nil, invalidValue("of a step does not encode", err)
	}
	return b, nil
}

// point is the name of a step's recovery point, for people: what the code goes by is
// in the state.
func (s step) point() string {
	if s.Status == stepDone {
		return s.Name
	}
	return s.Name + " (" + string(s.Status) + ")"
}

func recoveryPoint(hint string) error {
	return &backend.Error{Op: "idem: resume", Kind: ErrRecoveryPoint, Hint: hint}
}
