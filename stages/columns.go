package stages

import (
	"fmt"

	"github.com/stagewise/stagewise/config/option"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/onnx"
	"github.com/stagewise/stagewise/schemas"
)

// Columns is the kind of features that are inputs themselves: all of them, in their order, or some drawn at random.
const Columns = "columns"

// drawColumns is the purpose of the draws of inputs.
const drawColumns = 3

func columns() kind {
	return kind{
		name:    Columns,
		scaled:  true,
		meaning: "the inputs themselves",
		keys: []key{
			{Key: option.Key{Name: "size", Meaning: "0 (its default) takes all inputs"}},
			{Key: option.Key{Name: "replacement", Meaning: "draw with replacement"}},
		},
		minSize:  0,
		suits:    []Examples{Tables, SparseRows},
		sparse:   true,
		defaults: func(f *schemas.Features) { f.Size = 0 },
		describe: func(f schemas.Features) string {
			text := fmt.Sprintf("%d %s", f.Size, f.Kind)
			if f.Size == 0 {
				text = "all " + f.Kind
			}
			if f.Replacement {
				text += " with replacement"
			}
			return text
		},
		blockSize: func(f schemas.Features, inputs int) (int, error) {
			size := f.Size
			if size == 0 {
				size = inputs
			}
			if !f.Replacement && size > inputs {
				return 0, &SizeError{f.Kind, size, inputs}
			}
			return size, nil
		},
		draw: func(m *Map) drawn {
			chosen := m.choose(m.stream(drawColumns))
			return drawn{
				expand: func(_ *kernel.BLAS, dst kernel.Dense, _ *kernel.Dense, x kernel.Dense) {
					for i := range x.Rows {
						from, to := x.Row(i), dst.Row(i)
						for j, c := range chosen {
							to[j] = from[c]
						}
					}
				},
				node: func(g *onnx.Graph, x onnx.Value) onnx.Value {
					indices := make([]int64, len(chosen))
					for j, c := range chosen {
						indices[j] = int64(c)
					}
					return g.Along(1, "Gather", x, g.Integers(indices...))
				},
			}
		},
	}
}

// SizeError reports that there are too few inputs to take Size of them without replacement.
type SizeError struct {
	Kind         string
	Size, Inputs int
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("features of kind %s: can't take %d of %d inputs without replacement", e.Kind, e.Size, e.Inputs)
}

// choose returns the inputs to take.
func (m *Map) choose(s Stream) []int {
	chosen := make([]int, m.size)
	if m.features.Replacement {
		for j := range chosen {
			chosen[j] = s.Below(uint64(j), m.inputs)
		}
		return chosen
	}
	// The shuffle of Fisher and Yates, stopped after p draws. Where all inputs are taken they stay in order.
	all := make([]int, m.inputs)
	for i := range all {
		all[i] = i
	}
	if m.size < m.inputs {
		for j := range m.size {
			k := j + s.Below(uint64(j), m.inputs-j)
			all[j], all[k] = all[k], all[j]
		}
	}
	copy(chosen, all)
	return chosen
}
