package model

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/stages"
	"github.com/stagewise/stagewise/stages/prepare"
)

// Many goroutines that predict with one model get what one predictor gives, and leave their rows as they were.
func TestPredictFromManyGoroutines(t *testing.T) {
	for _, links := range everyLink {
		m := arrowtest.Must(synthetic(t, "rff", 4, 2, links...).model())(t)
		rows, k := raw(100, 4), len(m.Labels())
		want := make([]float32, 0, rows.Rows*k)
		var labels []string
		p := m.Predictor(nil)
		for i := range rows.Rows {
			label, probabilities := p.Predict(rows.Row(i))
			labels, want = append(labels, label), append(want, probabilities...)
		}
		before := slices.Clone(rows.Data)
		var goroutines errgroup.Group
		for range 8 {
			goroutines.Go(func() error {
				probabilities := make([]float32, k)
				for i := range rows.Rows {
					label := m.Predict(rows.Row(i), probabilities)
					if label != labels[i] || !slices.Equal(probabilities, want[i*k:(i+1)*k]) || m.Predict(rows.Row(i), nil) != label {
						return fmt.Errorf("%v: row %d: %s with %v, a predictor says %s with %v", links, i, label, probabilities, labels[i], want[i*k:(i+1)*k])
					}
				}
				return nil
			})
		}
		if err := goroutines.Wait(); err != nil {
			t.Error(err)
		}
		if !equalBits(rows.Data, before) {
			t.Errorf("%v: the rows have changed", links)
		}
	}
}

func equalBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return x == y || x != x && y != y })
}

func TestPredictAllocatesNothing(t *testing.T) {
	for _, links := range everyLink {
		m := arrowtest.Must(synthetic(t, "rff", 4, 2, links...).model())(t)
		row, probabilities := raw(1, 4).Data, make([]float32, 3)
		m.Predict(row, probabilities)
		if n := testing.AllocsPerRun(100, func() { m.Predict(row, probabilities) }); n > 0 {
			t.Errorf("%v: %v allocations a prediction, expected none", links, n)
		}
	}
}

// The size of the benchmark: 784 features, 50 components, ten blocks of 1024, ten classes.
const benchFeatures, benchComponents, benchSize, benchStages, benchClasses = 784, 50, 1024, 10, 10

// tenBlocks is a model of that size, with random weights.
func tenBlocks(tb testing.TB) *Model {
	random := rand.New(rand.NewPCG(1, 2))
	draw := func(n int) []float32 {
		values := make([]float32, n)
		for i := range values {
			values[i] = float32(random.NormFloat64())
		}
		return values
	}
	plan := &schemas.Plan{Name: "large", Segment: 16, Prepare: schemas.Prepare{Scale: prepare.ScaleNone, PCA: benchComponents}, Seed: 3}
	manifest := &schemas.Manifest{Name: plan.Name, Version: 1, Run: "run", Plan: plan}
	for class := range benchClasses {
		manifest.Labels = append(manifest.Labels, fmt.Sprint(class))
	}
	preparation := wire.Tensors[float32]{
		wire.Vector(statistics.TensorCenter, draw(benchFeatures)), wire.Vector(statistics.TensorScale, draw(benchFeatures)),
		wire.Vector(statistics.TensorSpread, []float32{benchFeatures}), wire.Words[float32](statistics.TensorLabels, manifest.Labels),
		wire.Matrix(statistics.TensorBasis, benchFeatures, benchComponents, draw(benchFeatures*benchComponents)),
	}
	var weights [][]*schemas.Weights
	for i := range benchStages {
		features := stages.DefaultsOf(stages.RFF)
		features.Size = benchSize
		plan.Stages = append(plan.Stages, schemas.Stage{Features: features, Link: link.Softmax})
		weights = append(weights, []*schemas.Weights{{
			Identity: wire.Identity{Kind: schemas.KindWeights, Run: "run", Stage: i},
			Tensors:  wire.Tensors[float32]{wire.Matrix(statistics.TensorW, benchSize, benchClasses, draw(benchSize*benchClasses))},
		}})
	}
	m := arrowtest.Must(New(manifest, preparation, weights))(tb)
	return m
}

// products returns a function that does the matrix products of a prediction of one row, and nothing else.
func products(tb testing.TB) func() {
	blas := arrowtest.Must(kernel.Open(""))(tb)
	row, basis, inputs := raw(1, benchFeatures), drawn(benchFeatures, benchComponents), kernel.NewDense(1, benchComponents)
	block, score := kernel.NewDense(1, benchSize), kernel.NewDense(1, benchClasses)
	directions, weights := make([]kernel.Dense, benchStages), make([]kernel.Weights, benchStages)
	for i := range directions {
		directions[i] = drawn(benchComponents, benchSize)
		weights[i] = kernel.NewWeights(drawn(benchSize, benchClasses))
	}
	return func() {
		blas.Mul(inputs, row, basis, false)
		for i := range directions {
			blas.Mul(block, inputs, directions[i], false)
			blas.MulAdd(score, block, weights[i])
		}
	}
}

// drawn returns a matrix of numbers. The memory of one of zeros may be a single page.
func drawn(rows, cols int) kernel.Dense {
	x := kernel.NewDense(rows, cols)
	for i := range x.Data {
		x.Data[i] = float32(i%7) - 3
	}
	return x
}

// BenchmarkPredict is a prediction of one row. "floors" is its time in units of that of its matrix products.
func BenchmarkPredict(b *testing.B) {
	m, floor := tenBlocks(b), products(b)
	row, probabilities := raw(1, benchFeatures).Data, make([]float32, benchClasses)
	m.Predict(row, probabilities)
	var floors, predictions time.Duration
	b.ReportAllocs()
	for b.Loop() { // in turn, so that both meet the same machine
		began := time.Now()
		floor()
		between := time.Now()
		m.Predict(row, probabilities)
		floors += between.Sub(began)
		predictions += time.Since(between)
	}
	b.ReportMetric(float64(predictions.Nanoseconds())/float64(b.N), "ns/row")
	b.ReportMetric(float64(predictions)/float64(floors), "floors")
}
