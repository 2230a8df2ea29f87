package solver

import (
	"errors"
	"reflect"
	"testing"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// A merged record replaces the records of its parts, in any order, and is combined with those of other partitions.
func TestMergedRecordTakesThePlaceOfItsParts(t *testing.T) {
	covered := func(partition int) coverage.Coverage {
		return coverage.Coverage{Spans: coverage.Spans{{Partition: partition, From: 0, To: 3}}, Messages: 3, Rows: int64(partition + 1)}
	}
	spans := func(partitions ...int) (all coverage.Spans) {
		for _, number := range partitions {
			all = append(all, covered(number).Spans...)
		}
		return all
	}
	visit := func(partition int, labels []string, rows []int64, parts ...coverage.Coverage) *statistics.SurveyVisit {
		v := &statistics.SurveyVisit{Labels: labels, LabelRows: rows, Quarantined: 1, Parts: parts}
		v.Identity = wire.Identity{Kind: statistics.KindVisit, Stage: wire.Survey, Partition: partition, Merged: len(parts)}
		if v.Merged == 0 {
			v.Covered = covered(partition)
		}
		return v
	}
	f := newSurveyFindings()
	take := func(visit *statistics.SurveyVisit, spans coverage.Spans) {
		if err := f.Add(visit, spans); err != nil {
			t.Fatal(err)
		}
	}
	take(visit(1, []string{"a"}, []int64{2}), spans(1))
	take(visit(2, []string{"b"}, []int64{3}), spans(2))
	take(visit(0, []string{"a", "c"}, []int64{2, 1}, covered(0), covered(1)), spans(0, 1))
	f.fold(&schemas.Plan{})
	if want := map[string]int64{"a": 2, "b": 3, "c": 1}; !reflect.DeepEqual(map[string]int64(f.Labels), want) {
		t.Errorf("labels %v, expected %v", f.Labels, want)
	}
	if f.Quarantined != 2 {
		t.Errorf("%d messages in quarantine, expected those of the merged record and of the other partition", f.Quarantined)
	}
	if want := map[int]coverage.Coverage{0: covered(0), 1: covered(1), 2: covered(2)}; !reflect.DeepEqual(f.Covered, want) {
		t.Errorf("covered %v, expected %v", f.Covered, want)
	}
}

// Sums about different points are not added.
func TestVisitsAboutDifferentPoints(t *testing.T) {
	visit := func(partition int, shift []float32, targets []float64, sparse bool) *statistics.SurveyVisit {
		v := &statistics.SurveyVisit{Shift: shift, TargetShift: targets, Sparse: sparse}
		v.Identity = wire.Identity{Kind: statistics.KindVisit, Stage: wire.Survey, Partition: partition}
		return v
	}
	first := visit(0, []float32{1, 2}, []float64{3}, false)
	for name, other := range map[string]*statistics.SurveyVisit{
		"shift": visit(1, []float32{1, 3}, []float64{3}, false), "width": visit(1, []float32{1}, []float64{3}, false),
		"targets": visit(1, []float32{1, 2}, []float64{4}, false), "sparse": visit(1, []float32{1, 2}, []float64{3}, true),
	} {
		f := newSurveyFindings()
		if err := f.Add(first, nil); err != nil {
			t.Fatal(err)
		}
		if err := f.Add(other, nil); !errors.Is(err, errOtherPoint) {
			t.Errorf("%s: %v, expected ErrOtherPoint", name, err)
		}
		if err := f.Add(visit(1, []float32{1, 2}, []float64{3}, false), nil); err != nil {
			t.Errorf("%s: %v for the same point", name, err)
		}
	}
}
