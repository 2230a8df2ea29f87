package export

import (
	"io"

	"github.com/stagewise/stagewise/internal/onnx"
	"github.com/stagewise/stagewise/model"
)

// ONNX is the format of computations that many runtimes run (https://onnx.ai). The graph has an input features [rows, d], float32, where
// a missing value is NaN, and the outputs of [model.Model.Add]. What a seed draws is in the file.
const ONNX = "onnx"

func onnxFormat() Format {
	return Format{Name: ONNX, Doc: "a computation from features to labels, probabilities or numbers for onnxruntime and others",
		Write: writeONNX}
}

// SparseError says that a model of sparse rows can't be written in a format.
type SparseError struct{ Format string }

// Error says what can be exported.
func (e SparseError) Error() string {
	return "format " + e.Format + ": the model was trained on sparse rows, and this format has an input for each feature: " +
		"the format arrow has all models, which predict, serve, the Go client and the Python package read; safetensors has the " +
		"weights and factors, and FORMAT.md the formulas"
}

func writeONNX(w io.Writer, m *model.Model) error {
	if m.Sparse() {
		return SparseError{ONNX}
	}
	about, err := metadata(m)
	if err != nil {
		return err
	}
	g := onnx.New(m.Manifest.Name, about)
	m.Add(g, g.Input("features", m.Width()))
	_, err = g.WriteTo(w)
	return err
}
