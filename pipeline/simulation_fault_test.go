package pipeline

import (
	"slices"
)

// injectFault makes one fault happen, chosen at random. Faults of single calls are in actorLog.
func (s *simulation) injectFault() {
	if len(s.actors) == 0 { // all runners have ended, and are started again later
		return
	}
	a := s.actors[s.random.IntN(len(s.actors))]
	if a.process != nil {
		a = a.process
	}
	n := s.random.IntN(14)
	switch {
	case s.operators && s.random.IntN(3) == 0:
		n = 12
	case s.fromTopic > 0 && s.random.IntN(4) == 0:
		n = 8
	case s.files && s.random.IntN(2) == 0, s.chain != nil && s.chain.loses && s.random.IntN(3) == 0:
		n = 11
	}
	switch n {
	case 0, 1, 2:
		s.log.happen(kill, "%s is killed", a.name)
		a.killed, a.paused, a.waits = true, 0, nil
	case 3, 4:
		a.paused = 20 + s.random.IntN(400)
		s.log.happen(pause, "%s pauses for %d steps", a.name, a.paused)
	case 5, 6:
		s.log.happen(reassignment, "partitions are assigned again, and some actors are not notified")
		s.reassign(func() bool { return s.random.IntN(2) == 0 })
	case 7:
		s.log.happen(compaction, "plans, versions and state are compacted")
		s.compact(s.steps - oldAge) // see Topics
	case 8:
		if s.fromTopic > 0 {
			s.expireRemade()
			return
		}
		s.expire(s.topics.Residuals, s.random.IntN(simPartitions)) // a worker makes residuals again, so no data is lost
	case 9:
		all := slices.Concat(s.workers, s.solvers, s.runners)
		n := s.random.IntN(len(all))
		s.log.happen(expulsion, "member %d of %d is expelled from its group", n, len(all))
		all[n].lose()
		s.reassign(func() bool { return s.random.IntN(2) == 0 })
	case 10:
		topic := []string{s.topics.Statistics, s.topics.Examples}[s.random.IntN(2)]
		if s.chooses && s.chain == nil {
			topic = s.topics.Statistics // a preparation is chosen by half of the partitions that there are
		}
		if partitions := s.log.topics[topic]; len(partitions) == 2 {
			s.log.happen(growth, "%s gets another partition", topic)
			s.log.addPartition(topic, 0)
			if s.chain != nil && topic == s.topics.Examples && s.random.IntN(2) == 0 {
				s.differs = true
				s.log.count(spreading)
				s.feed(len(partitions), 1+s.random.IntN(5))
			}
		}
	case 12, 13:
		switch {
		case s.retention > 0 && s.random.IntN(2) == 0:
			s.drawSetting(s.random)
		case s.followers && s.random.IntN(3) > 0:
			s.loseOfSource()
		default:
			s.operate()
		}
	case 11:
		switch {
		case s.chain != nil && s.chain.loses && s.random.IntN(4) > 0:
			s.loseOfChain()
		case s.chain != nil && s.random.IntN(2) == 0:
			s.abort()
		case s.chain != nil:
			s.log.happen(reassignment, "each runner takes itself for the active one")
			for _, m := range s.runners {
				m.assign(0)
			}
		case s.files || s.random.IntN(3) == 0:
			s.loseData()
		}
	}
}

// expire deletes the messages of a partition before an offset that it draws.
func (s *simulation) expire(topic string, partition int) {
	p := s.log.topics[topic][partition]
	before := p.first + s.random.Int64N(p.end-p.first+1)
	s.log.happen(expiry, "%s[%d] expires before offset %d", topic, partition, before)
	p.expire(before)
}

// compact compacts versions and state, and what was written on plans up to a step.
func (s *simulation) compact(step int) {
	versions, state, plans := s.log.topics[s.topics.Versions][0], s.log.topics[s.topics.State][0], s.log.topics[s.topics.Plans][0]
	versions.compact(versions.end)
	state.compact(state.end)
	plans.compact(plans.before(step))
}
