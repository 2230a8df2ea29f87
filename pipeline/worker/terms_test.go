package worker

import (
	"testing"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
)

// However many increments a full run has, a worker holds the terms of one, or of those that are merged with it. What it sends are their sums.
func TestTermsOfOneIncrementAreHeld(t *testing.T) {
	const increments, perIncrement, segment = 1000, 6, 2
	chain := &schemas.Chain{Number: increments + 1}
	for i := range increments {
		span := schemas.Span{From: int64(i * perIncrement), To: int64((i + 1) * perIncrement)}
		chain.Increments = append(chain.Increments, schemas.Increment{Number: i + 1, Weight: 1, Covered: []schemas.Coverage{{Spans: schemas.Spans{span}}}})
		if i%10 > 0 && i < 500 { // tens of the older half are merged
			chain.Merge = append(chain.Merge, [2]int{i + 1 - i%10, i + 1})
		}
	}
	p := partition.New(schemas.Span{To: increments * perIncrement}, 0, segment)
	p.Cut(chain.Increments, segment)
	terms, sent := newIncrementTerms(chain, p), map[int]float64{}
	for i, s := range p.Segments() {
		whole, place, err := terms.add(s, accumulate.NewSum(schemas.Coverage{}, schemas.Tensors[float64]{schemas.Vector(schemas.FieldTerms, []float64{float64(i + 1)})}))
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
			sent[place] = whole.Field(schemas.FieldTerms, 1)[0]
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

// Of memory is set aside what terms take: a worker's do not depend on how many increments a full run has, and a solver's on how many terms the
// run leaves.
func TestMemoryOfTerms(t *testing.T) {
	full := func(increments int, merge ...[2]int) *schemas.Chain {
		c := &schemas.Chain{Number: increments + 1, Merge: merge}
		for i := range increments {
			c.Increments = append(c.Increments, schemas.Increment{Number: i + 1, Weight: 1})
		}
		return c
	}
	update := &schemas.Chain{Number: 9, Update: &schemas.Update{Refresh: make([]schemas.Increment, 4), Leave: make([]schemas.Increment, 2)}}
	for name, test := range map[string]struct {
		chain       *schemas.Chain
		solves      bool
		stage, kept int64
	}{
		"no chain":       {nil, true, 0, 0},
		"a worker alone": {full(1000), false, termMatrices, 0},
		"full":           {full(1000), true, termMatrices, 2 * 1000},
		"merged":         {full(10, [2]int{1, 2}, [2]int{1, 3}, [2]int{5, 6}), true, termMatrices, 2 * 7},
		"first":          {&schemas.Chain{Number: 1}, true, termMatrices, 2},
		"update":         {update, true, 4 * 5, 4*5 + 2*2},
	} {
		w := &Worker{plan: &schemas.Plan{Chain: test.chain}, options: Options{Solves: test.solves}}
		if stage, kept := w.matricesOfTerms(); stage != test.stage || kept != test.kept {
			t.Errorf("%s: %d and %d matrices, expected %d and %d", name, stage, kept, test.stage, test.kept)
		}
	}
}
