package solver

import (
	"sync"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
)

// Store is a solver process's memory between the runs of a chain: the sums from which the next run continues, which are
// also on the state topic, and reusable buffers. The zero value is empty. A store is safe for concurrent use.
type Store struct {
	mutex   sync.Mutex
	head    *head
	scratch *scratch
}

// scratch is buffers of megabytes, which would otherwise be mapped and cleared in each run.
type scratch struct {
	factors [2]solve.Buffer // of alternating stages: those of the previous stage may still be in use
}

// lend returns buffers for exclusive use, until they are given back.
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

// giveBack takes back lent buffers.
func (s *Store) giveBack(lent *scratch) {
	if s == nil {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.scratch = lent
}

// head is the state at the end of a chain.
type head struct {
	window  *schemas.Window
	moments []*solve.Moments // by stage
	columns *columnsState    // on sparse rows, in place of moments
}

// pop returns the sums after a run, and removes them from the store, because the next run modifies them.
func (s *Store) pop(run string) *head {
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
