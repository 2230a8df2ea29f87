package pipeline

import (
	"slices"
	"strings"

	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/schemas"
)

// loseData loses messages that a run may need. A run that was planned before may then fail.
func (s *simulation) loseData() {
	t := s.topics
	switch s.random.IntN(4) {
	case 0:
		topic, n, p := s.drawPartition(t.Statistics)
		if len(p.messages) == 0 {
			return
		}
		at := s.random.IntN(len(p.messages)) // acknowledged, but only the leader had it, and the leader is gone
		s.noteLoss(topic)
		s.log.happen(loss, "%s[%d]@%d is lost", topic, n, p.messages[at].Offset)
		p.messages = slices.Delete(slices.Clone(p.messages), at, at+1)
	case 1:
		topic, n, _ := s.drawPartition(t.Statistics, t.Examples, t.Weights)
		s.noteLoss(topic)
		s.expire(topic, n)
	case 2:
		topic, n, p := s.drawPartition(t.Examples, t.Residuals, t.Statistics, t.Weights, t.Versions, t.Plans, t.Quarantine)
		if p.end == p.first {
			return
		}
		from := p.end - 1 - s.random.Int64N(min(p.end-p.first, 8))
		s.noteLoss(topic)
		s.log.happen(truncation, "%s[%d] loses what it has from offset %d on, and uses the offsets again", topic, n, from)
		p.truncate(from)
		s.examplesReused = s.examplesReused || topic == t.Examples
	case 3:
		topic, _, _ := s.drawPartition(t.Residuals, t.Statistics, t.Weights)
		s.noteLoss(topic)
		s.log.happen(remaking, "%s is deleted and made anew", topic)
		for _, p := range s.log.topics[topic] {
			p.remake()
		}
	}
}

// drawPartition draws one of the topics, and one of its partitions.
func (s *simulation) drawPartition(topics ...string) (topic string, n int, p *simPartition) {
	topic = topics[s.random.IntN(len(topics))]
	n = s.random.IntN(len(s.log.topics[topic]))
	return topic, n, s.log.topics[topic][n]
}

// noteLoss notes that messages of a topic are lost.
func (s *simulation) noteLoss(topic string) {
	s.dataLost, s.lostAt = true, s.steps
	s.examplesChanged = s.examplesChanged || topic == s.topics.Examples || topic == s.topics.Plans && s.seal != nil
	s.historyLost = s.historyLost || topic == s.topics.Plans || topic == s.topics.Versions || topic == s.topics.Weights
}

// aboutTheLog are parts of the reasons why runs fail whose messages are lost.
var aboutTheLog = []string{"no longer holds", "is gone", "the survey had", "no longer on", "no examples on", "were deleted",
	"another message was there when the survey began"}

// checkFailure checks that a run fails only because messages were lost after its plan was begun.
func (s *simulation) checkFailure(end *dispatch.RunError) {
	about := func(text string) bool { return strings.Contains(end.Reason, text) }
	s.oneClass = s.oneClass || s.examplesChanged && about("all examples have the label")
	switch begun := s.begun[end.Run]; {
	case s.giveUp > 0 && about("started the run within"):
	case about("no example has a label") && about("rows are forgotten"): // an operator may have forgotten all
		s.oneClass = true
	case about("warm start: the version of run") && s.removed[s.warm[end.Run]]: // forget --now removes it, whoever is about to start from it
	case !s.dataLost:
		s.fail("run %s failed, though no data was lost: %v", end.Run, end)
	case s.examplesChanged && (about("no examples on") || about("all examples have the label")): // what is left can't be used
	case s.examplesReused && about("train again to ingest the source again"): // only the survey can find it out
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
		s.examplesChanged = true
		s.addExamples()
	}
	before := len(s.outcomes)
	for range 3 { // the first may resume a run that has lost something, and must then fail
		s.submit(1, false, false)
		s.awaitRuns()
		if n := len(s.outcomes); n > before && s.outcomes[n-1] == schemas.Done {
			return
		}
	}
	if s.oneClass {
		return
	}
	s.fail("after the faults no run succeeds: they are %v", s.outcomes[before:])
}
