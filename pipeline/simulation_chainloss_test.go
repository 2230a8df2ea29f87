package pipeline

import (
	"context"
	"slices"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/schemas"
)

// A losing chain is one whose log loses what the chain stands on: examples by retention, by an unclean election or with
// their topic; its state; its newest versions; plans. What must hold: whatever was lost, once the faults are over the
// chain learns what is written from then on, and ends. No version is offered that has learnt less than the one before
// it, unless its plan or a version since says that rows have left the window.

// losing makes of the scenario of a chain one whose log loses messages.
func (sc *scenario) losing() *scenario {
	sc.chain.loses = true
	return sc
}

// loseOfChain loses messages that a chain stands on.
func (s *simulation) loseOfChain() {
	t := s.topics
	switch s.random.IntN(6) {
	case 0, 1:
		s.noteLoss(t.Examples)
		s.expire(t.Examples, s.random.IntN(len(s.log.topics[t.Examples])))
	case 2:
		s.cutOff(t.Examples)
	case 3:
		topics := []string{t.State, t.Versions, t.Plans, t.Forget}
		if !s.operators {
			topics = topics[:3] // nobody decides what is forgotten
		}
		s.cutOff(topics[s.random.IntN(len(topics))])
	case 4:
		s.noteLoss(t.State)
		s.log.happen(remaking, "%s is deleted and made anew", t.State)
		s.log.topics[t.State][0].remake()
	case 5:
		s.noteLoss(t.Examples)
		s.log.happen(remaking, "%s is deleted and made anew, with other messages", t.Examples)
		for n, p := range s.log.topics[t.Examples] {
			if p.remake(); n < simPartitions {
				s.feed(n, s.random.IntN(8))
			}
		}
		s.examplesReused = true
	}
}

// cutOff makes a partition of a topic lose its last messages, as an unclean election of a leader does.
func (s *simulation) cutOff(topic string) {
	_, n, p := s.drawPartition(topic)
	if p.end == p.first {
		return
	}
	from := p.end - 1 - s.random.Int64N(min(p.end-p.first, 8))
	s.noteLoss(topic)
	s.log.happen(truncation, "%s[%d] loses what it has from offset %d on, and uses the offsets again", topic, n, from)
	p.truncate(from)
	s.examplesReused = s.examplesReused || topic == s.topics.Examples
}

// feed writes so many messages of another producer to a partition of the examples.
func (s *simulation) feed(partition, messages int) {
	for range messages {
		s.fed++
		p := s.log.topics[s.topics.Examples][partition]
		if p.written == nil {
			p.written = map[int64]int{}
		}
		p.written[p.end] = s.steps
		m := simMessage(partition, 100+s.fed, schemas.Origin{})
		if s.sparse {
			m = sparseMessage(partition, 100+s.fed, simRows)
		}
		if p.append(m); s.timed {
			p.last().Time = s.nextTime()
		}
	}
}

// checkNeverLess checks that no version is offered that has learnt fewer rows than the version that is offered, unless it is said why.
func (s *simulation) checkNeverLess(end *schemas.End) {
	manifest, err := s.pipeline(unattended()).Version(context.Background(), end.Run)
	if err != nil || manifest.Plan.Chain == nil {
		return // it is lost already
	}
	chain := manifest.Plan.Chain
	if u := chain.Update; u != nil && (u.Restart || len(u.Leave) > 0) {
		s.lessIsSaid = true
	}
	if end.Version.Withheld {
		return
	}
	if manifest.WindowRows < s.offeredRows && !s.lessIsSaid && !s.historyLost {
		s.fail("version %d of %d rows is offered after one of %d, and nobody has said why", manifest.Version, manifest.WindowRows, s.offeredRows)
	}
	s.offeredRows, s.lessIsSaid = manifest.WindowRows, false
}

// checkChainRecovery checks that once the faults are over the chain goes on: it makes versions of what is written then, and ends.
func (s *simulation) checkChainRecovery() {
	s.log.deliver(maxSteps)
	s.log.calm, s.faultsLeft = true, 0
	for n := range simPartitions {
		s.feed(n, 4)
	}
	if s.operators { // the operator decides what is forgotten
		if _, err := source.Forget(context.Background(), s.pipeline(unattended()), s.job,
			source.ToForget{Lost: source.RestoreLost}); err != nil && !s.said(err) {
			s.fail("after the faults an operator can't decide what is forgotten: %v", err)
		}
	}
	before := len(s.made)
	s.serves = false
	s.startRunner(0)
	if s.awaitRuns(); s.violation != nil {
		return
	}
	if len(s.made) == before {
		s.fail("after the faults the chain makes no version")
		return
	}
	p, ctx := s.pipeline(unattended()), context.Background()
	latest, err := p.Version(ctx, protocol.Latest)
	if err != nil {
		l, errLedger := p.ReadLedger(ctx)
		if errLedger == nil && !slices.ContainsFunc(l.Versions(), func(place schemas.Place) bool { return !place.Withheld }) {
			return // the versions that were offered are lost, and the chain has not learnt as much again
		}
		s.fail("after the faults the latest version can't be read: %v", err)
		return
	}
	if s.ordered {
		s.checkForgotten()
	}
	if _, err := p.Model(ctx, latest.Run); err != nil {
		s.fail("after the faults version %d can't be read: %v", latest.Version, err)
	}
}
