package export

import (
	"errors"
	"io"

	"github.com/stagewise/stagewise/internal/onnx"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas/examples"
)

// ONNX is the format of computations that many runtimes run (https://onnx.ai). The graph has an input features [rows, d], float32, where
// a missing value is NaN, and the outputs label [rows], texts or int64, and probabilities [rows, k], float32. What a
// seed draws is in the file.
const ONNX = "onnx"

func onnxFormat() Format {
	return Format{Name: ONNX, Doc: "a computation from features to labels and probabilities for onnxruntime and others",
		Write: writeONNX}
}

// SparseError says that a model of sparse rows can't be written in a format.
type SparseError struct{ Format string }

// Error says what can be exported.
func (e SparseError) Error() string {
	return "format " + e.Format + ": the model was trained on sparse rows, and this format has an input for each feature: " +
		"export it as a model file, which predict reads"
}

func writeONNX(w io.Writer, m *model.Model) error {
	if m.Sparse() {
		return SparseError{ONNX}
	}
	if m.Task() != examples.OneLabel {
		return errors.New("format onnx: the model predicts numbers or several labels: expected a model of one label a row; the " +
			"format arrow has all models")
	}
	about, err := metadata(m)
	if err != nil {
		return err
	}
	g := onnx.New(m.Manifest.Name, about)
	label, probabilities := m.Add(g, g.Input("features", m.Width()))
	if m.LabelType() == examples.WholeLabels {
		g.OutputIntegers("label", label)
	} else {
		g.OutputTexts("label", label)
	}
	g.OutputMatrix("probabilities", probabilities, len(m.Labels()))
	_, err = g.WriteTo(w)
	return err
}
