package visit

import (
	"testing"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// For any number of increments in a full run, a worker holds the terms of one, or of those merged with it. It sends their
// sums.
func TestTermsOfOneIncrementAreHeld(t *testing.T) {
	const increments, perIncrement, segment = 1000, 6, 2
	chain := &schemas.Chain{Number: increments + 1}
	for i := range increments {
		span := coverage.Span{From: int64(i * perIncrement), To: int64((i + 1) * perIncrement)}
		chain.Increments = append(chain.Increments, coverage.Increment{Number: i + 1, Weight: 1,
			Covered: []coverage.Coverage{{Spans: coverage.Spans{span}}}})
		if i%10 > 0 && i < 500 { // groups of ten in the older half are merged
			chain.Merge = append(chain.Merge, [2]int{i + 1 - i%10, i + 1})
		}
	}
	p := partition.New(segment, partition.NewPart(coverage.Span{To: increments * perIncrement}, 0, chain.Increments))
	terms, sent := NewIncrementTerms(chain, p), map[int]float64{}
	for i, s := range p.Segments() {
		whole, place, err := terms.Add(s, accumulate.NewSum(coverage.Coverage{}, wire.Tensors[float64]{wire.Vector(statistics.FieldTerms,
			[]float64{float64(i + 1)})}))
		if err != nil {
			t.Fatal(err)
		}
		if len(terms.sums) > 1 {
			t.Fatalf("after segment %d there are the terms of %d increments", i, len(terms.sums))
		}
		if whole != nil {
			if _, twice := sent[place]; twice {
				t.Errorf("the terms at place %d are sent twice", place)
			}
			sent[place] = whole.Field(statistics.FieldTerms, 1)[0]
		}
	}
	if len(terms.sums) > 0 || len(sent) != 50+500 {
		t.Errorf("%d sums are left, %d were sent; expected 0 and 550", len(terms.sums), len(sent))
	}
	sum := 0.0
	for _, part := range sent {
		sum += part
	}
	if n := float64(len(p.Segments())); sum != n*(n+1)/2 || sent[490] != 30*(3*490+1)+29*30/2 || sent[999] != 2998+2999+3000 {
		t.Errorf("the sum is %g, that of ten merged increments %g, of the last %g", sum, sent[490], sent[999])
	}
}
