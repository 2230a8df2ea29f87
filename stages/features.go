package stages

import (
	"fmt"
	"math"
	"sync"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
)

// Map generates the features of one stage from prepared inputs. It is
// immutable and safe for concurrent use. What is random is drawn when the first
// block is expanded: who only asks for the shape does not wait for it.
type Map struct {
	features  schemas.Features
	seed      uint64
	stage     int
	deviation float64 // of a direction's components

	inputs int // m
	size   int // p
	extra  int // columns beside the p: previous predictions, intercept
	scores int // of them, the previous predictions

	drawn   sync.Once
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

// NewMap is the map of a stage over prepared inputs. The block has p features,
// then the previous predictions of so many classes (0: none), then the
// intercept if there is one.
func NewMap(f schemas.Features, seed uint64, stage int, prepared *Preparation, scores int, intercept bool) (*Map, error) {
	m := &Map{features: f, seed: seed, stage: stage, inputs: prepared.Inputs(), size: f.Size, scores: scores, extra: scores}
	if intercept {
		m.extra++
	}
	// the kernel is exp(−|x−x'|²/s), s the median squared distance × bandwidth_scale
	m.deviation = math.Sqrt(2 / (prepared.Spread * f.BandwidthScale))
	switch f.Kind {
	case RFF, Logits, Polynomial:
	case Columns:
		if m.size == 0 {
			m.size = m.inputs
		}
		if !f.Replacement && m.size > m.inputs {
			return nil, &SizeError{f.Kind, m.size, m.inputs}
		}
	default:
		panic("stages: unknown kind of features " + f.Kind)
	}
	return m, nil
}

func (m *Map) draw() {
	switch m.features.Kind {
	case RFF:
		// Rahimi and Recht 2007: w ~ N(0, 2/s), b uniform on [0, 2π)
		offsets := NewStream(m.seed, m.stage, drawOffsets)
		m.factors = []factor{m.project(NewStream(m.seed, m.stage, drawDirections))}
		for j := range m.size {
			m.factors[0].offsets[j] = float32(2 * math.Pi * offsets.Uniform(uint64(j)))
		}
	case Logits:
		offsets := NewStream(m.seed, m.stage, drawOffsets)
		m.factors = []factor{m.project(NewStream(m.seed, m.stage, drawDirections))}
		for j := range m.size {
			m.factors[0].offsets[j] = float32(offsets.Normal(uint64(j)))
		}
	case Polynomial:
		// feature j is the product of 1 … degree projections, each of variance
		// 1/bandwidth_scale over the rows; a factor it does not have is 0·x + 1
		degrees := NewStream(m.seed, m.stage, drawDegrees)
		for l := range m.features.Degree {
			fac := m.project(NewStream(m.seed, m.stage, drawDirections+16*uint64(l)))
			for j := range m.size {
				if l > degrees.Below(uint64(j), m.features.Degree) {
					fac.offsets[j] = 1
					for i := range m.inputs {
						fac.directions.Data[i*fac.directions.Cols+j] = 0
					}
				}
			}
			m.factors = append(m.factors, fac)
		}
	case Columns:
		m.choose(NewStream(m.seed, m.stage, drawColumns))
	}
}

// project takes draw j·m + i for direction j's component i, so that a larger
// block of the same seed begins with the features of a smaller one.
func (m *Map) project(s Stream) factor {
	f := factor{kernel.NewDense(m.inputs, m.Size()), make([]float32, m.Size())}
	for j := range m.size {
		for i := range m.inputs {
			f.directions.Data[i*f.directions.Cols+j] = float32(m.deviation * s.Normal(uint64(j*m.inputs+i)))
		}
	}
	return f
}

// choose takes columns of the inputs.
func (m *Map) choose(s Stream) {
	m.columns = make([]int, m.size)
	if m.features.Replacement {
		for j := range m.columns {
			m.columns[j] = s.Below(uint64(j), m.inputs)
		}
		return
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
	m.drawn.Do(m.draw)
	dst.Reshape(x.Rows, m.Size())
	for l, f := range m.factors {
		product := *dst
		if l > 0 {
			scratch.Reshape(x.Rows, m.Size())
			product = *scratch
		}
		blas.Mul(product, x, f.directions, false)
		if m.features.Kind == RFF {
			kernel.Cosine(product, f.offsets, float32(math.Sqrt(2/float64(m.size))))
			continue
		}
		kernel.AddRow(product, f.offsets)
		if l > 0 {
			for i, v := range scratch.Data {
				dst.Data[i] *= v
			}
		}
	}
	switch m.features.Kind {
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
