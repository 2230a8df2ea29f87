package statistics

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// The findings of segments are those of the whole, and cross a topic. Impossible ones are damaged.
func TestFindings(t *testing.T) {
	losses := Losses{Weight: 2, Rows: 1, Errors: 1, Loss: 3}
	segment := func(partition int, from int64) *Findings {
		f, span := NewFindings(), coverage.Span{Partition: partition, From: from, To: from + 5}
		f.Parts = []coverage.Coverage{{Spans: coverage.Spans{span}, Messages: 4, Rows: 4, Checksum: 1}}
		f.ByIncrement = [][]coverage.Coverage{{}, {f.Parts[0]}}
		f.Skipped = coverage.Spans{{Partition: partition, From: from, To: from + 1}}
		f.Progress = []PartitionProgress{{partition, "s", "1", from + 5}}
		f.Messages = []MessageLosses{{partition, from + 1, losses}, {partition, from + 2, losses}}
		f.Served = []ServedLosses{{Version: 7 + partition, Weight: 1, Rows: 1}}
		f.Labels.Add("a", from)
		return &f
	}
	whole, share := NewFindings(), NewFindings()
	for _, list := range [][]*Findings{{segment(1, 0)}, {segment(1, 5), segment(2, 0)}} {
		if share = *list[0]; len(list) > 1 {
			assert.NoError(t, share.Merge(list[1]))
		}
		assert.NoError(t, whole.Merge(&share))
	}
	assert.True(t, len(whole.Parts) == 2 && len(whole.ByIncrement[1]) == 2 && whole.Parts[0].Rows == 8 &&
		whole.ByIncrement[1][0].Spans[0].To == 10 && len(whole.Messages) == 6 && len(whole.Served) == 2 && whole.Served[0].Rows == 2 &&
		whole.Labels["a"] == 5 && len(whole.Skipped) == 3, "got %+v", whole)
	visit := func() *wire.Record[float64] {
		v := SurveyVisit{Visit: Visit{Identity: wire.Identity{Kind: KindVisit}}, Findings: whole}
		return v.Record()
	}
	got, err := SurveyVisitOf(visit())
	assert.True(t, err == nil && reflect.DeepEqual(got.Findings, whole), "got %+v, %v, expected %+v", got, err, whole)
	for name, tensor := range map[string]wire.Tensor[float64]{
		"other text":                   wire.Words[float64]("progress", []string{"x"}),
		"a partition without offsets":  wire.Words[float64]("covered", []string{"{}"}),
		"an increment without offsets": wire.Words[float64]("increments", []string{"[{}]"}),
		"skipped out of order":         wire.Words[float64]("skipped", []string{`[{"from": -1, "to": 1}]`}),
		"impossible losses":            wire.Matrix("messages", 1, 6, []float64{0, 0, 1, 1, 2, 0}),
		"messages of another shape":    wire.Vector("messages", []float64{1}),
		"served versions out of order": wire.Matrix("served", 2, 4, []float64{8, 1, 1, 0, 7, 1, 1, 0}),
		"served as text":               {Name: "served", Shape: []int{1, 4}, Text: []string{"a", "b", "c", "d"}},
		"served of no shape":           {Name: "served", Data: []float64{1}},
		"rows of too few labels":       wire.Vector(FieldLabelRows, []float64{}),
	} {
		r := visit()
		r.Tensors[slices.IndexFunc(r.Tensors, func(t wire.Tensor[float64]) bool { return t.Name == tensor.Name })] = tensor
		_, err := SurveyVisitOf(r)
		assert.True(t, errors.Is(err, wire.ErrDamaged), "%s: error %v, expected ErrDamaged", name, err)
	}
}

