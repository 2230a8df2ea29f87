package pipeline

import "errors"

// simMembership is an actor's membership of a consumer group: the partitions that it believes it owns.
type simMembership struct {
	owned   []int
	changed chan struct{}
	err     error
}

func newSimMembership() *simMembership { return &simMembership{changed: make(chan struct{}, 1)} }

func (m *simMembership) Owned() []int             { return m.owned }
func (m *simMembership) Changed() <-chan struct{} { return m.changed }
func (m *simMembership) Err() error               { return m.err }
func (m *simMembership) Leave() error             { return nil }

func (m *simMembership) assign(partitions ...int) {
	m.owned = partitions
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// errLost is why a membership has ended.
var errLost = errors.New("the group has another member of this name")

// lose ends a membership.
func (m *simMembership) lose() {
	m.err = errLost
	m.assign()
}

// join returns the membership of an actor, given those of its group and its number. In place of one that was lost it returns a
// new one, for which the group assigns all partitions again.
func (s *simulation) join(group []*simMembership, i int) member {
	if group[i].err != nil {
		group[i] = newSimMembership()
		s.assignAll()
	}
	return group[i]
}

// assignAll assigns each partition to one worker and the plans topic to one solver, and notifies all of them.
func (s *simulation) assignAll() {
	s.reassign(func() bool { return true })
}

// reassign draws who owns what. An actor that is not notified keeps what it had, so a partition may have two owners for a while,
// or none.
func (s *simulation) reassign(notified func() bool) {
	owned := make([][]int, len(s.workers))
	for p := range simPartitions {
		i := s.choose(len(s.workers))
		owned[i] = append(owned[i], p)
	}
	for i, m := range s.workers {
		if notified() {
			m.assign(owned[i]...)
		}
	}
	active := s.choose(len(s.solvers))
	for i, m := range s.solvers {
		if !notified() {
			continue
		}
		if i == active {
			m.assign(0)
		} else {
			m.assign()
		}
	}
}
