// Package findings folds what the survey's records say beside their sums.
//
//	survey visits ──Take──▶ Findings ──Fold──▶ labels, columns, coverage, … of all partitions
package findings

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// Findings is what the survey found beside its sums. [New] makes findings.
type Findings struct {
	Labels      accumulate.LabelSet
	Sample      *accumulate.Sample
	Shift       []float32
	Targets     []float64 // the point that the moments of numbers are about
	Sparse      bool
	ColumnRows  accumulate.ColumnRows
	Image       examples.Image
	Columns     examples.Columns
	Covered     map[int]coverage.Coverage // of each partition
	Quarantined int64
	PassedOver  coverage.PassedOver
	Untrained   map[string]int64 // rows of labels of which the partitions of a record have holdout and test rows alone
	Chain

	visits map[int]record // by the first partition of each
}

// record is the survey's visit to partitions, of which it has a span each.
type record struct {
	*statistics.SurveyVisit
	spans coverage.Spans
}

// New returns findings of nothing.
func New() *Findings {
	return &Findings{Labels: accumulate.LabelSet{}, Sample: &accumulate.Sample{}, Untrained: map[string]int64{},
		Covered: map[int]coverage.Coverage{}, visits: map[int]record{}}
}

// ErrOtherPoint says that workers took moments about different points, which are of the first rows that each has read: the topic has
// changed during the run.
var ErrOtherPoint = errors.New("the first examples were replaced while workers read them: their sums are centred at different points")

// Take takes a visit to partitions, given a span of each, in place of those to some of them that were taken before: a merged record may
// come after records of its parts. It returns [ErrOtherPoint] if sums of the visit can't be added to those of visits before it.
func (f *Findings) Take(visit *statistics.SurveyVisit, spans coverage.Spans) error {
	for _, other := range f.visits {
		if visit.Sparse != other.Sparse || !slices.Equal(visit.Shift, other.Shift) || !slices.Equal(visit.TargetShift, other.TargetShift) {
			return fmt.Errorf("partitions %d and %d: %w", visit.Partition, other.Partition, ErrOtherPoint)
		}
		break // which is about the point of all others
	}
	for _, span := range spans {
		delete(f.visits, span.Partition)
	}
	f.visits[visit.Partition] = record{visit, spans}
	return nil
}

// Fold sets what all visits together have found. It is called once, when all have been taken.
func (f *Findings) Fold(plan *schemas.Plan) {
	for _, number := range slices.Sorted(maps.Keys(f.visits)) {
		visit := f.visits[number]
		f.Shift, f.Targets, f.Columns, f.Image, f.Sparse = visit.Shift, visit.TargetShift, visit.Columns, visit.Image, visit.Sparse
		f.ColumnRows.MergeRecord(visit.ColumnRows)
		for i, label := range visit.Labels {
			rows := int64(0)
			if visit.LabelRows != nil {
				rows = visit.LabelRows[i]
			}
			f.Labels.Add(label, rows)
		}
		for _, u := range visit.Untrained {
			f.Untrained[u.Label] += u.Rows
		}
		f.Quarantined += visit.Quarantined
		f.PassedOver.Add(visit.PassedOver)
		for i, covered := range visit.Parts {
			f.Covered[visit.spans[i].Partition] = covered
		}
		if visit.Merged == 0 {
			f.Covered[number] = visit.Covered
		}
		f.Chain.add(plan, number, visit.SurveyVisit)
	}
	f.visits = nil
}
