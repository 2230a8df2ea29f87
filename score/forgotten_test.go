package score

import (
	"context"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// A message with forgotten rows gets no predictions, and the reason says why. Others get theirs.
func TestForgottenRowsHaveNoPredictions(t *testing.T) {
	a, m := newTopic(t, 1, 4, 5, 6, 7), newModel(t, 4, 3)
	o := Options{From: "p.examples", To: "p.predictions", UntilEnd: true, Forgotten: func(context.Context) (coverage.Forgotten, error) {
		return coverage.Forgotten{{Partition: 0, From: 1, To: 2}, {Partition: 0, From: 3, To: 4, First: 2, End: 3}}, nil
	}}
	arrowtest.NoError(t, Run(t.Context(), a.client, o, Fixed(m), protocol.NewSoleOwner(1), kernel.Gonum(), event.Ignore{}))
	a.rows[[2]int64{0, 1}], a.rows[[2]int64{0, 3}] = nil, nil
	for _, p := range a.counted(t, m) {
		if forgotten := p.Offset%2 == 1; forgotten != (p.Reason == "rows of the message were forgotten") || forgotten &&
			len(p.Probabilities) > 0 {
			t.Errorf("offset %d has %d probabilities, reason %q", p.Offset, len(p.Probabilities), p.Reason)
		}
	}
}
