package stages

import (
	"fmt"
	"math"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
)

// Map generates the features of one stage from prepared inputs. It is
// immutable and safe for concurrent use.
type Map struct {
	kind    string
	inputs  int // m
	size    int // p
	extra   int // columns beside the p: previous predictions, intercept
	scores  int // of them, the previous predictions
	scale   float32
	factors []factor // rff and logits have one, polynomial one a degree
	columns []int
}

// factor is a random affine projection. Its extra columns are zero: what
// belongs there is written over them.
type factor struct {
	directions kernel.Dense // m × (p + extra)
	offsets    []float32    // p + extra
}

// SizeError says that features can't be made of so many inputs.
type SizeError struct {
	Kind         string
	Size, Inputs int
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("features of kind %s: size %d of %d inputs without replacement", e.Kind, e.Size, e.Inputs)
}

// NewMap draws the map of a stage over prepared inputs. The block has
// p features, then the previous predictions of so many classes (0: none), then
// the intercept if there is one.
func NewMap(f schemas.Features, seed uint64, stage int, prepared *Preparation, scores int, intercept bool) (*Map, error) {
	m := &Map{kind: f.Kind, inputs: prepared.Inputs(), size: f.Size, scores: scores, extra: scores}
	if intercept {
		m.extra++
	}
	// the kernel is exp(−|x−x'|²/s), s the median squared distance × bandwidth_scale
	s := prepared.Spread * f.BandwidthScale
	deviation := math.Sqrt(2 / s)
	switch f.Kind {
	case RFF:
		// Rahimi and Recht 2007: w ~ N(0, 2/s), b uniform on [0, 2π)
		offsets := NewStream(seed, stage, drawOffsets)
		m.factors = []factor{m.draw(NewStream(seed, stage, drawDirections), deviation)}
		for j := range m.size {
			m.factors[0].offsets[j] = float32(2 * math.Pi * offsets.Uniform(uint64(j)))
		}
		m.scale = float32(math.Sqrt(2 / float64(m.size)))
	case Logits:
		offsets := NewStream(seed, stage, drawOffsets)
		m.factors = []factor{m.draw(NewStream(seed, stage, drawDirections), deviation)}
		for j := range m.size {
			m.factors[0].offsets[j] = float32(offsets.Normal(uint64(j)))
		}
	case Polynomial:
		// feature j is the product of 1 … degree projections, each of variance
		// 1/bandwidth_scale over the rows; a factor it does not have is 0·x + 1
		degrees := NewStream(seed, stage, drawDegrees)
		for l := range f.Degree {
			fac := m.draw(NewStream(seed, stage, drawDirections+16*uint64(l)), deviation)
			for j := range m.size {
				if l > degrees.Below(uint64(j), f.Degree) {
					fac.offsets[j] = 1
					for i := range m.inputs {
						fac.directions.Data[i*fac.directions.Cols+j] = 0
					}
				}
			}
			m.factors = append(m.factors, fac)
		}
	case Columns:
		if err := m.drawColumns(f, NewStream(seed, stage, drawColumns)); err != nil {
			return nil, err
		}
	default:
		panic("stages: unknown kind of features " + f.Kind)
	}
	return m, nil
}

// draw takes draw j·m + i for direction j's component i, so that a larger block
// of the same seed begins with the features of a smaller one.
func (m *Map) draw(s Stream, deviation float64) factor {
	f := factor{kernel.NewDense(m.inputs, m.Size()), make([]float32, m.Size())}
	for j := range m.size {
		for i := range m.inputs {
			f.directions.Data[i*f.directions.Cols+j] = float32(deviation * s.Normal(uint64(j*m.inputs+i)))
		}
	}
	return f
}

func (m *Map) drawColumns(f schemas.Features, s Stream) error {
	if m.size == 0 {
		m.size = m.inputs
	}
	if !f.Replacement && m.size > m.inputs {
		return &SizeError{f.Kind, m.size, m.inputs}
	}
	m.columns = make([]int, m.size)
	if f.Replacement {
		for j := range m.columns {
			m.columns[j] = s.Below(uint64(j), m.inputs)
		}
		return nil
	}
	// Fisher and Yates' shuffle, stopped after size draws; all columns stay in order
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
	copy(m.columns, all)
	return nil
}

// Penalised is how many columns of the block the ridge applies to: all but the
// intercept.
func (m *Map) Penalised() int { return m.size + m.scores }

// Scores is how many of the columns are previous predictions.
func (m *Map) Scores() int { return m.scores }

// Size is the number of columns of the block, intercept included.
func (m *Map) Size() int { return m.size + m.extra }

// Expand makes the block of prepared inputs x (n × m) and previous predictions
// (n × k; ignored by a map without them) in dst (n × Size). scratch is used by
// polynomials.
func (m *Map) Expand(blas *kernel.BLAS, dst *kernel.Dense, scratch *kernel.Dense, x, predictions kernel.Dense) {
	if x.Cols != m.inputs {
		panic(fmt.Sprintf("stages: %d inputs, the map has %d", x.Cols, m.inputs))
	}
	if m.scores > 0 && (predictions.Rows != x.Rows || predictions.Cols != m.scores) {
		panic(fmt.Sprintf("stages: predictions are %d × %d, the map adds %d to each of %d rows",
			predictions.Rows, predictions.Cols, m.scores, x.Rows))
	}
	dst.Reshape(x.Rows, m.Size())
	for from := 0; from < x.Rows; from += tileRows {
		to := min(from+tileRows, x.Rows)
		var before kernel.Dense
		if m.scores > 0 {
			before = predictions.Slice(from, to)
		}
		m.expand(blas, dst.Slice(from, to), scratch, x.Slice(from, to), before)
	}
}

// tileRows is how many rows are expanded together: a block of 1024 columns is
// in the second-level cache between its product and what is made of that.
const tileRows = 64

func (m *Map) expand(blas *kernel.BLAS, dst kernel.Dense, scratch *kernel.Dense, x, predictions kernel.Dense) {
	for l, f := range m.factors {
		product := dst
		if l > 0 {
			scratch.Reshape(x.Rows, m.Size())
			product = *scratch
		}
		blas.Mul(product, x, f.directions, false)
		if m.kind == RFF {
			kernel.Cosine(product, f.offsets, m.scale)
			continue
		}
		kernel.AddRow(product, f.offsets)
		if l > 0 {
			for i, v := range scratch.Data {
				dst.Data[i] *= v
			}
		}
	}
	switch m.kind {
	case Logits:
		kernel.Sigmoid(dst.Data)
	case Columns:
		for i := range x.Rows {
			from, to := x.Row(i), dst.Row(i)
			for j, c := range m.columns {
				to[j] = from[c]
			}
		}
	}
	if m.extra == 0 {
		return
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
}
