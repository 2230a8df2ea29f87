package model

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/stages"
	"github.com/stagewise/stagewise/stages/prepare"
)

// sparseRecipe is what a model of sparse rows is made of: how their values change, their scale, how many of the columns are numbers, and
// the kinds of its stages.
type sparseRecipe struct {
	values, scale string
	numbers       int
	kinds         []string
}

func (r sparseRecipe) String() string {
	return fmt.Sprintf("sparse, values %s, scale %s, %d numbers, %s", r.values, r.scale, r.numbers, strings.Join(r.kinds, " and "))
}

func sparseRecipes() (all []sparseRecipe) {
	for _, values := range []string{prepare.ValuesNone, prepare.ValuesLog, prepare.ValuesSqrt, prepare.ValuesBinary} {
		for _, scale := range []string{prepare.ScaleNone, prepare.ScaleUnit} {
			for _, numbers := range []int{0, 3} {
				all = append(all, sparseRecipe{values, scale, numbers, []string{stages.Columns, stages.ClassCounts}})
			}
		}
	}
	return all
}

// model returns the model of a recipe, of random weights.
func (r sparseRecipe) model(t testing.TB) *Model {
	t.Helper()
	random := rand.New(rand.NewPCG(7, 8))
	draw := normals(random)
	factors, kept := make([]float32, width), r.numbers
	for j := r.numbers; j < width; j++ {
		if j%5 != 4 {
			factors[j] = 0.5 + random.Float32()
			kept++
		}
	}
	preparation := wire.Tensors[float32]{wire.Vector(statistics.TensorFactors, factors), wire.Words[float32](statistics.TensorLabels, labels)}
	if r.numbers > 0 {
		preparation = append(preparation, wire.Vector(statistics.TensorCenter, draw(r.numbers, 1)), wire.Vector(statistics.TensorScale,
			[]float32{1, 0, 2}))
	}
	plan := &schemas.Plan{Name: "words", Segment: 16, Prepare: schemas.Prepare{Scale: r.scale, Values: r.values}, Intercept: true, Missing: "mean"}
	manifest := &schemas.Manifest{Name: "words", Version: 7, Run: "run", Plan: plan, Labels: labels, LabelType: examples.TypeOf(labels)}
	for j := range r.numbers {
		manifest.Columns = append(manifest.Columns, examples.Column{Name: fmt.Sprint("x", j)})
	}
	var weights [][]*schemas.Weights
	for i, kind := range r.kinds {
		plan.Stages = append(plan.Stages, schemas.Stage{Features: stages.DefaultsOf(kind), Link: link.Softmax})
		p := kept
		if i == 0 {
			p++ // the intercept
		}
		weights = append(weights, []*schemas.Weights{{Identity: wire.Identity{Kind: schemas.KindWeights, Run: "run", Stage: i},
			Tensors: wire.Tensors[float32]{wire.Matrix(statistics.TensorW, p, len(labels), draw(p*len(labels), 0.3))}}})
		manifest.Blocks = append(manifest.Blocks, schemas.BlockDigest{Stage: i, Passes: 1})
	}
	m := arrowtest.Must(New(manifest, preparation, weights))(t)
	manifest.WeightsDigest = m.Digest()
	return m
}

// A model of sparse rows has a graph with two inputs, of any length.
func TestSparseGraph(t *testing.T) {
	for _, r := range sparseRecipes() {
		text := write(t, "onnx", r.model(t))
		for _, name := range []string{"indices", "values", "length", "probabilities"} {
			if !strings.Contains(text, name) {
				t.Errorf("%v: the graph has no %s", r, name)
			}
		}
	}
}
