package stages

import (
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/onnx"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Columns is the kind of features that are inputs themselves: all of them, in order, or randomly drawn ones.
const Columns = "columns"

// drawColumns is the purpose of the draws of inputs.
const drawColumns = 3

func columns() Kind {
	return Kind{
		name:    Columns,
		Scaled:  true,
		meaning: "the inputs themselves",
		keys: []option.Key{
			{Name: "size", Meaning: "0 (its default) takes all inputs"},
			{Name: "replacement", Meaning: "draw with replacement. Otherwise all stages, and all members of an average, " +
				"draw each input before any is drawn again"},
		},
		minSize:  0,
		Suits:    []Examples{Tables, SparseRows},
		Sparse:   true,
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
			chosen := m.choose()
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
				slopes: func(_ *kernel.BLAS, dst kernel.Dense, _ []float32, w kernel.Dense) {
					for j, c := range chosen {
						for out, v := range w.Row(j) {
							dst.Row(c)[out] += v
						}
					}
				},
			}
		},
	}
}

// SizeError means that there are too few inputs to draw Size of them without replacement.
type SizeError struct {
	Kind         string
	Size, Inputs int
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("features of kind %s: can't take %d of %d inputs without replacement", e.Kind, e.Size, e.Inputs)
}

// choose returns the chosen inputs. Without replacement, the draws continue those of earlier stages: from a sequence of
// shuffled lists of all inputs, each stage takes the first inputs that it does not have yet. So an input is drawn again
// only after all others, except for inputs that a stage has when a list ends. A stage that takes all inputs has them in
// order.
func (m *Map) choose() (chosen []int) {
	if m.features.Replacement {
		s := m.stream(drawColumns)
		for j := range m.size {
			chosen = append(chosen, s.Below(uint64(j), m.inputs))
		}
		return chosen
	}
	if m.size == m.inputs {
		return ascending(m.inputs)
	}
	var queue []int
	next := m.stage // seed of the next shuffle
	if len(m.before) > 0 {
		next = m.before[0].Stage
	}
	for _, draw := range append(slices.Clone(m.before), schemas.Draw{Size: m.size}) {
		taken, passed := make([]bool, m.inputs), []int(nil)
		chosen = nil
		for at := 0; len(chosen) < min(draw.Size, m.inputs); at++ {
			if at == len(queue) {
				queue = append(queue, shuffled(NewStream(m.seed, next, drawColumns), m.inputs)...)
				next++
			}
			if c := queue[at]; taken[c] {
				passed = append(passed, c)
			} else {
				chosen, taken[c] = append(chosen, c), true
			}
		}
		queue = append(passed, queue[len(chosen)+len(passed):]...)
	}
	return chosen
}

// ascending returns the numbers below n.
func ascending(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// shuffled returns the numbers below n after a Fisher–Yates shuffle.
func shuffled(s Stream, n int) []int {
	all := ascending(n)
	for j := range all {
		k := j + s.Below(uint64(j), n-j)
		all[j], all[k] = all[k], all[j]
	}
	return all
}

// drawsColumns reports whether a stage draws some of the inputs, each at most once.
func drawsColumns(f schemas.Features) bool { return f.Kind == Columns && f.Size > 0 && !f.Replacement }

// Placed returns the stages of a plan, in which stages that draw columns without replacement continue the draws of
// earlier stages, including those of all members of an average. Stages whose features equal those of the earlier plan,
// which provides weights, keep its draws. A nil earlier means that there is no earlier plan.
func Placed(list []schemas.Stage, earlier *schemas.Plan) []schemas.Stage {
	placed, drawn, as := slices.Clone(list), []schemas.Draw(nil), []schemas.Stage(nil)
	if earlier != nil {
		as = earlier.Stages
	}
	for t := range placed {
		s := &placed[t]
		if s.Drawn = nil; !drawsColumns(s.Features) {
			continue
		}
		if t < len(as) && s.Features == as[t].Features {
			s.Drawn = as[t].Drawn
		} else {
			s.Drawn = slices.Clone(drawn)
		}
		drawn = append(drawn, schemas.Draw{Stage: t, Size: s.Features.Size})
	}
	return placed
}

// CheckDrawn returns an error that wraps [wire.ErrDamaged] unless a stage of a plan continues only draws of earlier
// stages.
func CheckDrawn(s schemas.Stage, number int) error {
	if len(s.Drawn) > 0 && !drawsColumns(s.Features) {
		return fmt.Errorf("%w: stage %d draws no columns, but continues the draws of others", wire.ErrDamaged, number)
	}
	last := -1
	for _, d := range s.Drawn {
		if d.Stage <= last || d.Stage >= number || d.Size < 1 {
			return fmt.Errorf("%w: stage %d continues from %d columns of stage %d", wire.ErrDamaged, number, d.Size, d.Stage)
		}
		last = d.Stage
	}
	return nil
}
