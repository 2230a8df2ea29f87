package statistics

import (
	"errors"
	"reflect"
	"testing"

	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// The record of a survey has the messages and served answers of each partition, which decoding divides again.
func TestChainedPartitions(t *testing.T) {
	losses := Losses{Weight: 2, Rows: 1, Errors: 1, Loss: 3}
	partitions := []Chained{
		{Messages: []MessageLosses{{3, losses}, {4, losses}}, Served: []ServedLosses{{Version: 7, Weight: 1, Rows: 1}}},
		{},
		{Skipped: coverage.Spans{{Partition: 2, From: 1, To: 2}}, Progress: []PartitionProgress{{"s", "1", 9}},
			Increments: []coverage.Coverage{{Rows: 4}}, Messages: []MessageLosses{{3, losses}},
			Served: []ServedLosses{{Version: 7, Weight: 1, Rows: 1, Errors: 1}, {Version: 8, Weight: 2, Rows: 2}}},
	}
	covered := coverage.Coverage{Spans: coverage.Spans{{To: 1}, {Partition: 1, To: 1}, {Partition: 2, To: 5}}}
	visit := func(chained []Chained) *wire.Record[float64] {
		v := SurveyVisit{Visit: Visit{Identity: wire.Identity{Kind: KindVisit}, Covered: covered}, Parts: make([]coverage.Coverage, 3),
			Chained: chained}
		return v.Record()
	}
	got, err := SurveyVisitOf(visit(partitions))
	if err != nil || !reflect.DeepEqual(got.Chained, partitions) {
		t.Errorf("got %+v, %v, expected %+v", got.Chained, err, partitions)
	}
	replace := func(tensor wire.Tensor[float64]) *wire.Record[float64] {
		r := visit(partitions)
		for i := range r.Tensors {
			if r.Tensors[i].Name == tensor.Name {
				r.Tensors[i] = tensor
			}
		}
		return r
	}
	for name, r := range map[string]*wire.Record[float64]{
		"two of three partitions":      visit(partitions[:2]),
		"other text":                   replace(wire.Words[float64](tensorChained, []string{"x", "{}", "{}"})),
		"fewer messages":               replace(wire.Words[float64](tensorChained, []string{`{"messages": 1, "served": 3}`, "{}", "{}"})),
		"more messages":                replace(wire.Words[float64](tensorChained, []string{`{"messages": 4, "served": 3}`, "{}", "{}"})),
		"no number of messages":        replace(wire.Words[float64](tensorChained, []string{`{"messages": -1}`, "{}", "{}"})),
		"fewer served":                 replace(wire.Words[float64](tensorChained, []string{`{"messages": 3}`, "{}", "{}"})),
		"more served":                  replace(wire.Words[float64](tensorChained, []string{`{"messages": 3, "served": 4}`, "{}", "{}"})),
		"served versions out of order": replace(wire.Words[float64](tensorChained, []string{`{"messages": 3, "served": 3}`, "{}", "{}"})),
		"served of another shape":      replace(wire.Vector("served", []float64{1})),
		"served as text":               replace(wire.Tensor[float64]{Name: "served", Shape: []int{1, 4}, Text: []string{"a", "b", "c", "d"}}),
		"served of no shape":           replace(wire.Tensor[float64]{Name: "served", Data: []float64{1}}),
		"no partitions":                replace(wire.Words[float64](tensorChained, nil)),
		"messages of another shape":    replace(wire.Vector("messages", []float64{1})),
	} {
		if _, err := SurveyVisitOf(r); !errors.Is(err, wire.ErrDamaged) {
			t.Errorf("%s: error %v, expected ErrDamaged", name, err)
		}
	}
}
