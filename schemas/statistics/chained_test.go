package statistics

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
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

// A curve that is shortened has at most so many bins, and the messages, rows, weights, errors and losses of the whole.
func TestShorten(t *testing.T) {
	var curve []ErrorBin
	for i := range 1001 {
		m := MessageLosses{Offset: int64(i), Losses: Losses{Weight: float64(i % 3), Rows: float64(i%3) + 1, Errors: float64(i%3) / 2,
			Loss: float64(i % 3 * 4)}}
		curve = append(curve, m.Bin(m.Offset))
	}
	totals := func(curve []ErrorBin) (t [5]float64) {
		for _, b := range curve {
			for i, v := range []float64{float64(b.Messages), float64(b.Rows), b.Weight, b.Weight * b.Error, b.Weight * b.Loss} {
				t[i] += v
			}
		}
		return t
	}
	want := totals(curve)
	for _, most := range []int{1, 100, 1000, 1001} {
		short := Shorten(curve, most)
		if len(short) > most || 2*len(short) < min(most, len(curve)) {
			t.Errorf("%d bins, expected at most %d, and more than half of that", len(short), most)
		}
		for i, got := range totals(short) {
			if math.Abs(got-want[i]) > 1e-9*want[i] {
				t.Errorf("%d bins: sum %d is %v, expected %v", most, i, got, want[i])
			}
		}
		for i := 1; i < len(short); i++ {
			if short[i].Offset != short[i-1].Offset+short[i-1].Messages {
				t.Errorf("%d bins: bin %d begins at %d", most, i, short[i].Offset)
			}
		}
	}
	if short := Shorten(nil, 3); len(short) > 0 {
		t.Errorf("a curve of nothing: %v", short)
	}
}

// Rows by label cross a topic, however many labels there are: headers, which are in each message of a record, don't grow with them.
func TestLabelRows(t *testing.T) {
	mem := arrowtest.Allocator(t)
	for _, n := range []int{0, 1, 100_000} {
		var list []examples.LabelRows
		for i := range n {
			list = append(list, examples.LabelRows{Label: fmt.Sprintf("a free text with number %07d", i), Rows: int64(1 + i%3)})
		}
		v := SurveyVisit{Visit: Visit{Identity: wire.Identity{Kind: KindVisit, Stage: wire.Survey}}, Unknown: list, Untrained: list}
		messages := arrowtest.Must(v.Record().EncodeWithin(wire.MaxMessage, mem))(t)
		collector := wire.Collector[float64]{}
		var got *wire.Record[float64]
		for _, m := range messages {
			headers := 0
			for _, h := range m.Headers {
				headers += len(h.Key) + len(h.Value)
			}
			if headers > 2000 {
				t.Fatalf("%d labels: headers of %d bytes", n, headers)
			}
			got = arrowtest.Must(collector.Add(m, mem))(t)
		}
		survey, err := SurveyVisitOf(got)
		if err != nil || !reflect.DeepEqual(survey.Unknown, list) || !reflect.DeepEqual(survey.Untrained, list) || len(survey.Sums) > 0 {
			t.Errorf("%d labels became %d and %d, with sums %v: %v", n, len(survey.Unknown), len(survey.Untrained), survey.Sums, err)
		}
	}
	for name, list := range map[string][]string{
		"negative rows":  {`{"label":"a","rows":-1}`},
		"not in order":   {`{"label":"b","rows":1}`, `{"label":"a","rows":1}`},
		"repeated label": {`{"label":"a","rows":1}`, `{"label":"a","rows":1}`},
	} {
		r := (&SurveyVisit{Visit: Visit{Covered: coverage.Coverage{}}}).Record()
		r.Tensors = append(slices.Clone(r.Tensors), wire.Words[float64]("unknown", list))
		if _, err := SurveyVisitOf(r); !errors.Is(err, wire.ErrDamaged) {
			t.Errorf("%s: error %v, expected ErrDamaged", name, err)
		}
	}
}

