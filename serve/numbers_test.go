package serve

import (
	"encoding/json"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
)

// numbersModel returns a model with two features and a number of targets.
func numbersModel(t testing.TB, targets int) *model.Model {
	t.Helper()
	names := manyClasses(targets)
	return newModelOf(t, names, 3, 2, nil, layout.MissingError, func(m *schemas.Manifest) {
		m.Plan.Targets, m.Plan.Stages[0].Link = names, link.Identity
	})
}

// Predicted targets are float64, and null if not finite, in JSON and in Arrow.
func TestPredictedNumbers(t *testing.T) {
	const targets = 300
	m := numbersModel(t, targets)
	for _, n := range []int{2, 64, 65, 500} {
		s := newServer(t, Defaults(), Fixed(m))
		rows, body := someRows(t, n)
		want := make([]float64, n*targets)
		m.Numbers(want, denseOf(rows...))
		if last := want[targets-1]; last-last == 0 || want[0] == float64(float32(want[0])) {
			t.Fatalf("%v and %v: expected a number that float32 does not have, and one that is not finite", want[0], last)
		}
		for sent, content := range map[string][]byte{typeJSON: body, typeArrow: listsOf(t, rows, 100)} {
			w := askWith(s, sent, content, "Accept", typeJSON)
			var got struct {
				Targets               []string
				Predictions           [][]*float64
				Labels, Probabilities []any
			}
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || !slices.Equal(got.Targets, m.Labels()) || got.Labels != nil ||
				got.Probabilities != nil {
				t.Fatalf("%d rows as %s: %v: %.300s", n, sent, err, w.Body)
			}
			var numbers []float64
			for _, v := range slices.Concat(got.Predictions...) {
				if v == nil {
					numbers = append(numbers, math.NaN())
				} else {
					numbers = append(numbers, *v)
				}
			}
			checkNumbers(t, numbers, want)
			checkNumbers(t, arrowNumbers(t, askWith(s, sent, content, "Accept", typeArrow).Body), want)
		}
		checkFree(t, s)
	}
	s := newServer(t, Defaults(), Fixed(m))
	if w := ask(s, "POST", "/predict", typeJSON, []byte(`{"top": 1, "rows": []}`)); w.Code != http.StatusBadRequest ||
		!strings.Contains(reason(t, w), "the model predicts numbers") {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}

// checkNumbers checks numbers of about 1.7 billion to a thousandth; others must match in not being finite.
func checkNumbers(t *testing.T, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d numbers, expected %d", len(got), len(want))
	}
	for i, v := range got {
		if v-v != want[i]-want[i] && (v-v == 0 || want[i]-want[i] == 0) || math.Abs(v-want[i]) > 1e-3 {
			t.Fatalf("number %d is %v, expected %v", i, v, want[i])
		}
	}
}

// arrowNumbers returns the predicted targets of an answer in Arrow.
func arrowNumbers(t *testing.T, content io.Reader) (numbers []float64) {
	t.Helper()
	r := must(ipc.NewReader(content))(t)
	defer r.Release()
	for r.Next() {
		numbers = append(numbers, r.Record().Column(0).(*array.FixedSizeList).ListValues().(*array.Float64).Float64Values()...)
	}
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
	return numbers
}