func TestLabelSet(t *testing.T) {
	a, b := LabelSet{}, LabelSet{}
	for _, row := range []struct {
		set   LabelSet
		label string
		rows  int64
	}{{a, "10", 1}, {a, "9", 1}, {a, "10", 1}, {b, "2", 0}, {b, "9", 1}} {
		row.set.Add(row.label, row.rows)
	}
	a.Merge(b)
	assert.Equal(t, a.Text(), []string{"2", "9", "10"}, "the labels")
	assert.True(t, a["2"] == 0 && a["9"] == 2 && a["10"] == 2, "the labels have %v rows", a)
}

// However rows are split, the counts are the same.
func TestColumnRowsAreAMonoid(t *testing.T) {
	rows := [][]int32{{0, 5, 1023, 1024}, {}, {5}, {5, examples.MaxColumns - 1}, {1024}}
	want := []examples.ColumnRows{{Column: 0, Rows: 1}, {Column: 5, Rows: 3}, {Column: 1023, Rows: 1}, {Column: 1024, Rows: 2},
		{Column: examples.MaxColumns - 1, Rows: 1}}
	for cut := range len(rows) + 1 {
		first, second, whole := ColumnRows{}, ColumnRows{}, ColumnRows{}
		for i, row := range rows {
			if i < cut {
				first.Add(row)
			} else {
				second.Add(row)
			}
		}
		whole.Merge(second)
		whole.Merge(first)
		assert.Equal(t, whole.List(), want, "cut at %d", cut)
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
		assert.True(t, len(short) <= most && 2*len(short) >= min(most, len(curve)),
			"%d bins, expected at most %d, and more than half of that", len(short), most)
		for i, got := range totals(short) {
			assert.True(t, math.Abs(got-want[i]) <= 1e-9*want[i], "%d bins: sum %d is %v, expected %v", most, i, got, want[i])
		}
		for i := 1; i < len(short); i++ {
			assert.Equal(t, short[i].Offset, short[i-1].Offset+short[i-1].Messages, "%d bins: bin %d begins at", most, i)
		}
	}
	short := Shorten(nil, 3)
	assert.True(t, len(short) == 0, "a curve of nothing: %v", short)
}

// Rows by label cross a topic, however many labels there are: headers, which are in each message of a record, don't grow with them.
func TestLabelRows(t *testing.T) {
	mem := assert.Allocator(t)
	for _, n := range []int{0, 1, 100_000} {
		var list []examples.LabelRows
		for i := range n {
			list = append(list, examples.LabelRows{Label: fmt.Sprintf("a free text with number %07d", i), Rows: int64(1 + i%3)})
		}
		v := SurveyVisit{Visit: Visit{Identity: wire.Identity{Kind: KindVisit, Stage: wire.Survey}}, Findings: NewFindings()}
		v.Unknown.AddList(list)
		v.Untrained.AddList(list)
		messages := assert.Must(v.Record().EncodeWithin(wire.MaxMessage, mem))(t)
		collector := wire.Collector[float64]{}
		var got *wire.Record[float64]
		for _, m := range messages {
			headers := 0
			for _, h := range m.Headers {
				headers += len(h.Key) + len(h.Value)
			}
			assert.Need(t, headers <= 2000, "%d labels: headers of %d bytes", n, headers)
			got = assert.Must(collector.Add(m, mem))(t)
		}
		survey, err := SurveyVisitOf(got)
		assert.True(t, err == nil && slices.Equal(survey.Unknown.List(), list) && slices.Equal(survey.Untrained.List(), list) &&
			len(survey.Sums) == 0, "%d labels became %d and %d, with sums %v: %v", n, len(survey.Unknown), len(survey.Untrained), survey.Sums, err)
	}
	for name, list := range map[string][]string{
		"negative rows":  {`{"label":"a","rows":-1}`},
		"not in order":   {`{"label":"b","rows":1}`, `{"label":"a","rows":1}`},
		"repeated label": {`{"label":"a","rows":1}`, `{"label":"a","rows":1}`},
	} {
		r := (&SurveyVisit{Visit: Visit{}}).Record()
		r.Tensors = append(slices.Clone(r.Tensors), wire.Words[float64]("unknown", list))
		_, err := SurveyVisitOf(r)
		assert.True(t, errors.Is(err, wire.ErrDamaged), "%s: error %v, expected ErrDamaged", name, err)
	}
}

