package model

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/internal/oracle"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/stages"
)

// checkContributions checks that base and contributions are the scores of rows, which the link turns into the probabilities of the model,
// and that fewer contributions are the largest of all. It returns the contributions of each row.
func checkContributions(t *testing.T, what string, m *Model, raw kernel.Dense) (all [][]Contributions) {
	t.Helper()
	p, rows := m.Predictor(kernel.Gonum()), &examples.Rows{Rows: raw.Rows, Cols: raw.Cols, Floats: raw.Data}
	probabilities := kernel.NewDense(raw.Rows, len(m.Labels()))
	m.Probabilities(probabilities.Data, rows)
	arrowtest.NoError(t, p.Contributions(rows, math.MaxInt, func(row int, scores []Contributions) {
		predicted := kernel.NewDense(1, len(scores))
		var copies []Contributions
		for out, s := range scores {
			sum := s.Base
			for i, c := range s.Columns {
				if sum += c.Value; i > 0 && math.Abs(c.Value) > math.Abs(s.Columns[i-1].Value) {
					t.Errorf("%s: the contributions %v are not sorted", what, s.Columns)
				}
			}
			if math.Abs(sum-s.Score) > 1e-5*(1+math.Abs(s.Score)) {
				t.Errorf("%s, row %d: base and contributions are %g, the score of %s is %g", what, row, sum, s.Label, s.Score)
			}
			predicted.Data[out] = float32(s.Score)
			s.Columns = slices.Clone(s.Columns)
			copies = append(copies, s)
		}
		last := m.stages[len(m.stages)-1].Link
		last.Predict(predicted)
		last.Probabilities(predicted, new(link.Scratch))
		for out, v := range predicted.Data {
			if want := probabilities.Row(row)[out]; math.Abs(float64(v-want)) > 1e-5 {
				t.Errorf("%s, row %d: the scores are of the probability %g, want %g", what, row, v, want)
			}
		}
		all = append(all, copies)
	}))
	arrowtest.NoError(t, p.Contributions(rows, 1, func(row int, scores []Contributions) {
		for out, s := range scores {
			if want := all[row][out].Columns[:1]; !slices.Equal(s.Columns, want) {
				t.Errorf("%s, row %d: the largest contribution is %v, want %v", what, row, s.Columns, want)
			}
		}
	}))
	return all
}

// Contributions of trees, and of trees after other features, add up to the scores, or an error says why there are none.
func TestContributionsOfTrees(t *testing.T) {
	explained := 0
	everyGrown(t, func(what string, _ *parts, m *Model) {
		if err := m.CheckContributions(); err != nil {
			if !strings.Contains(err.Error(), "contributions need") {
				t.Errorf("%s: %v", what, err)
			}
			return
		}
		explained++
		checkContributions(t, what, m, tableRows(2*contributedRows+1).Slice(contributedRows-5, contributedRows+3))
	})
	if explained == 0 {
		t.Error("no model has contributions")
	}
}

// Trees of versions without covers have no contributions.
func TestNoContributionsWithoutCovers(t *testing.T) {
	table := mixed()
	p := syntheticStages(t, &schemas.Plan{Prepare: schemas.Prepare{Scale: stages.ScaleNone}}, table.Width(), 1, table, []schemas.Stage{{Features: treesOf(5, 7), Link: schemas.Link(link.Softmax)}})
	structure := &p.weights[0][0].Tensors
	*structure = (*structure)[:len(*structure)-1]
	m := arrowtest.Must(p.model())(t)
	if err := m.CheckContributions(); err == nil || !strings.Contains(err.Error(), "covers") {
		t.Errorf("error %v", err)
	}
	if m.Digest() != p.manifest.WeightsDigest {
		t.Error("the digest of the weights depends on covers")
	}
}

// Contributions of other features add up to the scores of several stages, with and without components; those of the columns themselves
// are weights times distances from the mean.
func TestContributionsOfSlopes(t *testing.T) {
	for _, kind := range []string{stages.RFF, stages.SORF, stages.Logits, stages.Polynomial, stages.Columns} {
		for _, components := range []int{0, 3} {
			f := stages.DefaultsOf(kind)
			if f.Size = 40; kind == stages.Columns {
				f.Size = 0
			}
			list := slices.Repeat([]schemas.Stage{{Features: f, Link: schemas.Link(link.Softmax)}}, 2)
			list[1].Temperature = 2
			plan := &schemas.Plan{Prepare: schemas.Prepare{Scale: stages.ScaleStandard, PCA: components}, Intercept: true}
			m := arrowtest.Must(syntheticStages(t, plan, 5, 1, oracle.Table{}, list).model())(t)
			raw := kernel.NewDense(4, 5)
			for i := range raw.Data {
				raw.Data[i] = float32(i%7)/7 - 0.4
			}
			raw.Data[2] = float32(math.NaN())
			all := checkContributions(t, fmt.Sprintf("%s of %d components", kind, components), m, raw)
			if kind != stages.Columns || components > 0 {
				continue
			}
			for i, row := range all {
				for _, c := range row[1].Columns {
					j := int(c.Column[0] - '0')
					want := 0.0
					if x := raw.Row(i)[j]; x == x {
						w := float64(m.Weights(0)[j*3+1]) + float64(m.Weights(1)[j*3+1])
						want = w * float64(x-m.prepared.Center[j]) * float64(m.prepared.Scale[j]) / 2
					}
					if math.Abs(c.Value-want) > 1e-5 {
						t.Errorf("row %d, column %d: %g, want %g", i, j, c.Value, want)
					}
				}
			}
		}
	}
}

// Contributions of sparse rows, of two stages with an intercept, add up to the scores, and name the features by their numbers.
func TestContributionsOfSparseRows(t *testing.T) {
	factors := statistics.Factors{Width: 9, Columns: []int32{1, 4, 7}, Values: []float32{1, 2, 0.5}}
	labels := []string{"a", "b"}
	f := stages.DefaultsOf(stages.Columns)
	plan := &schemas.Plan{Name: "sparse", Prepare: schemas.Prepare{Scale: stages.ScaleNone}, Intercept: true,
		Stages: slices.Repeat([]schemas.Stage{{Features: f, Link: link.Softmax}}, 2)}
	p := &parts{manifest: &schemas.Manifest{Name: plan.Name, Version: 1, Run: "run", Plan: plan, Labels: labels},
		preparation: append(factors.Tensors(false), wire.Words[float32](statistics.TensorLabels, labels))}
	for i, data := range [][]float32{{1, -1, 2, 0.5, -3, 0.25, 0.75, -0.5}, {0.5, 1, -1, 2, 0.25, 0.5}} {
		p.weights = append(p.weights, []*schemas.Weights{{Identity: wire.Identity{Kind: schemas.KindWeights, Run: "run", Stage: i},
			Tensors: wire.Tensors[float32]{wire.Matrix(statistics.TensorW, len(data)/2, 2, data)}}})
		p.manifest.Blocks = append(p.manifest.Blocks, schemas.BlockDigest{Stage: i, Passes: 1})
	}
	m := arrowtest.Must(p.model())(t)
	raw := kernel.NewDense(3, m.Width())
	raw.Row(0)[4], raw.Row(0)[2], raw.Row(1)[1], raw.Row(1)[7] = 3, 5, 1, -2 // column 2 has no factor
	all := checkContributions(t, "sparse rows", m, raw.Slice(0, 2))
	if got, want := all[0][1].Columns, []Contribution{{"4", 3 * 2 * (0.5 + 2)}}; !slices.Equal(got, want) {
		t.Errorf("contributions are %v, want %v", got, want)
	}
}
