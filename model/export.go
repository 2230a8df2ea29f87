package model

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/internal/onnx"
)

// Names of a format, and of the columns of the features in the metadata of another format.
const exportArrow, exportedColumns = "arrow", "columns"

// Export is a format of files that have a whole model.
type Export struct {
	// Name is the format's name on the command line.
	Name string
	// Doc briefly describes the readers of such files.
	Doc string
	// Write writes a model. It wraps errors of w. Other errors name a part of the model that the format can't represent.
	Write func(w io.Writer, m *Model) error
}

// Exports returns the formats, in the order of the documentation. The first is that of model files.
func Exports() []Export {
	return []Export{
		{exportArrow, "a model file for predict, serve and the Python package", func(w io.Writer, m *Model) error {
			_, err := m.WriteTo(w)
			return err
		}},
		{"safetensors", "named tensors, which many libraries read; predictions need the formulas", writeSafetensors},
		{"onnx", "a computation from features to labels, probabilities or numbers for onnxruntime and others", writeONNX},
	}
}

// ExportTo returns the format with a name, or without one that of the extension of a file, as in model.onnx; that of model files if there
// is none.
func ExportTo(file, name string) Export {
	all, name := Exports(), cmp.Or(name, strings.TrimPrefix(filepath.Ext(file), "."))
	return all[max(0, slices.IndexFunc(all, func(f Export) bool { return f.Name == name }))]
}

// metadata returns the metadata of the model for a file of another format, as JSON: the plan of the manifest has the kinds of features, the
// links and the seed. Labels are in the order of the probabilities. Columns are those of the features; null if unknown.
func (m *Model) metadata() (map[string]string, error) {
	texts := map[string]string{}
	for key, value := range map[string]any{"manifest": m.Manifest, "labels": m.LabelType().Values(m.Labels()), exportedColumns: m.Columns()} {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", key, err)
		}
		texts[key] = string(text)
	}
	return texts, nil
}

// writeONNX writes a computation that many runtimes run (https://onnx.ai). The graph has an input features [rows, d], float32, where a
// missing value is NaN, or for sparse rows the inputs indices, int64, and values, float32, both [rows, length]. It has the outputs of
// [Model.add]. The file includes all random draws.
func writeONNX(w io.Writer, m *Model) error {
	about, err := m.metadata()
	if err != nil {
		return err
	}
	g := onnx.New(m.Manifest.Name, about)
	if m.Sparse() {
		indices, values := g.Inputs("indices", "values")
		m.addSparse(g, indices, values)
	} else {
		m.add(g, g.Input("features", m.Width()))
	}
	return g.Write(w)
}

// safetensor describes a tensor in the header.
type safetensor struct {
	Type    string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets [2]int `json:"data_offsets"` // of its first byte and of the byte after its last one, from the end of the header
}

// writeSafetensors writes named tensors: 8 bytes with the length of a JSON header, little-endian, the header, and the values
// (https://github.com/huggingface/safetensors#format). The tensors are those of a model file, without the labels, which are in
// the metadata.
func writeSafetensors(w io.Writer, m *Model) error {
	about, err := m.metadata()
	if err != nil {
		return err
	}
	header, end := map[string]any{"__metadata__": about}, 0
	for _, t := range m.Tensors() {
		if t.Text == nil {
			begin := end
			end += 4 * len(t.Data)
			header[t.Name] = safetensor{"F32", t.Shape, [2]int{begin, end}}
		}
	}
	content, err := json.Marshal(header)
	if err != nil {
		return fmt.Errorf("encode header: %w", err)
	}
	for len(content)%8 != 0 { // the values begin at a multiple of 8
		content = append(content, ' ')
	}
	out := bufio.NewWriter(w)
	out.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(content)))) // the writer keeps its first error, which Flush returns
	out.Write(content)
	for _, t := range m.Tensors() {
		for _, v := range t.Data {
			out.Write(binary.LittleEndian.AppendUint32(out.AvailableBuffer(), math.Float32bits(v)))
		}
	}
	return out.Flush()
}
