package solver

import (
	"errors"
	"testing"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Sums about different points are not added.
func TestVisitsAboutDifferentPoints(t *testing.T) {
	visit := func(partition int, shift []float32, targets []float64, sparse bool) *statistics.SurveyVisit {
		v := &statistics.SurveyVisit{Parts: make([]coverage.Coverage, 1), Shift: shift, TargetShift: targets, Sparse: sparse}
		v.Identity = wire.Identity{Kind: statistics.KindVisit, Stage: wire.Survey, Partition: partition}
		return v
	}
	first := visit(0, []float32{1, 2}, []float64{3}, false)
	for name, other := range map[string]*statistics.SurveyVisit{
		"shift": visit(1, []float32{1, 3}, []float64{3}, false), "width": visit(1, []float32{1}, []float64{3}, false),
		"targets": visit(1, []float32{1, 2}, []float64{4}, false), "sparse": visit(1, []float32{1, 2}, []float64{3}, true),
	} {
		f := &surveyFindings{Findings: accumulate.NewFindings()}
		arrowtest.NoError(t, f.Add(first, &schemas.Share{Partitions: []int{0}}))
		if err := f.Add(other, &schemas.Share{Partitions: []int{1}}); !errors.Is(err, errOtherPoint) {
			t.Errorf("%s: %v, expected ErrOtherPoint", name, err)
		}
		if err := f.Add(visit(1, []float32{1, 2}, []float64{3}, false), &schemas.Share{Partitions: []int{1}}); err != nil {
			t.Errorf("%s: %v for the same point", name, err)
		}
	}
}
