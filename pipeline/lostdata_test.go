package pipeline

import (
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// A run fails if its examples change after the survey, or after the last weights of a stage.
func TestTopicChangesUnderTheRun(t *testing.T) {
	columns := rffStage(link.Softmax, 0, 1)
	columns.Features.Kind = "columns"
	sc := newScenario(t, plainExamples(), 0, columns) // each visit reads all messages again
	for failsAt, changesAfter := range map[string]func(wire.Message) bool{
		"visit 0 of stage 0":               func(m wire.Message) bool { return m.Kind() == statistics.KindPrepare },
		"publish the residuals of stage 0": func(m wire.Message) bool { return schemas.EndsStage(m) },
	} {
		s := sc.simulation(1)
		s.random, s.dataLost, s.lostAt = nil, true, maxSteps // no other faults; the run may fail
		s.log.onWrite = func(_ string, m wire.Message) {
			if messages := s.log.topics[s.topics.Examples][1].messages; changesAfter(m) {
				messages[0].Message = messages[1].Message
			}
		}
		s.startRoles(1, 1)
		s.submit(1, false, false)
		s.awaitRuns()
		if s.stopActors(); s.violation == nil {
			s.checkEnd()
		}
		l := must(s.pipeline(unattended()).ReadLedger(t.Context()))(t)
		end := l.End(s.log.topics[s.topics.Plans][0].messages[0].Get("run"))
		if end == nil || end.State != schemas.Failed || !strings.Contains(end.Reason, failsAt) || !strings.Contains(end.Reason,
			"the survey had") {
			t.Errorf("the run ended with %+v, expected that it fails at %q, as the survey had other messages", end, failsAt)
		}
		if s.violation != nil {
			t.Errorf("%s: %v", failsAt, s.violation)
		}
	}
}
