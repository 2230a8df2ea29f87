//go:build python

package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/examples"
)

// largest is by how much a probability of onnxruntime may differ from that of Go.
const largest = 1e-5

// onnxruntime predicts what Go predicts, for all kinds of features, links, scores and preparations. Python's
// safetensors reads the tensors that were written.
func TestPythonReadsExports(t *testing.T) {
	folder, cases := t.TempDir(), 0
	for i, r := range everyRecipe(t) {
		writeCase(t, filepath.Join(folder, fmt.Sprintf("%03d", i)), r.String(), r.model(t), r.rows(130))
		cases++
	}
	for _, r := range sparseRecipes() {
		writeCase(t, filepath.Join(folder, fmt.Sprintf("%03d", cases)), r.String(), r.model(t), r.rows(130))
		cases++
	}
	interpreter := os.Getenv("STAGEWISE_PYTHON")
	assert.Need(t, interpreter != "", "STAGEWISE_PYTHON is not set: run scripts/python.sh, which prints the value")
	command := exec.CommandContext(t.Context(), interpreter, "testdata/compare.py", folder)
	var problems bytes.Buffer
	command.Stderr = &problems
	out, err := command.Output()
	assert.Need(t, err == nil, "%v\n%s%s", err, out, problems.String())
	compared, worst := 0, 0.0
	for d := json.NewDecoder(bytes.NewReader(out)); ; compared++ {
		var c struct {
			Case       string
			Difference float64
			Problems   []string
		}
		if err := d.Decode(&c); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		worst = max(worst, c.Difference)
		assert.True(t, c.Difference <= largest && len(c.Problems) == 0,
			"%s: a probability differs by %.2g, expected at most %g; %q", c.Case, c.Difference, largest, c.Problems)
	}
	assert.True(t, compared == cases, "%d models were compared, expected %d", compared, cases)
	t.Logf("%d models, probabilities differ by %.2g at most", compared, worst)
}

// writeCase writes the files of a model, and what Go knows of it.
func writeCase(t *testing.T, path, name string, m *Model, x kernel.Dense) {
	t.Helper()
	type tensor struct {
		Shape  []int     `json:"shape"`
		Values []float32 `json:"values"`
	}
	known := struct {
		Case          string            `json:"case"`
		Version       int               `json:"version"`
		Threshold     float64           `json:"threshold"` // 0: none
		Labels        any               `json:"labels"`
		Features      [][]*float32      `json:"features"`      // null: missing
		Probabilities [][]float32       `json:"probabilities"` // of labels
		Least         float64           `json:"least"`         // probability of a label that is given, of several labels; 0: one label
		Numbers       [][]float64       `json:"numbers"`
		Tensors       map[string]tensor `json:"tensors"`
		Sparse        bool              `json:"sparse"`
		Leading       int               `json:"leading"` // of sparse rows: numbers that come first
	}{Case: name, Sparse: m.Sparse(), Leading: m.Columns().Features(), Version: m.Manifest.Version, Threshold: m.Manifest.Threshold, Labels: m.LabelType().Values(m.Labels()), Tensors: map[string]tensor{}}
	for _, v := range m.Tensors() {
		if v.Text == nil {
			known.Tensors[v.Name] = tensor{v.Shape, v.Data}
		}
	}
	for i := range x.Rows {
		row := make([]*float32, x.Cols)
		for j, v := range x.Row(i) {
			if v == v {
				row[j] = &v
			}
		}
		known.Features = append(known.Features, row)
	}
	p := m.Predictor(kernel.Gonum())
	switch m.Task() {
	case examples.Numbers:
		_, all := p.PredictRows(rowsOf(x))
		for numbers := range slices.Chunk(all, len(m.Labels())) {
			known.Numbers = append(known.Numbers, numbers)
		}
	case examples.SeveralLabels:
		known.Least = m.Threshold()
		fallthrough
	default:
		for row := range slices.Chunk(p.Probabilities(rowsOf(x)), len(m.Labels())) {
			known.Probabilities = append(known.Probabilities, row)
		}
	}
	content := assert.Must(json.Marshal(known))(t)
	for extension, text := range map[string]string{".json": string(content), ".onnx": write(t, "onnx", m), ".safetensors": write(t,
		"safetensors", m)} {
		assert.NoError(t, os.WriteFile(path+extension, []byte(text), 0o644))
	}
}

// rows returns rows of which most values are 0, and of the numbers some are missing.
func (r sparseRecipe) rows(n int) kernel.Dense {
	random := rand.New(rand.NewPCG(9, 10))
	x := kernel.NewDense(n, width)
	for i := range n {
		row := x.Row(i)
		for j := range row {
			switch {
			case j < r.numbers && random.IntN(8) == 0:
				row[j] = float32(math.NaN())
			case j < r.numbers && random.IntN(8) > 0, j >= r.numbers && random.IntN(6) == 0:
				row[j] = float32(random.IntN(7)) - 2
			}
		}
	}
	return x
}
