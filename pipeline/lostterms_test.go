package pipeline

import (
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// A chain goes on if brokers lose terms of increments, alone or with all messages after them: workers publish them again.
func TestLostTermsAreWrittenAgain(t *testing.T) {
	long(t)
	const maxSteps = 80_000
	columns := rffStage(link.Softmax, 0, 1)
	columns.Features.Kind = "columns"
	sc := newChainScenario(t, chainExamples(), 100, mergingOptions(), columns, columns)
	for _, truncates := range []bool{false, true} {
		for lost := 0; ; lost++ {
			s, seen, steps, loses := newSlowSolver(sc), map[wire.Identity]bool{}, 0, true
			for ; s.violation == nil && s.submitting() && steps < maxSteps; steps++ {
				s.steps++
				s.log.step = s.steps
				s.step()
				if !loses || s.actors[0].waits == nil {
					continue // the worker has more to publish
				}
				for _, p := range s.log.topics[s.topics.Statistics] {
					for at, m := range p.messages {
						id, err := wire.IdentityOf(m.Message)
						if err != nil || id.Kind != statistics.KindIncrement || seen[id] || !loses {
							continue
						}
						if seen[id] = true; len(seen) <= lost {
							continue
						}
						s.dataLost, s.lostAt, loses = true, s.steps, false
						if truncates {
							p.truncate(m.Offset)
						} else {
							p.messages = slices.Delete(slices.Clone(p.messages), at, at+1)
						}
						break
					}
				}
			}
			ended := !s.submitting()
			s.stopActors()
			if loses {
				if lost == 0 {
					t.Fatal("no terms were written")
				}
				break
			}
			if !ended || s.violation != nil {
				t.Errorf("record %d of terms is lost, with all after it: %v: the chain ends: %v, violation %v", lost, truncates, ended, s.violation)
			}
		}
	}
}
