package stages

import (
	"fmt"
	"math"
	"sync"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/onnx"
	"github.com/stagewise/stagewise/internal/tree"
	"github.com/stagewise/stagewise/schemas"
)

// Map computes the features of one stage from prepared inputs. Create it with [NewMap]. It is immutable, and safe for
// concurrent use. The first call of [Map.Expand] or [Map.Add] makes the random draws, so callers that only need the
// shape do not wait for them.
type Map struct {
	features  schemas.Features
	seed      uint64
	stage     int
	deviation float64 // of a direction's components: √(2/s)

	kind   Kind
	inputs int // m
	size   int // p
	extra  int // columns after the p features: previous predictions, then the intercept
	scores int // number of previous predictions among the extra columns
	sparse bool

	coder  *Coder // of trees
	forest tree.Forest
	finder *tree.Finder // nil: there are no trees, or none yet

	before []schemas.Draw // of columns, by earlier stages
	draw   func() drawn   // makes the draws in the first call
}

// NewMap returns the map of a stage over prepared inputs. Its block has p features, then scores columns of previous predictions (one for
// each class, or 0), then the intercept if there is one. f must pass [Check]. The error is a *[SizeError]; a *[DenseError] or
// *[SparseError] if the features do not support the type of rows; for images [ErrNoImages], a *[wire.ShapeError] if prepared lacks learnt
// tensors, or an error that says why there are no such patches.
func NewMap(f schemas.Features, seed uint64, stage int, prepared *Preparation, scores int, intercept bool) (*Map, error) {
	k := mustKindOf(f)
	var err error
	if prepared.Factors != nil {
		err = CheckSparse(f, scores > 0)
	} else if k.OnlySparse {
		err = &SparseError{What: "features.kind: " + f.Kind}
	}
	if err != nil {
		return nil, err
	}
	m := &Map{kind: k, features: f, seed: seed, stage: stage, sparse: prepared.Factors != nil, coder: prepared.Coder,
		inputs: prepared.Inputs(), size: f.Size, scores: scores, extra: scores}
	if intercept {
		m.extra++
	}
	m.deviation = math.Sqrt(2 / (prepared.Spread * f.BandwidthScale))
	if k.blockSize != nil {
		if m.size, err = k.blockSize(f, m.inputs); err != nil {
			return nil, err
		}
	}
	draw := func() drawn { return k.draw(m) }
	if k.read != nil {
		if draw, err = k.read(m, prepared); err != nil {
			return nil, err
		}
	}
	m.draw = sync.OnceValue(draw)
	return m, nil
}

// After makes the map draw columns after those of earlier stages, as in the plan. Call it before any other method.
func (m *Map) After(drawn []schemas.Draw) { m.before = drawn }

// stream returns the draws of the stage for one purpose.
func (m *Map) stream(purpose uint64) Stream { return NewStream(m.seed, m.stage, purpose) }

// Penalised returns the number of columns of the block to which the ridge applies: all but the intercept.
func (m *Map) Penalised() int { return m.size + m.scores }

// Scores returns the number of columns of the block that are previous predictions.
func (m *Map) Scores() int { return m.scores }

// Size returns the number of columns of the block, including the intercept.
func (m *Map) Size() int { return m.size + m.extra }

// Expand writes the block (n × [Map.Size]) of prepared inputs x (n × m) into dst, which it reshapes. A map with scores
// copies the previous predictions (n × k) into the block; other maps ignore them. Some kinds reshape scratch and use it
// as temporary memory. It panics for inputs or predictions of another shape. If any of the p features of a row
// overflows, all of them become 0: Expand returns these rows.
func (m *Map) Expand(blas *kernel.BLAS, dst *kernel.Dense, scratch *kernel.Dense, x, predictions kernel.Dense) (overflowed []int) {
	if x.Cols != m.inputs {
		panic(fmt.Sprintf("stages: %d inputs, the map has %d", x.Cols, m.inputs))
	}
	if m.scores > 0 && (predictions.Rows != x.Rows || predictions.Cols != m.scores) {
		panic(fmt.Sprintf("stages: predictions are %d × %d, the map adds %d to each of %d rows",
			predictions.Rows, predictions.Cols, m.scores, x.Rows))
	}
	dst.Reshape(x.Rows, m.Size())
	m.draw().expand(blas, *dst, scratch, x)
	if m.kind.products {
		overflowed = clearLong(*dst, m.size)
	}
	for i := range x.Rows {
		row := dst.Row(i)
		if m.scores > 0 {
			copy(row[m.size:], predictions.Row(i))
		}
		if m.extra > m.scores {
			row[m.size+m.scores] = 1
		}
	}
	return overflowed
}

// Add is [Map.Expand] in a graph: it adds the block of prepared inputs x and, if the map has scores, of the previous
// predictions.
func (m *Map) Add(g *onnx.Graph, x, predictions onnx.Value) onnx.Value {
	block := m.draw().node(g, x)
	if m.scores > 0 {
		block = g.Along(1, "Concat", block, predictions)
	}
	if m.extra > m.scores {
		block = g.Node("Pad", block, g.Integers(0, 0, 0, 1), g.Number(1)) // after the last column
	}
	return block
}

// Overflowed returns the number of rows of a block (n × [Map.Size]) of prepared inputs x (n × m) whose features
// overflow.
func (m *Map) Overflowed(block, x kernel.Dense) (rows int) {
	if !m.kind.products {
		return 0
	}
	for i := range block.Rows {
		if kernel.SquaredLength(block.Row(i)[:m.size]) == 0 && kernel.SquaredLength(x.Row(i)) > 1 {
			rows++
		}
	}
	return rows
}
