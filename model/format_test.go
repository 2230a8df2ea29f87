package model

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/stages"
)

var update = flag.Bool("update", false, "write testdata/example.arrow and the example of FORMAT.md again")

// exampleModel is the model of the worked example: two stages whose links differ, an intercept, previous predictions as features, a
// missing value and a calibration, and no more.
func exampleModel(t *testing.T) *Model {
	t.Helper()
	rff, columns := stages.DefaultsOf(stages.RFF), stages.DefaultsOf(stages.Columns)
	rff.Size = 3
	labels := []string{"no", "yes"}
	plan := &schemas.Plan{
		Name: "example", Segment: 16, Prepare: schemas.Prepare{Scale: stages.ScaleStandard}, Intercept: true, Seed: 1,
		Stages: []schemas.Stage{{Features: rff, Link: link.Softmax}, {Features: columns, Link: link.Calibrated, Scores: true}},
	}
	weights := func(stage int, tensors ...wire.Tensor[float32]) []*schemas.Weights {
		return []*schemas.Weights{{Identity: wire.Identity{Kind: schemas.KindWeights, Run: "run", Stage: stage}, Tensors: tensors}}
	}
	manifest := &schemas.Manifest{Name: plan.Name, Version: 1, Run: "run", Plan: plan, Labels: labels,
		Blocks: []schemas.BlockDigest{{}, {Stage: 1, Passes: 1}}}
	m := assert.Must(New(manifest, wire.Tensors[float32]{
		wire.Vector(statistics.TensorCenter, []float32{1, 2}), wire.Vector(statistics.TensorScale, []float32{0.5, 1}),
		wire.Vector(statistics.TensorSpread, []float32{4}), wire.Words[float32](statistics.TensorLabels, labels),
	}, [][]*schemas.Weights{
		weights(0, wire.Matrix(statistics.TensorW, 4, 2, []float32{1, -1, 0.5, 0.25, -2, 2, 0.125, 0})),
		weights(1, wire.Matrix(statistics.TensorW, 4, 2, []float32{0.25, -0.25, 0.125, 0, 0.5, -0.5, 0, 0.25}),
			wire.Matrix(statistics.TensorCalibration, 6, 2, []float32{0.5, 0.125, 0.125, 0.5, 0.25, 0, 0, 0.25, 0.125, 0, 0, 0.125})),
	}))(t)
	manifest.WeightsDigest = m.Digest()
	return m
}

// numbers prints the values of a matrix or a vector so that float32 can be read again exactly.
func numbers[T float32 | float64](values []T) string {
	var b strings.Builder
	for i, v := range values {
		if i > 0 {
			b.WriteString(", ")
		}
		if math.IsNaN(float64(v)) {
			b.WriteString("missing")
		} else {
			fmt.Fprintf(&b, "%v", v)
		}
	}
	return b.String()
}