// Terms have a record in single precision only if it has every bit of them.
func TestTermsInSinglePrecision(t *testing.T) {
	terms := func(column int32, value float64) Occurring {
		return Occurring{Columns: []int32{1, column}, Values: []float64{1.5, -0.25, 0, value}}
	}
	for _, exact := range []Occurring{terms(5, 0.125), terms(1<<26, -1.0/(1<<40)), terms(1<<24-1, 3)} {
		r := exact.SingleRecord(wire.Identity{}, 2)
		if r == nil {
			t.Errorf("%+v has no record in single precision", exact)
			continue
		}
		again, err := OccurringTermsOf(wire.Widened(r), 1<<26+1, 2)
		assert.True(t, err == nil && reflect.DeepEqual(again, exact), "%+v became %+v, %v", exact, again, err)
	}
	for _, inexact := range []Occurring{terms(5, 0.1), terms(5, 1<<24+1), terms(1<<24+1, 1), terms(5, 1e60)} {
		assert.True(t, inexact.SingleRecord(wire.Identity{}, 2) == nil, "%+v has a record in single precision", inexact)
	}
}

// A record whose rows are text, or whose draws are numbers, is damaged.
func TestDamagedSample(t *testing.T) {
	rows, draws := wire.Matrix(FieldSample, 2, 1, []float32{1, 2}), wire.Words[float32](FieldDraws, []string{"1", "2"})
	of := func(tensors ...wire.Tensor[float32]) error {
		_, err := SampleOf(wire.Widened(&wire.Record[float32]{Tensors: tensors}))
		return err
	}
	assert.Fails(t, of(rows, draws), nil)
	text, numbers := rows, draws
	text.Data, text.Text = nil, []string{"a", "b"}
	numbers.Data, numbers.Text = []float32{1, 2}, nil
	for name, err := range map[string]error{
		"rows of text": of(text, draws), "draws that are numbers": of(rows, numbers), "no draws": of(rows), "no rows": of(draws),
		"a draw without digits": of(rows, wire.Words[float32](FieldDraws, []string{"1", "x"})),
	} {
		assert.True(t, err != nil, "%s: no error", name)
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
	assert.Need(t, reflect.DeepEqual(forwards, shuffled) && len(forwards) == len(want), "%v and %v", forwards, shuffled)
	for i, s := range forwards {
		assert.True(t, s == want[s.Version] && (i == 0 || s.Version > forwards[i-1].Version), "%v, expected %v", s, want[s.Version])
	}
	assert.Fails(t, checkServed(forwards), nil)
	for _, served := range [][]ServedLosses{{{0, 1, 1, 0}}, {{2, 1, 1, 0}, {2, 1, 1, 0}}, {{2, 1, 1, 0}, {1, 1, 1, 0}}, {{1, -1, 1, 0}}, {{1, 1, 1, 2}}} {
		assert.True(t, checkServed(served) != nil, "%v was taken", served)
	}
}

func TestScores(t *testing.T) {
	got := LossesOf(nil)
	assert.True(t, got == [examples.Splits]Losses{} && got[0].MeanLoss() == 0 && got[0].ErrorPercent() == 0, "%v", got)
	got = LossesOf(wire.Tensors[float64]{wire.Matrix(FieldSplits, int(examples.Splits), LossFields, []float64{8, 5, 2, 4, 0, 0, 0, 0,
		1, 1, 1, 0})})
	want := [examples.Splits]Losses{{8, 5, 2, 4}, {}, {1, 1, 1, 0}}
	assert.True(t, reflect.DeepEqual(got, want) && got[0].MeanLoss() == 0.5 && got[0].ErrorPercent() == 25 && got[2].ErrorPercent() == 100,
		"%v", got)
}
