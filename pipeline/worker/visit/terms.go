package visit

import (
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// IncrementTerms sums the terms of the increments in a share, at the end of a stage of a full run of a chain. The memory of
// an increment's terms, and of those merged with it, is released after the last of the share's segments with rows of them. As
// an increment is one or a few ranges of offsets in a partition, memory seldom holds the terms of more than one if the share
// has one partition.
type IncrementTerms struct {
	places []int // by increment: see [schemas.Chain.TermsPlaces]
	left   map[int]int
	sums   map[int]*accumulate.Sum
}

// NewIncrementTerms returns the empty terms of a share.
func NewIncrementTerms(chain *schemas.Chain, p *partition.Share) *IncrementTerms {
	t := &IncrementTerms{places: chain.TermsPlaces(), left: map[int]int{}, sums: map[int]*accumulate.Sum{}}
	for _, segment := range p.Segments() {
		t.left[t.places[segment.Increment]]++
	}
	return t
}

// Add adds the terms of the share's next segment. It returns the sum of its increment once it is complete, with its
// place; otherwise nil.
func (t *IncrementTerms) Add(segment *partition.Segment, terms *accumulate.Sum) (whole *accumulate.Sum, place int, err error) {
	place = t.places[segment.Increment]
	if t.sums[place] == nil {
		t.sums[place] = terms
	} else if err := t.sums[place].Merge(terms); err != nil {
		return nil, 0, err
	}
	if t.left[place]--; t.left[place] > 0 {
		return nil, 0, nil
	}
	whole = t.sums[place]
	delete(t.sums, place)
	return whole, place, nil
}

// termsOfSegment returns the terms of the segment that the processor has summed.
func (p *Processor) termsOfSegment() *accumulate.Sum {
	ofScores, ofResiduals := p.terms.End(), p.accumulator.End()
	scores, _ := ofScores.Tensors().Find(statistics.FieldCross)
	cross, _ := ofResiduals.Tensors().Find(statistics.FieldCross)
	both := wire.Tensor[float64]{Name: statistics.FieldTerms, Shape: append([]int{2}, scores.Shape...),
		Data: slices.Concat(scores.Data, cross.Data)}
	p.Crosses.Put(ofScores)
	p.Crosses.Put(ofResiduals)
	return accumulate.NewSum(coverage.Coverage{}, wire.Tensors[float64]{both})
}
