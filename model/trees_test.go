package model

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/internal/oracle"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/sink"
	"github.com/stagewise/stagewise/stages"
)

// mixed is a table of numbers and words, some of which have no code.
func mixed() oracle.Table { return oracle.NewTable(rand.New(rand.NewPCG(7, 7)), 1, 4, 1, 300, 1) }

// treesOf returns features of so many trees.
func treesOf(leaves, trees int) schemas.Features {
	f := stages.DefaultsOf(stages.Trees)
	f.Size, f.Leaves = leaves*trees, leaves
	return f
}

// grownStages are stages of which some have trees, with every link: trees alone, and trees before and after features of another kind.
func grownStages() (all [][]schemas.Stage) {
	links := link.Names()
	drawn := stages.Defaults()
	drawn.Size = 5
	temper := func(l schemas.Link) float64 {
		if !link.Named(l).HasTemperature() {
			return 0
		}
		return 1.7
	}
	for i := range links {
		next := func(n int) schemas.Link { return schemas.Link(links[(i+n)%len(links)]) }
		all = append(all,
			[]schemas.Stage{{Features: treesOf(2, 1), Link: next(0)}}, // whose only tree is a leaf
			[]schemas.Stage{{Features: treesOf(5, 7), Link: next(0)}, {Features: treesOf(33, 4), Link: next(1)},
				{Features: treesOf(64, 3), Link: next(2), Temperature: temper(next(2))}},
			[]schemas.Stage{{Features: drawn, Link: next(0)}, {Features: treesOf(32, 4), Link: next(1)},
				{Features: drawn, Link: next(2), Scores: true, Temperature: temper(next(2))}},
			[]schemas.Stage{{Features: treesOf(5, 7), Link: next(0)}, {Features: drawn, Link: next(1), Scores: true},
				{Features: treesOf(5, 7), Link: next(1)}},
		)
	}
	return all
}

// everyGrown calls do for models with trees: with and without an intercept, of one member and of two.
func everyGrown(t *testing.T, do func(what string, p *parts, m *Model)) {
	t.Helper()
	table := mixed()
	for _, list := range grownStages() {
		for _, intercept := range []bool{false, true} {
			for _, members := range []int{1, 2} {
				plan := &schemas.Plan{Prepare: schemas.Prepare{Scale: stages.ScaleUnit, PCA: 2}, Intercept: intercept}
				p := syntheticStages(t, plan, table.Width(), members, table, slices.Clone(list))
				m := assert.Must(p.model())(t)
				what := fmt.Sprintf("%d members, intercept %v", members, intercept)
				for _, s := range list {
					what += fmt.Sprintf(", %s of %s", s.Link, stages.Describe(s.Features))
				}
				do(what, p, m)
			}
		}
	}
}

// tableRows returns n rows of the table: numbers and words, of which some are not known or missing.
func tableRows(n int) kernel.Dense { return mixed().Rows(rand.New(rand.NewPCG(8, uint64(n))), n) }

// byDescent returns what a model predicts of rows by blocks that are made node by node.
func byDescent(m *Model, raw kernel.Dense) kernel.Dense {
	blas, plan, k := kernel.Gonum(), m.Manifest.Plan, len(m.Labels())
	var codes [][]uint8
	for i := range raw.Rows {
		codes = append(codes, mixed().Codes(raw.Row(i)))
	}
	inputs := kernel.NewDense(raw.Rows, m.prepared.Inputs())
	m.prepared.Apply(blas, inputs, kernel.Dense{Rows: raw.Rows, Cols: raw.Cols, Data: slices.Clone(raw.Data)})
	score, votes := kernel.NewDense(raw.Rows, k), kernel.NewDense(raw.Rows, k)
	var w Workspace
	for t, s := range m.stages {
		if plan.BeginsMember(t) {
			clear(score.Data)
		} else {
			link.Convert(score, m.stages[t-1].Link, s.Link, &w.Link)
		}
		var block kernel.Dense
		if leaves := s.Features.Leaves(); leaves > 0 {
			block = kernel.NewDense(raw.Rows, s.Features.Size())
			for i := range raw.Rows {
				for tree := range s.Features.Trees() {
					block.Row(i)[tree*leaves+oracle.Leaf(s.Features.Forest(), tree, codes[i])] = 1
				}
				if plan.Intercept && plan.BeginsMember(t) {
					block.Row(i)[block.Cols-1] = 1
				}
			}
		} else {
			s.Expand(blas, &w, &block, inputs, score)
		}
		after := kernel.NewDense(raw.Rows, k)
		if plan.EndsMember(t) {
			s.fitted.Shown(blas, &w.Sink, after, score, block)
			if temperature := plan.Stages[t].Temperature; temperature > 0 {
				for i := range after.Data {
					after.Data[i] /= float32(temperature)
				}
			}
			s.Link.Predict(after)
			s.Link.Probabilities(after, &w.Link)
			sink.Vote(votes, after)
		} else {
			s.fitted.Scores(blas, after, score, block)
		}
		score = after
	}
	sink.Average(votes, votes, plan.Members())
	return votes
}

