package score

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/stages"
	"github.com/stagewise/stagewise/stages/prepare"
)

// A model of sparse rows predicts sparse examples as it predicts the same rows with their zeros. A model of dense rows refuses them.
func TestSparseExamples(t *testing.T) {
	plan := &schemas.Plan{Name: "p", Segment: 16, Missing: layout.MissingError, Prepare: schemas.Prepare{Scale: prepare.ScaleUnit,
		Values: prepare.ValuesLog}, Intercept: true,
		Stages: []schemas.Stage{{Features: stages.DefaultsOf(stages.Columns), Link: link.Softmax}}}
	manifest := &schemas.Manifest{Name: "p", Version: 1, Run: "run1", Plan: plan, Labels: []string{"a", "b"},
		Blocks: []schemas.BlockDigest{{}}}
	m := arrowtest.Must(model.New(manifest, wire.Tensors[float32]{
		wire.Vector(statistics.TensorFactors, []float32{1, 0, 2, 0.5}), wire.Words[float32](statistics.TensorLabels, manifest.Labels),
	}, [][]*schemas.Weights{{{
		Identity: wire.Identity{Kind: schemas.KindWeights, Run: "run"},
		Tensors:  wire.Tensors[float32]{wire.Matrix(statistics.TensorW, 4, 2, []float32{1, 2, -3, 1, 0.5, 0, 0.1, -0.1})},
	}}}))(t)
	rows := &examples.Rows{Rows: 3, Sparse: &examples.SparseRows{Ends: []int{3, 3, 4}, Indices: []int32{0, 1, 3, 9},
		Values: []float32{2, 7, -1, 5}}}
	record := rows.Record(memory.DefaultAllocator)
	value, err := examples.Encode(record, memory.DefaultAllocator)
	record.Release()
	arrowtest.NoError(t, err)
	examples := arrowtest.Must(examples.Decode(value, memory.DefaultAllocator))(t)
	defer examples.Release()
	if err := check(newModel(t, 1, 2), examples); !errors.Is(err, wire.ErrDamaged) {
		t.Errorf("a model of dense rows: %v, expected ErrDamaged", err)
	}
	arrowtest.NoError(t, check(m, examples))
	predictor := m.Predictor(kernel.Gonum())
	got, _ := predictor.PredictRows(rowsOf(examples, new([]float32)))
	first := slices.Clone(got)
	for i, row := range [][]float32{{2, 7, 0, -1}, {0, 0, 0, 0}, {0, 0, 0, 0}} {
		x, y := math.Log(3), -math.Log(2)/2
		if i > 0 {
			x, y = 0, 0
		} else {
			length := math.Hypot(x, y)
			x, y = x/length, y/length
		}
		want := 1 / (1 + math.Exp((2*x+0*y-0.1)-(x+0.5*y+0.1))) // of a: weights of the columns 0 and 3, and of the intercept
		_, dense := predictor.Predict(row)
		if math.Abs(float64(first[2*i])-want) > 1e-6 || dense[0] != first[2*i] {
			t.Errorf("row %d: %v, as a dense row %v, expected %v", i, first[2*i], dense[0], want)
		}
	}
}
