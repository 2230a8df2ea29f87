package pipeline

import (
	"slices"
	"strings"

	"github.com/stagewise/stagewise/schemas"
)

// loseData loses messages that a run may need. A run that was planned before may then fail.
func (s *simulation) loseData() {
	topic := []string{s.topics.Statistics, s.topics.Statistics, s.topics.Examples}[s.random.IntN(3)]
	n := s.random.IntN(len(s.log.topics[topic]))
	p := s.log.topics[topic][n]
	s.noteLoss(topic)
	if count := len(p.messages); count > 0 && topic == s.topics.Statistics && s.random.IntN(2) == 0 {
		at := s.random.IntN(count) // acknowledged, but only the leader had it, and the leader is gone
		s.log.happen(loss, "%s[%d]@%d is lost", topic, n, p.messages[at].Offset)
		p.messages = slices.Delete(slices.Clone(p.messages), at, at+1)
		return
	}
	s.expire(topic, n)
}

// noteLoss notes that messages of a topic are lost.
func (s *simulation) noteLoss(topic string) {
	s.dataLost, s.lostAt = true, s.steps
	s.examplesChanged = s.examplesChanged || topic == s.topics.Examples
}

// aboutTheLog are parts of the reasons why runs fail whose messages are lost.
var aboutTheLog = []string{"no longer holds", "is gone", "the survey had", "no longer on", "no examples on", "were deleted"}

// checkFailure checks that a run fails only because messages were lost after its plan was begun.
func (s *simulation) checkFailure(end *RunError) {
	about := func(text string) bool { return strings.Contains(end.Reason, text) }
	switch begun := s.begun[end.Run]; {
	case !s.dataLost:
		s.fail("run %s failed, though no data was lost: %v", end.Run, end)
	case s.lostAt < begun:
		s.fail("run %s failed, though the last data was lost in step %d, before it was planned in step %d: %v", end.Run, s.lostAt, begun, end)
	case !slices.ContainsFunc(aboutTheLog, about):
		s.fail("run %s failed, but not because data was lost: %v", end.Run, end)
	}
}

// checkRecovery checks that once the faults are over a run is done, whatever was lost before. If the examples topic has nothing left,
// a producer writes again.
func (s *simulation) checkRecovery() {
	s.log.deliver(maxSteps)
	s.log.calm, s.faultsLeft = true, 0
	if s.seal == nil || !s.files {
		for n, messages := range s.messages {
			for _, m := range messages {
				s.examplesChanged = true
				s.log.topics[s.topics.Examples][n].append(m)
			}
		}
	}
	done := len(s.outcomes)
	s.submit(1, false, false)
	s.awaitRuns()
	if s.violation == nil && (len(s.outcomes) == done || s.outcomes[len(s.outcomes)-1] != schemas.Done) {
		s.fail("after the faults a run does not succeed: it is %v", s.outcomes[done:])
	}
}
