package visit

import (
	"testing"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// For any number of increments in a full run, a worker holds the terms of one, and sends their sum.
func TestTermsOfOneIncrementAreHeld(t *testing.T) {
	const increments, perIncrement, segment = 1000, 6, 2
	var list []coverage.Increment
	for i := range increments {
		span := coverage.Span{From: int64(i * perIncrement), To: int64((i + 1) * perIncrement)}
		list = append(list, coverage.Increment{Number: i + 1, Weight: 1,
			Covered: []coverage.Coverage{{Spans: coverage.Spans{span}}}})
	}
	p := partition.New(segment, partition.NewPart(coverage.Span{To: increments * perIncrement}, 0, list))
	terms, sent := NewIncrementTerms(p), map[int]float64{}
	for i, s := range p.Segments {
		whole, err := terms.Add(s, accumulate.NewSum(coverage.Coverage{}, wire.Tensors[float64]{wire.Vector(statistics.FieldTerms,
			[]float64{float64(i + 1)})}))
		arrowtest.NoError(t, err)
		if len(terms.sums) > 1 {
			t.Fatalf("after segment %d there are the terms of %d increments", i, len(terms.sums))
		}
		if whole != nil {
			if _, twice := sent[s.Increment]; twice {
				t.Errorf("the terms of increment %d are sent twice", s.Increment)
			}
			sent[s.Increment] = whole.Field(statistics.FieldTerms, 1)[0]
		}
	}
	if len(terms.sums) > 0 || len(sent) != increments {
		t.Errorf("%d sums are left, %d were sent; expected 0 and %d", len(terms.sums), len(sent), increments)
	}
	sum := 0.0
	for _, part := range sent {
		sum += part
	}
	if n := float64(len(p.Segments)); sum != n*(n+1)/2 || sent[999] != 2998+2999+3000 {
		t.Errorf("the sum is %g, that of the last increment %g", sum, sent[999])
	}
}
