package pipeline

import (
	"errors"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// If its statistics are deleted, an interrupted run goes on if it needs none of them, and fails otherwise. It does not wait for
// them.
func TestStatisticsAreGone(t *testing.T) {
	for name, stop := range map[string]func(event.Event) bool{
		"within a stage":   func(e event.Event) bool { p, ok := e.(event.Passed); return ok && p.Stage == 1 },
		"after a visit":    func(e event.Event) bool { p, ok := e.(event.Passed); return ok && p.Stage == 0 && p.Visit == 1 },
		"between stages":   func(e event.Event) bool { s, ok := e.(event.StageEnded); return ok && s.Stage == 1 },
		"in the survey":    func(e event.Event) bool { p, ok := e.(event.Progressed); return ok && p.Stage == wire.Survey },
		"after the survey": func(e event.Event) bool { s, ok := e.(event.Surveyed); return ok && s.Classes > 0 },
	} {
		t.Run(name, func(t *testing.T) {
			log, job := openEmbedded(t), newMultiStageJob(t)
			trainUntil(t, log, job, stop)
			if err := topics.Clear(t.Context(), topics.Open(log, job.Name, arrowtest.Allocator(t)), job); err != nil {
				t.Fatal(err)
			}
			report, _, err := Train(t.Context(), log, openBLAS(t), job, dispatch.TrainOptions{Allocator: arrowtest.Allocator(t)}, &eventRecorder{})
			if err != nil && !errors.As(err, new(*dispatch.RunError)) {
				t.Errorf("got error %v, expected none or a *RunError", err)
			}
			if err == nil && len(report.Stages) != 4 {
				t.Errorf("report %+v, expected 4 stages", report)
			}
		})
	}
}

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
		l, err := s.pipeline(unattended()).ReadLedger(t.Context())
		if err != nil {
			t.Fatal(err)
		}
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

// If the examples of an update change under it, no Gram matrix of the changed ones is published, which the solver would add to those of the
// chain: another worker, which still has the examples of the survey, could publish the rest. The chain goes on.
func TestNoGramMatrixOfOtherExamples(t *testing.T) {
	columns := rffStage(link.Identity, 0, 1)
	columns.Features.Kind = "columns"
	sc := newChainScenario(t, manyExamples(8), 0, chainOptions(), columns) // nothing stays in memory
	s := sc.simulation(0)
	s.random, s.dataLost = nil, true
	var update *schemas.Plan
	run, reason, changed, after := "", "", false, 0
	s.log.onWrite = func(_ string, m wire.Message) {
		if end := protocol.EndOf(m); end != nil {
			if end.Run == run && end.State == schemas.Failed {
				reason = end.Reason
			} else if reason != "" && end.State == schemas.Done {
				after++
			}
		}
		switch {
		case m.Kind() == schemas.KindPlan && m.Value != nil && update == nil:
			if plan, id, err := protocol.DecodePlan(newCachingCodec(s.cache, 0), m); err != nil {
				t.Fatal(err)
			} else if plan.Update() != nil {
				update, run = plan, id
			}
		case m.Kind() == statistics.KindPrepare && m.Get("run") == run && !changed: // the survey's result, which names what it has read
			changed = true
			for _, span := range update.Spans {
				p := s.log.topics[s.topics.Examples][span.Partition]
				for at := p.index(span.From); at < p.index(span.To); at++ {
					p.messages[at].Message = simMessage(span.Partition, 900+at, schemas.Origin{})
				}
			}
		case statistics.OfGram(m.Kind()) && m.Get("run") == run && changed:
			t.Errorf("a Gram matrix of partitions %s is published that is of other examples than the survey", m.Get("partition"))
		}
	}
	s.startRoles(1, 1)
	s.startRunners(1)
	s.awaitRuns()
	s.stopActors()
	if s.violation != nil || !changed {
		t.Fatalf("the examples of update %q have changed: %v; %v", run, changed, s.violation)
	}
	if !strings.Contains(reason, "the survey had") {
		t.Errorf("the update has failed with %q, expected that the survey had other rows", reason)
	}
	if after == 0 {
		t.Error("no run was done after it")
	}
}

// The point that a survey takes moments about is of the rows that it covers: what was made of the first row before it was replaced is
// published nowhere.
func TestNoSurveyAboutAnotherFirstRow(t *testing.T) {
	columns := rffStage(link.Identity, 0, 1)
	columns.Features.Kind = "columns"
	sc := newChainScenario(t, manyExamples(8), 0, chainOptions(), columns)
	s := sc.simulation(0)
	s.random, s.dataLost = nil, true
	run, reason, after := "", "", 0
	s.log.onWrite = func(_ string, m wire.Message) {
		end := protocol.EndOf(m)
		switch {
		case m.Kind() == schemas.KindClaim && run == "": // the worker has read the first message
			run = m.Get("run")
			p := s.log.topics[s.topics.Examples][0]
			p.messages[0].Message = simMessage(0, 900, schemas.Origin{})
		case m.Kind() == statistics.KindVisit && m.Get("run") == run && m.Get("partition") == "0":
			t.Error("sums of the partition are published")
		case end != nil && end.Run == run && end.State == schemas.Failed:
			reason = end.Reason
		case end != nil && end.State == schemas.Done:
			after++
		}
	}
	s.startRoles(1, 1)
	s.startRunners(1)
	s.awaitRuns()
	s.stopActors()
	if s.violation != nil {
		t.Fatal(s.violation)
	}
	if want := "another message was there when the survey began"; !strings.Contains(reason, want) {
		t.Errorf("the run has failed with %q, expected %q", reason, want)
	}
	if after == 0 {
		t.Error("no run was done after it")
	}
}
