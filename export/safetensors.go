package export

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"

	"github.com/stagewise/stagewise/model"
)

// Safetensors is the format of files with named tensors: 8 bytes with the length of a JSON header, little-endian, the header, and the
// values (https://github.com/huggingface/safetensors#format). The tensors are those of a model file, without the labels, which are in
// the metadata.
const Safetensors = "safetensors"

func safetensors() Format {
	return Format{Name: Safetensors, Doc: "named tensors, which many libraries read; predictions need the formulas",
		Write: writeSafetensors}
}

// safetensor is what the header says of a tensor.
type safetensor struct {
	Type    string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets [2]int `json:"data_offsets"` // of its first byte and of the byte after its last one, from the end of the header
}

func writeSafetensors(w io.Writer, m *model.Model) error {
	about, err := metadata(m)
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
	var bits [4]byte
	for _, t := range m.Tensors() {
		for _, v := range t.Data {
			binary.LittleEndian.PutUint32(bits[:], math.Float32bits(v))
			out.Write(bits[:])
		}
	}
	return out.Flush()
}
