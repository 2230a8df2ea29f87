package solver

import (
	"errors"
	"fmt"
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
	Untrained   map[string]int64 // rows of labels that occur only in the holdout and test rows of a share
	surveyedChain

	visits []surveyedShare // in the order of the shares
}

// surveyedShare is the survey's visit to a share.
type surveyedShare struct {
	*statistics.SurveyVisit
	share *schemas.Share
}

// newSurveyFindings returns empty findings.
func newSurveyFindings() *surveyFindings {
	return &surveyFindings{Labels: accumulate.LabelSet{}, Sample: &accumulate.Sample{}, Untrained: map[string]int64{},
		Covered: map[int]coverage.Coverage{}}
}

// errOtherPoint means that workers used different points for their moments. Each uses the first rows that it has read: the
// topic has changed during the run.
var errOtherPoint = errors.New("the first examples were replaced while workers read them: their sums are centred at different points")

// Add adds the visit to the next share. It returns [errOtherPoint] if the sums of the visit can't be added to the earlier ones.
func (f *surveyFindings) Add(visit *statistics.SurveyVisit, share *schemas.Share) error {
	if len(visit.Parts) != len(share.Partitions) {
		return fmt.Errorf("%v covers %d partitions, expected %v", visit.Identity, len(visit.Parts), share.Partitions)
	}
	if len(f.visits) > 0 {
		first := f.visits[0]
		if visit.Sparse != first.Sparse || !slices.Equal(visit.Shift, first.Shift) || !slices.Equal(visit.TargetShift, first.TargetShift) {
			return fmt.Errorf("partitions %d and %d: %w", visit.Partition, first.Partition, errOtherPoint)
		}
	}
	f.visits = append(f.visits, surveyedShare{visit, share})
	return nil
}

// fold combines the findings of all visits. It is called once, after the last one.
func (f *surveyFindings) fold(plan *schemas.Plan) {
	for _, visit := range f.visits {
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
			f.Covered[visit.share.Partitions[i]] = covered
		}
		f.surveyedChain.add(plan, visit)
	}
	f.visits = nil
}
