package pipeline

import (
	"time"

	"github.com/stagewise/stagewise/pipeline/topics"
)

// A step takes a second by the clock of the processes, but in scenarios whose windows are of a time.
const simStep = time.Second

// now is the clock of every process.
func (s *simulation) now() time.Time {
	now := time.UnixMilli(simNow)
	if s.timed {
		return now
	}
	return now.Add(time.Duration(s.steps) * simStep)
}

// aging makes of the scenario of a chain one whose examples come while it is made, and stay for a while only. Chains
// that are idle, slow or stopped for longer than that lose what they stand on, and what they have not learnt.
func (sc *scenario) aging(retention time.Duration) *scenario {
	sc.retention, sc.job.Topics.Retention.Examples = retention, retention
	return sc.losing()
}

// agingSteps is for how long examples come: then the chain can get to the end of them.
const agingSteps = 10_000

// age writes another message to the examples now and then, and deletes those that are too old.
func (s *simulation) age() {
	if s.retention == 0 || s.log.calm || s.steps > agingSteps {
		return
	}
	if s.random.IntN(200) == 0 {
		s.noteLoss(s.topics.Examples) // sooner or later
		s.feed(s.random.IntN(simPartitions), 1)
	}
	if s.steps%100 > 0 {
		return
	}
	r := topics.RetentionOf(s.settings[s.topics.Examples])
	for _, p := range s.log.topics[s.topics.Examples] {
		if before := p.before(s.steps - int(r.Time/simStep)); before > p.first {
			s.log.happen(aged, "examples expire before offset %d after %v", before, r.Time)
			p.expire(before)
		}
	}
}
