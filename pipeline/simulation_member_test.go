package pipeline

import (
	"errors"

	"github.com/stagewise/stagewise/pipeline/dispatch"
)

// simMembership is an actor's membership of a consumer group: the partitions that it believes it owns.
type simMembership struct {
	owned   []int
	changed chan struct{}
	err     error
	away    bool // the actor has left the group
}

func newSimMembership() *simMembership { return &simMembership{changed: make(chan struct{}, 1)} }

func (m *simMembership) Owned() []int                      { return m.owned }
func (m *simMembership) Changed() <-chan struct{}          { return m.changed }
func (m *simMembership) Commit(map[int]int64, func(error)) {}
func (m *simMembership) Err() error                        { return m.err }

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

// simMember is a membership that its actor can leave.
type simMember struct {
	*simMembership
	leave func()
}

// Leave makes the group assign all partitions to the others.
func (m simMember) Leave() error {
	m.leave()
	return nil
}

// join returns the membership of an actor, given those of its group and its number. If it was lost or left, it is a new one, for which
// the group assigns all partitions again. A killed process does not leave: it is back before the group has missed it.
func (s *simulation) join(a *actor, group []*simMembership, i int) dispatch.Member {
	if group[i].err != nil || group[i].away {
		group[i] = newSimMembership()
		s.assignAll()
	}
	m := group[i]
	return simMember{m, func() {
		if !a.killed && m.err == nil {
			m.away = true
			m.assign()
			s.assignAll()
		}
	}}
}

// assignAll assigns each partition to one worker and the plans topic to one solver, and notifies all of them.
func (s *simulation) assignAll() {
	s.reassign(func() bool { return true })
}

// reassign draws who owns what. An actor that is not notified keeps what it had, so a partition may have two owners for a while,
// or none.
func (s *simulation) reassign(notified func() bool) {
	owned := make([][]int, len(s.workers))
	if present := s.present(s.workers); len(present) > 0 {
		for p := range s.log.topics[s.topics.Examples] {
			i := present[s.choose(len(present))]
			if s.random == nil {
				i = present[p%len(present)]
			}
			owned[i] = append(owned[i], p)
		}
	}
	for i, m := range s.workers {
		if notified() {
			m.assign(owned[i]...)
		}
	}
	for _, group := range [][]*simMembership{s.solvers, s.runners} {
		s.activate(group, notified)
	}
}

// activate draws which member of a group is the active one: it owns the plans topic.
func (s *simulation) activate(group []*simMembership, notified func() bool) {
	active := -1
	if present := s.present(group); len(present) > 0 {
		active = present[s.choose(len(present))]
	}
	for i, m := range group {
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

// present returns the numbers of the members that have neither left their group nor been expelled from it.
func (s *simulation) present(group []*simMembership) (numbers []int) {
	for i, m := range group {
		if !m.away && m.err == nil {
			numbers = append(numbers, i)
		}
	}
	return numbers
}
