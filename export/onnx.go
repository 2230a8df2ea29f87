package export

import (
	"io"

	"github.com/stagewise/stagewise/internal/onnx"
	"github.com/stagewise/stagewise/model"
)

// ONNX is the format of computations that many runtimes run (https://onnx.ai). The graph has an input features [rows, d], float32, where
// a missing value is NaN, or for sparse rows the inputs indices, int64, and values, float32, both [rows, length]. It has the outputs of
// [model.Model.Add]. What a seed draws is in the file.
const ONNX = "onnx"

func onnxFormat() Format {
	return Format{Name: ONNX, Doc: "a computation from features to labels, probabilities or numbers for onnxruntime and others",
		Write: writeONNX}
}

func writeONNX(w io.Writer, m *model.Model) error {
	about, err := metadata(m)
	if err != nil {
		return err
	}
	g := onnx.New(m.Manifest.Name, about)
	if m.Sparse() {
		indices, values := g.Inputs("indices", "values")
		m.AddSparse(g, indices, values)
	} else {
		m.Add(g, g.Input("features", m.Width()))
	}
	_, err = g.WriteTo(w)
	return err
}
