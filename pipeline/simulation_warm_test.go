package pipeline

import (
	"context"
	"strconv"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// noteWarm notes what the weights of a run depend on, when its plan is written for the first time: the seed of the run that began
// its chain of warm starts, and how many there were. The ids of runs would not do, as a plan names the manifest of the version that it
// starts from, which has offsets of the schedule.
func (s *simulation) noteWarm(m wire.Message) {
	plan, id, err := protocol.DecodePlan(m)
	if err != nil {
		s.fail("a plan is written that can't be read: %v", err)
		return
	}
	if plan.Warm != nil {
		s.warm[id] = plan.Warm.Run
	}
	if plan.Chain != nil {
		s.noteChained(id, plan)
		return
	}
	lineage := "seed " + strconv.FormatUint(plan.Seed, 10)
	if plan.Warm != nil {
		lineage = s.lineages[plan.Warm.Run] + ", warm"
	}
	if s.examplesChanged || lineage == ", warm" {
		lineage = "" // nobody knows its weights
	}
	s.lineages[id] = lineage
}

// learnVersion adds the weights of a version that was made without faults to the reference.
func (s *simulation) learnVersion(m wire.Message) {
	s.versionsOf[s.lineages[m.Run()]] = s.content(m)
}

// checkVersion checks that the weights of a version are those that it has without faults.
func (s *simulation) checkVersion(m wire.Message) {
	lineage := s.lineages[m.Run()]
	if lineage == "" || s.examplesReused || (s.dataLost || s.differs) && s.chain != nil {
		return
	}
	if got, want := s.content(m), s.versionsOf[lineage]; got != want {
		s.fail("the version of run %s (%s) has weights %s, without faults %s", m.Run(), lineage, got, want)
	}
}

// prune removes old versions, and checks that none of them is one that an unfinished run starts from.
func (s *simulation) prune(ctx context.Context, p *topics.Pipeline) error {
	needed := map[string]string{}
	for id, version := range s.warm {
		if s.ends[id] == "" && !s.removed[version] {
			needed[id] = version
		}
	}
	err := p.Prune(ctx, simKeep)
	for id, version := range needed {
		if len(s.solvers) == 1 && !s.historyLost && s.ends[id] == "" && s.removed[version] {
			s.fail("the version of run %s was removed, from which the unfinished run %s starts", version, id)
		}
	}
	return err
}

// warmStart is the version that a submitter starts from; "" starts from nothing.
func (s *simulation) warmStart(ctx context.Context, p *topics.Pipeline, seed uint64) string {
	latest, err := p.Version(ctx, protocol.Latest)
	if err != nil || latest.Plan.Seed != seed {
		return ""
	}
	s.log.count(warming)
	return strconv.Itoa(latest.Version)
}