// Terms have a record in single precision only if it has every bit of them.
func TestTermsInSinglePrecision(t *testing.T) {
	terms := func(column int32, value float64) *OccurringTerms {
		return &OccurringTerms{Occurring: Occurring{Columns: []int32{1, column}, Values: []float64{1.5, -0.25, 0, value}}, Classes: 2}
	}
	for _, exact := range []*OccurringTerms{terms(5, 0.125), terms(1<<26, -1.0/(1<<40)), terms(1<<24-1, 3)} {
		r := exact.SingleRecord()
		if r == nil {
			t.Errorf("%+v has no record in single precision", exact)
			continue
		}
		again, err := OccurringTermsOf(wire.Widened(r), 1<<26+1, 2)
		if err != nil || !reflect.DeepEqual(again, exact) {
			t.Errorf("%+v became %+v, %v", exact, again, err)
		}
	}
	for _, inexact := range []*OccurringTerms{terms(5, 0.1), terms(5, 1<<24+1), terms(1<<24+1, 1), terms(5, 1e60)} {
		if inexact.SingleRecord() != nil {
			t.Errorf("%+v has a record in single precision", inexact)
		}
	}
}

// A record whose rows are text, or whose draws are numbers, is damaged.
func TestDamagedSample(t *testing.T) {
	rows, draws := wire.Matrix(FieldSample, 2, 1, []float32{1, 2}), wire.Words[float32](FieldDraws, []string{"1", "2"})
	of := func(tensors ...wire.Tensor[float32]) error {
		_, err := SampleOf(&wire.Record[float32]{Tensors: tensors})
		return err
	}
	if err := of(rows, draws); err != nil {
		t.Error(err)
	}
	text, numbers := rows, draws
	text.Data, text.Text = nil, []string{"a", "b"}
	numbers.Data, numbers.Text = []float32{1, 2}, nil
	for name, err := range map[string]error{
		"rows of text": of(text, draws), "draws that are numbers": of(rows, numbers), "no draws": of(rows), "no rows": of(draws),
		"a draw without digits": of(rows, wire.Words[float32](FieldDraws, []string{"1", "x"})),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Sums of what was served are the same in any order, and cross a topic.
func TestServedLosses(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var all []ServedLosses
	want := map[int]ServedLosses{}
	for range 200 {
		s := ServedLosses{Version: 1 + random.IntN(9), Weight: 1, Rows: 1, Errors: float64(random.IntN(2))}
		all = append(all, s)
		sum := want[s.Version]
		want[s.Version] = ServedLosses{s.Version, sum.Weight + 1, sum.Rows + 1, sum.Errors + s.Errors}
	}
	forwards := AddServed(nil, all...)
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	shuffled := AddServed(AddServed(nil, all[:70]...), AddServed(nil, all[70:]...)...)
	if !reflect.DeepEqual(forwards, shuffled) || len(forwards) != len(want) {
		t.Fatalf("%v and %v", forwards, shuffled)
	}
	for i, s := range forwards {
		if s != want[s.Version] || i > 0 && s.Version <= forwards[i-1].Version {
			t.Errorf("%v, expected %v", s, want[s.Version])
		}
	}
	if err := checkServed(forwards); err != nil {
		t.Error(err)
	}
	for _, served := range [][]ServedLosses{{{0, 1, 1, 0}}, {{2, 1, 1, 0}, {2, 1, 1, 0}}, {{2, 1, 1, 0}, {1, 1, 1, 0}}, {{1, -1, 1, 0}}, {{1, 1, 1, 2}}} {
		if err := checkServed(served); err == nil {
			t.Errorf("%v was taken", served)
		}
	}
}

func TestScores(t *testing.T) {
	if got := LossesOf(nil); got != [examples.Splits]Losses{} || got[0].MeanLoss() != 0 || got[0].ErrorPercent() != 0 {
		t.Error(got)
	}
	got := LossesOf(wire.Tensors[float64]{wire.Matrix(FieldSplits, int(examples.Splits), LossFields, []float64{8, 5, 2, 4, 0, 0, 0, 0,
		1, 1, 1, 0})})
	want := [examples.Splits]Losses{{8, 5, 2, 4}, {}, {1, 1, 1, 0}}
	if !reflect.DeepEqual(got, want) || got[0].MeanLoss() != 0.5 || got[0].ErrorPercent() != 25 || got[2].ErrorPercent() != 100 {
		t.Error(got)
	}
}
