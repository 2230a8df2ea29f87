package findings

import (
	"reflect"
	"testing"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// A merged record counts in place of the records of its parts, whichever came first, and with those of other partitions.
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
	f := New()
	f.Take(visit(1, []string{"a"}, []int64{2}), spans(1))
	f.Take(visit(2, []string{"b"}, []int64{3}), spans(2))
	f.Take(visit(0, []string{"a", "c"}, []int64{2, 1}, covered(0), covered(1)), spans(0, 1))
	f.Fold(&schemas.Plan{})
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
