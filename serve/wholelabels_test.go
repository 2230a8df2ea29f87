package serve

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// wholeModel returns a model with two features and a number of integer classes.
func wholeModel(t testing.TB, classes int, edits ...func(*schemas.Manifest)) *model.Model {
	t.Helper()
	names := make([]string, classes)
	for i := range names {
		names[i] = strconv.Itoa(10*i - 5)
	}
	edits = append(edits, func(m *schemas.Manifest) { m.LabelType = examples.WholeLabels })
	return newModelOf(t, names, 3, 2, nil, layout.MissingError, edits...)
}

// severalLabels makes a model multi-label.
func severalLabels(m *schemas.Manifest) {
	m.Plan.Labels, m.Plan.Stages[0].Link = schemas.LabelsSeveral, link.Logistic
}

// probable is one of the most probable labels, which are integers.
type probable struct {
	Label       int64   `json:"label"`
	Probability float32 `json:"probability"`
}

// topOf returns the most probable labels of rows according to the model.
func topOf(m *model.Model, rows [][]float32, top int) (labels []int64, want [][]probable) {
	for _, row := range rows {
		all := make([]float32, len(m.Labels()))
		m.Probabilities(all, denseOf(row))
		var list []probable
		for _, class := range mostProbable(nil, all, top) {
			label, _ := strconv.ParseInt(m.Labels()[class], 10, 64) // an integer
			list = append(list, probable{label, all[class]})
		}
		labels, want = append(labels, list[0].Label), append(want, list)
	}
	return labels, want
}

func sameTop(a, b [][]probable) bool {
	return slices.EqualFunc(a, b, func(x, y []probable) bool {
		return slices.EqualFunc(x, y, func(p, q probable) bool {
			return p.Label == q.Label && near([]float32{p.Probability}, []float32{q.Probability})
		})
	})
}

// In a multi-label task, the labels of a row are also integers, beside its most probable ones.
func TestSeveralWholeLabels(t *testing.T) {
	m := wholeModel(t, 40, severalLabels)
	s := newServer(t, Defaults(), Fixed(m))
	rows, body := someRows(t, 20)
	_, want := topOf(m, rows, 2)
	var given [][]int64
	for _, row := range rows {
		all := make([]float32, len(m.Labels()))
		m.Probabilities(all, denseOf(row))
		given = append(given, examples.WholeNumbers(m.Given(all)))
	}
	var got struct {
		Labels [][]int64
		Top    [][]probable
	}
	w := askWith(s, typeJSON, body, headerTop, "2")
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK || !slices.EqualFunc(got.Labels, given,
		slices.Equal) || !sameTop(got.Top, want) {
		t.Errorf("%v: %d: %.300s", err, w.Code, w.Body)
	}
	r, err := ipc.NewReader(askWith(s, typeArrow, listsOf(t, rows, 20), headerTop, "2").Body)
	if err != nil || !r.Next() {
		t.Fatal(err)
	}
	defer r.Release()
	lists := r.Record().Column(0).(*array.List)
	for i := range rows {
		from, end := lists.ValueOffsets(i)
		if values := lists.ListValues().(*array.Int64).Int64Values()[from:end]; !slices.Equal(values, given[i]) {
			t.Errorf("row %d as Arrow: %v, expected %v", i, values, given[i])
		}
	}
}
