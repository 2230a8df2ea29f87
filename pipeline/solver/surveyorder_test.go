package solver

import (
	"fmt"
	"testing"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Two solvers must write the same survey's result. So the findings of a chain's partitions are in partition order, not in
// the order of the records, which is arbitrary.
func TestSurveyIsInTheOrderOfPartitions(t *testing.T) {
	for _, arrivals := range [][]int{{0, 1, 2}, {2, 0, 1}} {
		s := newTestSolver(event.Ignore{})
		s.plan.Chain, s.plan.Group, s.plan.Warm, s.plan.Spans = &schemas.Chain{Number: 1}, 1, &schemas.Warm{}, nil
		for n := range arrivals {
			s.plan.Spans = append(s.plan.Spans, coverage.Span{Partition: n, To: 3})
		}
		s.visited, s.surveyed = s.plan.Shares(s.plan.Partitions()), s.plan.Shares(s.plan.Surveyed())
		var deliveries []*protocol.Delivery
		for _, n := range arrivals {
			covered := coverage.Coverage{Spans: coverage.Spans{{Partition: n, To: 3}}}
			visit := &statistics.SurveyVisit{
				Visit: statistics.Visit{Identity: wire.Identity{Kind: statistics.KindVisit, Run: s.run, Stage: wire.Survey, Partition: n,
					Parent: s.chain.Root}, Covered: covered}, Parts: []coverage.Coverage{covered},
				Chained: []statistics.Chained{{
					Skipped: coverage.Spans{{Partition: n, From: 1, To: 2}}, Increments: []coverage.Coverage{covered},
					Progress: []statistics.PartitionProgress{{Source: fmt.Sprint("source ", n), Next: 1}},
				}},
			}
			messages := arrowtest.Must(s.Codec.EncodeDouble(visit.Record()))(t)
			for _, m := range messages {
				deliveries = append(deliveries, &protocol.Delivery{Topic: s.Topics.Statistics, Message: protocol.Message{Message: m}})
			}
		}
		s.subscription, s.scratch = &scripted{deliveries: deliveries}, &scratch{}
		s.inbox.Begin(wire.Survey)
		found := &surveyFindings{Findings: accumulate.NewFindings()}
		v := protocol.Visit{Stage: wire.Survey, Parent: s.chain.Root}
		sum := arrowtest.Must(s.gather(t.Context(), s.gathering(v, s.surveySum(found)...)))(t)
		all := newSurveyed(s.plan, &found.Findings, sum)
		for n := range arrivals {
			if all.Skipped[n].Partition != n || all.Covered[n].Spans[0].Partition != n || all.Increments[0].Covered[n].Spans[0].Partition != n ||
				all.Increments[0].Skipped[n].Partition != n || all.Progress[n].Source != fmt.Sprint("source ", n) {
				t.Errorf("after arrivals %v: %+v", arrivals, all)
			}
		}
	}
}
