package solver

import (
	"sync"

	"github.com/stagewise/stagewise/pipeline/solver/columns"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/solve/linear"
)

// Store is what a solver's process keeps in memory from one run of a chain to the next: the sums that the next run goes on from, which are
// also on the state topic, and memory of the same sizes as the next run needs. The zero value is empty. A store is safe for concurrent use.
type Store struct {
	mutex   sync.Mutex
	head    *head
	scratch *scratch
}

// scratch is memory of megabytes, which would otherwise be mapped and cleared in each run.
type scratch struct {
	factors [2]linear.Buffer // of the stages in turn: those of the stage before may still be in use
}

// lend returns memory that nobody else uses, until it is given back.
func (s *Store) lend() *scratch {
	if s == nil {
		return &scratch{}
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	lent := s.scratch
	if s.scratch = nil; lent == nil {
		lent = &scratch{}
	}
	return lent
}

// giveBack takes memory that was lent.
func (s *Store) giveBack(lent *scratch) {
	if s == nil {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.scratch = lent
}

// head is the end of a chain.
type head struct {
	window  *schemas.Window
	moments []*solve.Moments // of each stage
	columns *columns.State   // of a chain on sparse rows, in place of moments
}

// take returns the sums after a run, and empties the store: who goes on from them changes them.
func (s *Store) take(run string) *head {
	if s == nil {
		return nil
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	h := s.head
	if h == nil || h.window.Run != run {
		return nil
	}
	s.head = nil
	return h
}

func (s *Store) put(h *head) {
	if s == nil {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.head = h
}
