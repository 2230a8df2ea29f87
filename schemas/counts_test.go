package schemas

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// A record of statistics whose counts are none is damaged, whatever its digest says; losses may be anything, as scores overflow.
func TestCountsThatAreNone(t *testing.T) {
	sums := func(name string, shape []int, at int, v float64) error {
		size := 1
		for _, n := range shape {
			size *= n
		}
		data := make([]float64, size)
		data[at] = v
		record := &wire.Record[float64]{
			Identity: wire.Identity{Kind: statistics.KindVisit, Run: "r", Stage: 0, Visit: 1, Partition: 2},
			Tensors:  wire.Tensors[float64]{{Name: name, Shape: shape, Data: data}},
		}
		messages := arrowtest.Must(record.EncodeWithin(wire.MaxMessage, memory.DefaultAllocator))(t)
		_, err := statistics.Collect(&wire.Collector[float64]{}, messages[0], memory.DefaultAllocator)
		return err
	}
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 1e200} {
		for name, err := range map[string]error{
			"splits": sums(statistics.FieldSplits, []int{examples.Splits, statistics.LossFields}, 1, v),
			"average/splits": sums(statistics.PartAverage+"/"+statistics.FieldSplits, []int{examples.Splits, statistics.LossFields},
				statistics.LossFields+1, v),
			"confusion": sums(statistics.FieldConfusion, []int{examples.Splits, 2, 2}, 3, v),
			"bins":      sums(statistics.FieldBins, []int{examples.Splits, 15, 3}, 42, v),
			"overflow":  sums(statistics.FieldOverflow, []int{1}, 0, v),
			"forgotten": sums(statistics.FieldForgotten, []int{2}, 1, v),
		} {
			if !errors.Is(err, wire.ErrDamaged) {
				t.Errorf("%v in %s: %v", v, name, err)
			}
		}
		for name, err := range map[string]error{
			"distance":   sums(statistics.FieldSplits, []int{examples.Splits, statistics.LossFields}, 2, v),
			"loss":       sums(statistics.FieldSplits, []int{examples.Splits, statistics.LossFields}, 3, v),
			"confidence": sums(statistics.FieldBins, []int{examples.Splits, 15, 3}, 43, v),
			"cross":      sums(statistics.FieldCross, []int{2, 2}, 3, v),
			"judged":     sums(statistics.FieldOffered, []int{3}, 2, v),
		} {
			if err != nil {
				t.Errorf("%v as %s: %v", v, name, err)
			}
		}
	}
	texts := &wire.Record[float64]{Identity: wire.Identity{Kind: statistics.KindVisit, Run: "r"},
		Tensors: wire.Tensors[float64]{wire.Words[float64](statistics.FieldGramRows, []string{"a"})}}
	m := arrowtest.Must(texts.EncodeWithin(0, memory.DefaultAllocator))(t)[0]
	if _, err := statistics.Collect(&wire.Collector[float64]{}, m, memory.DefaultAllocator); !errors.Is(err, wire.ErrDamaged) {
		t.Errorf("texts in place of numbers: %v", err)
	}
	if _, err := (wire.Tensors[float64]{wire.Words[float64](statistics.FieldCross, []string{"a"})}).Shaped(statistics.FieldCross,
		1); !errors.As(err, new(*wire.ShapeError)) {
		t.Errorf("texts in place of a vector: %v", err)
	}
}

// A report whose confusion matrix does not fit its labels is damaged: whoever shows it names rows and columns by the labels.
func TestReportsThatDoNotFit(t *testing.T) {
	for _, confusion := range [][][]int64{{{1}}, {{1, 2, 3}, {1, 2, 3}}, {{1, 2}, {1}}, {{1, 2}, {1, -2}}, {{1, 2}, {1, 2}, {1, 2}}} {
		r := &Report{Run: "r", Labels: []string{"a", "b"}, Splits: map[string]SplitReport{"test": {Rows: 3, Confusion: confusion}}}
		messages := arrowtest.Must(r.Messages())(t)
		if _, err := DecodeJSON[Report](messages[0]); !errors.Is(err, wire.ErrDamaged) {
			t.Errorf("%v: %v", confusion, err)
		}
	}
	plan := wire.Message{Key: "p", Value: []byte(`{"segment":1,"spans":[{"partition":1000000000,"from":0,"to":1}]}`)}
	if _, err := DecodeJSON[Plan](plan); !errors.Is(err, wire.ErrDamaged) {
		t.Errorf("partition 1,000,000,000: %v", err)
	}
}

