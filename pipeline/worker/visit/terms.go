package visit

import (
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// IncrementTerms sums the terms of the increments in a share, at the end of a stage of a full run of a chain. The memory of
// an increment's terms is released after the last of the share's segments with rows of it. As
// an increment is one or a few ranges of offsets in a partition, memory seldom holds the terms of more than one if the share
// has one partition.
type IncrementTerms struct {
	left map[int]int // number of segments, by increment
	sums map[int]*accumulate.Sum
}

// NewIncrementTerms returns the empty terms of a share.
func NewIncrementTerms(p *partition.Share) *IncrementTerms {
	t := &IncrementTerms{left: map[int]int{}, sums: map[int]*accumulate.Sum{}}
	for _, segment := range p.Segments() {
		t.left[segment.Increment]++
	}
	return t
}

// Add adds the terms of the share's next segment. It returns the sum of its increment once it is complete; otherwise nil.
func (t *IncrementTerms) Add(segment *partition.Segment, terms *accumulate.Sum) (whole *accumulate.Sum, err error) {
	i := segment.Increment
	if t.sums[i] == nil {
		t.sums[i] = terms
	} else if err := t.sums[i].Merge(terms); err != nil {
		return nil, err
	}
	if t.left[i]--; t.left[i] > 0 {
		return nil, nil
	}
	whole = t.sums[i]
	delete(t.sums, i)
	return whole, nil
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
