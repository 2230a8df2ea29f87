package pipeline

import (
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Rows leave a window only as they came: if the topic has other messages at their offsets once an update is planned,
// the update fails, as the sums would lose what was never added to them. The chain goes on.
func TestRowsLeaveAsTheyCame(t *testing.T) {
	stage := rffStage(link.Identity, 0, 1)
	stage.Features.Kind = "columns"
	sc := newChainScenario(t, manyExamples(8), 100, chainOptions(), stage)
	s := sc.simulation(0)
	s.random, s.dataLost = nil, true
	update, reason, after := "", "", 0
	s.log.onWrite = func(_ string, m wire.Message) {
		if end := protocol.EndOf(m); end != nil {
			if end.Run == update && end.State == schemas.Failed {
				reason = end.Reason
			} else if reason != "" && end.State == schemas.Done {
				after++
			}
		}
		if m.Kind() != schemas.KindPlan || m.Value == nil || update != "" {
			return
		}
		plan, id, err := protocol.DecodePlan(newCachingCodec(s.cache, 0), m)
		if err != nil {
			t.Fatal(err)
		}
		if plan.Update() == nil || len(plan.Update().Leave) == 0 {
			return
		}
		update = id
		for _, c := range plan.Update().Leave {
			for _, span := range c.Spans() {
				p := s.log.topics[s.topics.Examples][span.Partition]
				for at := p.index(span.From); at < p.index(span.To); at++ {
					p.messages[at].Message = simMessage(span.Partition, 900+at, schemas.Origin{})
				}
			}
		}
	}
	s.startRoles(1, 1)
	s.startRunners(1)
	s.awaitRuns()
	s.stopActors()
	if s.violation != nil || update == "" {
		t.Fatalf("the update whose rows have changed is %q: %v", update, s.violation)
	}
	if !strings.Contains(reason, "rows that came with run") || !strings.Contains(reason, "checksum") {
		t.Errorf("the update has failed with %q, expected that other rows are there", reason)
	}
	if after == 0 {
		t.Error("the chain makes no version afterwards")
	}
}
