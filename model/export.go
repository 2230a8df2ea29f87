package model

import (
	"bufio"
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

// Names of formats.
const (
	exportArrow       = "arrow"
	exportSafetensors = "safetensors"
	exportONNX        = "onnx"
)

// Keys of the metadata of the model in a file of another format, as JSON.
const (
	exportedManifest = "manifest" // whose plan has the kinds of features, the links and the seed
	exportedLabels   = "labels"   // in the order of the probabilities
	exportedColumns  = "columns"  // of the features; null if unknown
)

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
		{exportSafetensors, "named tensors, which many libraries read; predictions need the formulas", writeSafetensors},
		{exportONNX, "a computation from features to labels, probabilities or numbers for onnxruntime and others", writeONNX},
	}
}

// ExportNames returns the names of all formats, in the order of the documentation.
func ExportNames() (names []string) {
	for _, f := range Exports() {
		names = append(names, f.Name)
	}
	return names
}

// ExportOfFile returns the name of the format that is the extension of a file, as in model.onnx; that of model files if there is none.
func ExportOfFile(file string) string {
	if format, ok := ExportNamed(strings.TrimPrefix(filepath.Ext(file), ".")); ok {
		return format.Name
	}
	return ExportNames()[0]
}

// ExportNamed returns the format with that name, and whether it exists.
func ExportNamed(name string) (Export, bool) {
	all := Exports()
	i := slices.IndexFunc(all, func(f Export) bool { return f.Name == name })
	if i < 0 {
		return Export{}, false
	}
	return all[i], true
}

// metadata returns the metadata of the model for a file of another format.
func (m *Model) metadata() (map[string]string, error) {
	texts := map[string]string{}
	for key, value := range map[string]any{exportedManifest: m.Manifest, exportedLabels: m.LabelType().Values(m.Labels()),
		exportedColumns: m.Columns()} {
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