// A figure that JSON can't carry becomes the largest that it can.
func TestFinite(t *testing.T) {
	for v, want := range map[float64]float64{0: 0, -1.5: -1.5, math.Inf(1): math.MaxFloat64, math.Inf(-1): math.MaxFloat64} {
		if got := wire.Finite(v); got != want {
			t.Errorf("%v becomes %v, expected %v", v, got, want)
		}
	}
	if got := wire.Finite(math.NaN()); got != math.MaxFloat64 {
		t.Errorf("NaN becomes %v", got)
	}
}

// checkJSON checks that texts are values as JSON, which are read and written so, and that other texts are refused.
func checkJSON[T any](t *testing.T, values map[string]T, refused ...string) {
	t.Helper()
	for text, want := range values {
		var got T
		if err := json.Unmarshal([]byte(text), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as %+v, %v", text, got, err)
		}
		if written, err := json.Marshal(want); err != nil || string(written) != text {
			t.Errorf("%s is written as %s, %v", text, written, err)
		}
	}
	for _, text := range refused {
		if got := new(T); json.Unmarshal([]byte(text), got) == nil {
			t.Errorf("%s is read as %+v", text, *got)
		}
	}
}

func TestClassWeightAsJSON(t *testing.T) {
	weights := map[string]ClassWeight{`"none"`: {}, `"balanced"`: {Balanced: true}, `{"cat":2,"dog":0.5}`: {By: map[string]float64{"cat": 2, "dog": 0.5}},
		`{"rare":0}`: {By: map[string]float64{"rare": 0}}}
	checkJSON(t, weights, `"equal"`, `{"cat":-1}`, `{"cat":"2"}`, `{}`, `3`)
	for text, w := range weights {
		if !w.Equal(weights[text]) || w.IsZero() != (text == `"none"`) {
			t.Errorf("%s is zero: %v", text, w.IsZero())
		}
	}
}

// A ridge is a number in JSON, with the bits that it had when it was a number, or auto.
func TestRidgeInJSON(t *testing.T) {
	ridges := map[string]Ridge{`"auto"`: RidgeAuto}
	for _, r := range []Ridge{0, 1e-4, 3e-7, 0.1, 1e300, 12} {
		ridges[string(wire.JSON(float64(r)))] = r
	}
	checkJSON(t, ridges, `-1`, `-0.5`, `"1e-4"`, `"none"`, `true`, `{}`, `1e999`)
}

func TestRidgeIsValid(t *testing.T) {
	for r, want := range map[Ridge]bool{0: true, 1e-9: true, RidgeAuto: true, -0.5: false, -2: false, Ridge(math.Inf(1)): false,
		Ridge(math.NaN()): false} {
		if r.Valid() != want {
			t.Errorf("ridge %v is valid: %v, expected %v", r, r.Valid(), want)
		}
	}
}

// A rule has one JSON, which is read as the same rule, and nothing else is a rule.
func TestThresholdAsJSON(t *testing.T) {
	checkJSON(t, map[string]ThresholdRule{`0.5`: {}, `0.25`: {At: 0.25}, `"best_f1"`: {BestF1: true}, `{"cost":{"fp":1,"fn":20}}`: {Costs: ThresholdCosts{1, 20}}},
		`0`, `1`, `-1`, `1.5`, `"f1"`, `null`, `{}`, `{"cost":{}}`, `{"cost":{"fp":1}}`, `{"cost":{"fp":-1,"fn":1}}`, `[]`, `true`)
}

// A better decision has less.
func TestThresholdCost(t *testing.T) {
	few, many := statistics.Decision{{90, 10}, {4, 6}}, statistics.Decision{{99, 1}, {9, 1}}
	for _, r := range []ThresholdRule{{BestF1: true}, {Costs: ThresholdCosts{1, 20}}} {
		if !r.Chosen() || !(r.Cost(few) < r.Cost(many)) {
			t.Errorf("%v: %v and %v", r, r.Cost(few), r.Cost(many))
		}
	}
	if r := (ThresholdRule{Costs: ThresholdCosts{1, 1}}); r.Cost(few) != 14 || r.Cost(many) != 10 {
		t.Errorf("wrong rows cost %v and %v", r.Cost(few), r.Cost(many))
	}
}
