package solver

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

// surveyFindings is the results of the survey other than sums. Create findings with [newSurveyFindings].
type surveyFindings struct {
	Labels      accumulate.LabelSet
	Sample      *accumulate.Sample
	Shift       []float32
	Targets     []float64 // the point about which the moments of targets are taken
	Sparse      bool
	ColumnRows  accumulate.ColumnRows
	Image       examples.Image
	Columns     examples.Columns
	Covered     map[int]coverage.Coverage // by partition
	Quarantined int64
	PassedOver  coverage.PassedOver
	Untrained   map[string]int64 // rows of labels that occur only in the holdout and test rows of a record's partitions
	surveyedChain

	visits map[int]record // by the first partition of each
}

// record is the survey's visit to partitions, with a span of each.
type record struct {
	*statistics.SurveyVisit
	spans coverage.Spans
}

// newSurveyFindings returns empty findings.
func newSurveyFindings() *surveyFindings {
	return &surveyFindings{Labels: accumulate.LabelSet{}, Sample: &accumulate.Sample{}, Untrained: map[string]int64{},
		Covered: map[int]coverage.Coverage{}, visits: map[int]record{}}
}

// errOtherPoint means that workers used different points for their moments. Each uses the first rows that it has read: the
// topic has changed during the run.
var errOtherPoint = errors.New("the first examples were replaced while workers read them: their sums are centred at different points")

// Add adds a visit to partitions, with a span of each. It replaces earlier visits to some of them, because a merged
// record may follow the records of its parts. It returns [errOtherPoint] if the sums of the visit can't be added to the
// earlier ones.
func (f *surveyFindings) Add(visit *statistics.SurveyVisit, spans coverage.Spans) error {
	for _, other := range f.visits {
		if visit.Sparse != other.Sparse || !slices.Equal(visit.Shift, other.Shift) || !slices.Equal(visit.TargetShift, other.TargetShift) {
			return fmt.Errorf("partitions %d and %d: %w", visit.Partition, other.Partition, errOtherPoint)
		}
		break // its point is that of all visits
	}
	for _, span := range spans {
		delete(f.visits, span.Partition)
	}
	f.visits[visit.Partition] = record{visit, spans}
	return nil
}

// fold combines the findings of all visits. It is called once, after the last one.
func (f *surveyFindings) fold(plan *schemas.Plan) {
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
		f.surveyedChain.add(plan, visit)
	}
	f.visits = nil
}