// workedExample returns what FORMAT.md shows of a model: its tensors, its draws, and how two rows become probabilities.
func workedExample(t *testing.T, m *Model) string {
	var b strings.Builder
	line := func(format string, values ...any) {
		b.WriteString(strings.TrimRight("    "+fmt.Sprintf(format, values...), " ") + "\n")
	}
	plan := m.Manifest.Plan
	line("plan: seed %d, intercept %v, scale %s, pca %d", plan.Seed, plan.Intercept, plan.Prepare.Scale, plan.Prepare.PCA)
	for s, stage := range plan.Stages {
		line("stage %d: %s of size %d, bandwidth_scale %v, scores %v, link %s", s, stage.Features.Kind, stage.Features.Size,
			stage.Features.BandwidthScale, stage.Scores, stage.Link)
	}
	line("links of blocks[1]: %d", m.Manifest.Blocks[1].Passes)
	for _, tensor := range m.Tensors() {
		if tensor.Text != nil {
			line("%-15s %s", tensor.Name, strings.Join(tensor.Text, ", "))
		} else {
			line("%-15s %v: %s", tensor.Name, tensor.Shape, numbers(tensor.Data))
		}
	}
	line("weights_digest  %s", m.Manifest.WeightsDigest)
	line("")
	const purposeDirections, purposeOffsets = 1, 2
	directions, offsets := stages.NewStream(plan.Seed, 0, purposeDirections), stages.NewStream(plan.Seed, 0, purposeOffsets)
	line("key of stage 0, purpose 1: %#016x; word(0) %#016x, uniform(0) %v", wire.Hash(plan.Seed, 0, purposeDirections),
		directions.Word(0), directions.Uniform(0))
	var normals, uniforms []float64
	for i := range uint64(6) {
		normals = append(normals, directions.Normal(i))
	}
	for i := range uint64(3) {
		uniforms = append(uniforms, offsets.Uniform(i))
	}
	line("normal(0 … 5), purpose 1: %s", numbers(normals))
	line("uniform(0 … 2), purpose 2: %s", numbers(uniforms))

	raw := kernel.Dense{Rows: 2, Cols: 2, Data: []float32{3, 1, 0, float32(math.NaN())}}
	blas := kernel.Gonum()
	want := slices.Clone(m.Predictor(blas).Probabilities(rowsOf(raw)))
	inputs, score := kernel.NewDense(2, 2), kernel.NewDense(2, 2)
	show := func(what string, x kernel.Dense) {
		rows := make([]string, x.Rows)
		for i := range rows {
			rows[i] = numbers(x.Row(i))
		}
		line("%-33s %s", what, strings.Join(rows, "; "))
	}
	line("")
	line("%-33s first row; second row", "")
	show("raw", raw)
	m.prepared.Apply(blas, inputs, raw)
	show("inputs", inputs)
	var workspace Workspace
	for s, stage := range m.stages {
		if s > 0 {
			link.Convert(score, m.stages[s-1].Link, stage.Link, &workspace.Link)
			show(fmt.Sprintf("score, in the unit of stage %d", s), score)
		}
		var block kernel.Dense
		stage.Expand(blas, &workspace, &block, inputs, score)
		show(fmt.Sprintf("block of stage %d", s), block)
		after := kernel.NewDense(2, 2)
		if s < len(m.stages)-1 {
			stage.fitted.Scores(blas, after, score, block)
			score = after
			show(fmt.Sprintf("score after stage %d", s), score)
			continue
		}
		copy(after.Data, score.Data)
		blas.MulAdd(after, block, stage.fitted.Passes[0].W)
		show("ỹ of pass 0", after)
		stage.fitted.Shown(blas, &workspace.Sink, after, score, block)
		show("ŷ after pass 0: Π(G(ỹ) C)", after)
		stage.Link.Predict(after)
		stage.Link.Probabilities(after, &workspace.Link)
		show("probabilities", after)
		assert.True(t, slices.Equal(after.Data, want), "the example has the probabilities %v, the predictor %v", after.Data, want)
	}
	return b.String()
}

// FORMAT.md shows a model by its numbers, so that a reader in another language can be checked step by step. Numbers of other machines
// may differ in the last bits.
func TestFormatExample(t *testing.T) {
	const path = "../schemas/FORMAT.md"
	if *update {
		assert.NoError(t, os.WriteFile("testdata/example.arrow", file(t, exampleModel(t)), 0o644))
	}
	m := assert.Must(Read(bytes.NewReader(assert.Must(os.ReadFile("testdata/example.arrow"))(t))))(t)
	assert.Equal(t, m.Digest(), exampleModel(t).Digest(), "testdata/example.arrow is not the model of the example: test with -update")
	text := assert.Must(os.ReadFile(path))(t)
	section := regexp.MustCompile(`(?s)(<!-- example:[^>]*-->\n)(.*?)(<!-- end -->)`)
	parts := section.FindSubmatch(text)
	assert.Need(t, parts != nil, "%s has no marks for the example", path)
	shown := "\n" + workedExample(t, m) + "\n"
	if *update {
		assert.NoError(t, os.WriteFile(path, section.ReplaceAll(text, []byte("${1}"+shown+"${3}")), 0o644))
		return
	}
	checkNumbers(t, string(parts[2]), shown)
}

// FORMAT.md says what probabilities each link makes of a score.
func TestFormatHasAllLinks(t *testing.T) {
	_, page, _ := strings.Cut(string(assert.Must(os.ReadFile("../schemas/FORMAT.md"))(t)), "\n## Predictions\n")
	for _, name := range link.Names() {
		assert.True(t, strings.Contains(page, "\n| `"+name+"` | "), "FORMAT.md does not say how %s makes probabilities", name)
	}
}

var number = regexp.MustCompile(`-?[0-9]+\.[0-9]+(e-?[0-9]+)?`)

// checkNumbers compares two texts. Numbers with a decimal point may differ by 1e-6 of their size.
func checkNumbers(t *testing.T, got, want string) {
	t.Helper()
	if a, b := number.ReplaceAllString(got, "#"), number.ReplaceAllString(want, "#"); a != b {
		t.Errorf("FORMAT.md shows\n%s\nexpected\n%s\nTest with -update", got, want)
		return
	}
	shown, right := number.FindAllString(got, -1), number.FindAllString(want, -1)
	for i := range shown {
		var a, b float64
		assert.Must(fmt.Sscan(shown[i]+" "+right[i], &a, &b))(t)
		assert.True(t, math.Abs(a-b) <= 1e-6*max(1, math.Abs(b)), "FORMAT.md shows %s, expected %s. Test with -update", shown[i], right[i])
	}
}
