package pipeline

import (
	"maps"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// Of the plans of a chain with the same parent and attempt the first counts, also for who begins to read with a ledger that knows only
// that there was one.
func TestFirstPlanOfATurnCounts(t *testing.T) {
	log, client := newSimClient("t")
	log.addPartition(client.Topics.State, 0)
	log.addPartition(client.Topics.Forget, 0)
	client.LedgerMessages, client.Alone = 1, true
	submit := func(number, attempt int, of string) string {
		plan := &schemas.Plan{
			Name: "t", Spans: coverage.Spans{{To: 1}}, Segment: 1, Stages: []schemas.Stage{rffStage(link.Softmax, 5, 1)},
			Prepare: schemas.Prepare{Scale: "none"}, Submission: of, Chain: &schemas.Chain{Number: number, Attempt: attempt, Begins: []int64{0}},
		}
		messages, err := plan.Messages()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			log.write(client.Topics.Plans, 0, m)
		}
		return plan.Run()
	}
	check := func(counts string, overtaken ...string) *protocol.Ledger {
		t.Helper()
		l, err := client.ReadLedger(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, end := range l.Overtaken() {
			got = append(got, end.Run)
		}
		unfinished := slices.Collect(maps.Keys(maps.Collect(l.Unfinished())))
		if !slices.Equal(unfinished, []string{counts}) || !slices.Equal(got, overtaken) || l.Chained().Run != counts {
			t.Fatalf("unfinished %v, overtaken %v, the last that counts is %+v; expected %s, %v and %s", unfinished, got, l.Chained(),
				counts, overtaken, counts)
		}
		return l
	}
	first, second := submit(1, 0, "a"), submit(1, 0, "b")
	for _, end := range check(first, second).Overtaken() {
		log.write(client.Topics.Plans, 0, end.Message())
	}
	check(first)
	log.write(client.Topics.Plans, 0, (&schemas.End{Run: first, State: schemas.Failed}).Message())
	if err := client.Prune(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	late := submit(1, 0, "c")
	again := submit(1, 1, "a")
	check(again, late)
	if l, err := client.ReadHistory(t.Context()); err != nil || l.End(first).State != schemas.Failed ||
		l.End(second).State != schemas.Cancelled {
		t.Errorf("the history has the ends %+v and %+v, %v", l.End(first), l.End(second), err)
	}
}