// A model with trees predicts what a descent from node to node says, of any number of rows.
func TestTreesPredictByDescent(t *testing.T) {
	everyGrown(t, func(what string, _ *parts, m *Model) {
		predictor := m.Predictor(kernel.Gonum())
		for _, n := range []int{65, 1, 64, 0, 130} { // memory of the calls before is used again
			want, got := byDescent(m, tableRows(n)), predictor.Probabilities(rowsOf(tableRows(n)))
			assert.Need(t, len(got) == n*want.Cols, "%s: %d probabilities of %d rows", what, len(got), n)
			for i, v := range got {
				assert.Need(t, math.Abs(float64(v-want.Data[i])) <= 1e-5,
					"%s: row %d of %d has %v, by descent %v", what, i/want.Cols, n, v, want.Row(i/want.Cols))
			}
		}
	})
}

// A model whose trees, or bins, are missing or impossible is an error that says so.
func TestTreesThatCantBe(t *testing.T) {
	table := mixed()
	structure := func(p *parts, name string) []float32 {
		tensor, ok := p.weights[1][0].Tensors.Find(name)
		assert.Need(t, ok, "no tensor %s", name)
		return tensor.Data
	}
	tests := map[string]struct {
		change func(*parts)
		says   string
	}{
		"no trees": {func(p *parts) { p.weights[1] = p.weights[1][1:] }, "stage 1: tensor"},
		"no bins": {func(p *parts) {
			p.preparation = slices.DeleteFunc(p.preparation, func(t wire.Tensor[float32]) bool { return t.Name == statistics.TensorBins })
		}, "bins"},
		"other leaves": {func(p *parts) { p.manifest.Plan.Stages[1].Features.Leaves = 7 }, "tree_sizes"},
		"other trees":  {func(p *parts) { p.manifest.Plan.Stages[1].Features.Size = 30 }, "tree_sizes"},
		"one leaf":     {func(p *parts) { p.manifest.Plan.Stages[1].Features.Leaves = 1 }, "leaves"},
		"many leaves":  {func(p *parts) { p.manifest.Plan.Stages[1].Features.Leaves = 65 }, "leaves"},
		"scores":       {func(p *parts) { p.manifest.Plan.Stages[1].Scores = true }, "scores"},
	}
	for _, name := range statistics.StructureTensors() {
		for _, v := range []float32{-1, 0.5, 1e9, float32(math.NaN()), float32(math.Inf(1))} {
			if name == statistics.TensorTreeCovers && v > 0 && v <= math.MaxFloat32 {
				continue
			}
			tests[fmt.Sprint(name, " ", v)] = struct {
				change func(*parts)
				says   string
			}{func(p *parts) { structure(p, name)[1] = v }, strings.TrimPrefix(name, "tree_")}
		}
	}
	for name, test := range tests {
		for _, l := range []schemas.Link{link.Softmax, link.Calibrated} {
			plan := &schemas.Plan{Prepare: schemas.Prepare{Scale: stages.ScaleNone}}
			p := syntheticStages(t, plan, table.Width(), 1, table, []schemas.Stage{{Features: treesOf(5, 7), Link: link.Softmax},
				{Features: treesOf(5, 7), Link: l}})
			test.change(p)
			m, err := p.model()
			assert.True(t, errors.Is(err, wire.ErrDamaged) || errors.As(err, new(*wire.ShapeError)), "%s: a model %v, %v", name, m, err)
			assert.True(t, err == nil || strings.Contains(err.Error(), test.says), "%s: %q does not say %q", name, err, test.says)
		}
	}
}

// Rows that are prepared already are measured as raw ones are, whatever the predictor has predicted before.
func TestTreesMeasurePreparedRows(t *testing.T) {
	everyGrown(t, func(what string, _ *parts, m *Model) {
		const n = 65
		blas, raw := kernel.Gonum(), tableRows(n)
		inputs := Inputs{Prepared: kernel.NewDense(n, m.prepared.Inputs()), Codes: m.prepared.Coder.AppendCodes(nil, raw)}
		m.prepared.Apply(blas, inputs.Prepared, raw)
		truth, loss, predicted := link.Truth{Classes: make([]int32, n)}, make([]float32, n), make([]int32, n)
		predictor := m.Predictor(blas)
		want := slices.Clone(predictor.Measure(rowsOf(tableRows(n)), truth, loss, predicted).Data)
		wantLoss := slices.Clone(loss)
		predictor.Probabilities(rowsOf(tableRows(7)))
		got := predictor.MeasureInputs(inputs, truth, loss, predicted)
		assert.True(t, slices.Equal(got.Data, want) && slices.Equal(loss, wantLoss), "%s: prepared rows are measured otherwise", what)
		codes := slices.Clone(inputs.Codes)
		predictor.Probabilities(rowsOf(tableRows(7)))
		assert.True(t, slices.Equal(inputs.Codes, codes), "%s: the codes of prepared rows are others after a prediction of raw rows", what)
	})
}
