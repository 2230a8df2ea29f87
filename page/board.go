package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
)

// Board holds the newest state for all browsers. The zero value is not usable: see [NewBoard].
type Board struct {
	mutex    sync.Mutex
	state    *State
	sections []section // in the order in which browsers get them
	number   int64     // of the newest change
	changed  chan struct{}
}

// section is a part of the state as JSON.
type section struct {
	name   string
	json   []byte
	number int64 // of the change that made it
}

// NewBoard returns a board with an empty state.
func NewBoard() *Board {
	b := &Board{changed: make(chan struct{})}
	b.Put(&State{
		Summary: Summary{Level: Notice, Verdict: "The topics are being read.", Needs: []Need{}, Facts: []Fact{}}, Topics: []Topic{},
		Versions: []Version{},
		Staff: Staff{
			Hidden: []string{}, Ingesters: []Worker{}, Workers: []Worker{}, Solvers: []Worker{}, Runners: []Worker{}, Scorers: []Worker{},
			Servers: []Worker{},
		},
		Quarantine: Quarantine{Reasons: []Reason{}, Recent: []BadMessage{}},
	})
	return b
}

// Put replaces the state. The caller must not change s afterwards.
func (b *Board) Put(s *State) {
	parts := []struct {
		name  string
		value any
	}{
		{"summary", nil}, {"topics", s.Topics}, {"run", s.Run}, {"versions", s.Versions}, {"quality", s.Quality}, {"staff", s.Staff},
		{"quarantine", s.Quarantine},
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.state = s
	if b.sections == nil {
		b.sections = make([]section, len(parts))
	}
	number := b.number + 1
	for i := len(parts) - 1; i >= 0; i-- { // the summary, which reports sections that can't be shown, is last
		part := parts[i]
		if i == 0 {
			part.value = s.Summary
		}
		text, err := json.Marshal(part.value)
		if err != nil { // such as NaN, which JSON lacks: topics may have any number
			s.Summary.Level, s.Summary.Verdict = Trouble, "A part of this page can't be shown."
			s.Summary.Needs = append(s.Summary.Needs, Need{Trouble, fmt.Sprintf("The part %s is older than the rest: %v.", part.name, err),
				aboutFlow})
			text = b.sections[i].json // NewBoard has put the first
		}
		if !bytes.Equal(text, b.sections[i].json) {
			b.sections[i], b.number = section{part.name, text, number}, number
		}
	}
	if b.number == number {
		close(b.changed)
		b.changed = make(chan struct{})
	}
}

// State returns the newest state. The caller must not change it.
func (b *Board) State() *State {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.state
}

// json returns the sections of the newest state as one document.
func (b *Board) json() []byte {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	text := []byte{'{'}
	for i, s := range b.sections {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(strconv.AppendQuote(text, s.name), ':')
		text = append(text, s.json...)
	}
	return append(text, "}\n"...)
}

// after returns the sections that have changed after a change, the number of the newest change, and a channel that is closed at the next.
func (b *Board) after(number int64) (sections []section, newest int64, changed <-chan struct{}) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for _, s := range b.sections {
		if s.number > number {
			sections = append(sections, s)
		}
	}
	return sections, b.number, b.changed
}
