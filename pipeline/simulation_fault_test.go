package pipeline

import (
	"slices"
)

// injectFault makes one fault happen, chosen at random. Faults of single calls are in actorLog.
func (s *simulation) injectFault() {
	a := s.actors[s.random.IntN(len(s.actors))]
	switch s.random.IntN(11) {
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
		s.log.happen(compaction, "plans and versions are compacted")
		s.compact()
	case 8:
		s.expire(s.topics.Residuals, s.random.IntN(simPartitions)) // a worker makes residuals again, so no data is lost
	case 9:
		all := slices.Concat(s.workers, s.solvers)
		n := s.random.IntN(len(all))
		s.log.happen(expulsion, "member %d of %d is expelled from its group", n, len(all))
		all[n].lose()
	case 10:
		if s.random.IntN(3) == 0 {
			s.loseData()
		}
	}
}

// loseData loses messages that a run may need. The run may then fail.
func (s *simulation) loseData() {
	topic := []string{s.topics.Statistics, s.topics.Statistics, s.topics.Examples}[s.random.IntN(3)]
	n := s.random.IntN(len(s.log.topics[topic]))
	p := s.log.topics[topic][n]
	s.dataLost = true
	s.examplesChanged = s.examplesChanged || topic == s.topics.Examples
	if count := len(p.messages); count > 0 && topic == s.topics.Statistics && s.random.IntN(2) == 0 {
		at := s.random.IntN(count) // acknowledged, but only the leader had it, and the leader is gone
		s.log.happen(loss, "%s[%d]@%d is lost", topic, n, p.messages[at].Offset)
		p.messages = slices.Delete(slices.Clone(p.messages), at, at+1)
		return
	}
	s.expire(topic, n)
}

// expire deletes the messages of a partition before an offset that it draws.
func (s *simulation) expire(topic string, partition int) {
	p := s.log.topics[topic][partition]
	before := p.first + s.random.Int64N(p.end-p.first+1)
	s.log.happen(expiry, "%s[%d] expires before offset %d", topic, partition, before)
	p.expire(before)
}

// compact compacts plans and versions.
func (s *simulation) compact() {
	for _, topic := range []string{s.topics.Plans, s.topics.Versions} {
		p := s.log.topics[topic][0]
		p.compact(p.end)
	}
}
