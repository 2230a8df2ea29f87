package stages

import (
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
)

// Values of the key `values` under `prepare`: what becomes of a count v before anything else.
const (
	ValuesNone   = "none"   // v
	ValuesLog    = "log1p"  // log(1+v), and -log(1-v) below 0
	ValuesSqrt   = "sqrt"   // √v, and -√-v below 0
	ValuesBinary = "binary" // 1, whatever v is
)

// Factors says how the values of sparse rows are prepared: changed as the plan says, multiplied by the factor of their column, and then,
// with [ScaleUnit], divided by the length of the row. It is immutable and safe for concurrent use.
type Factors struct {
	values  string
	unit    bool
	factors []float32 // of each column (d); 0: it is left out
	groups  []group
	kept    int // m
}

// group is 64 columns, the first of which is a multiple of 64. An input for each column would be tens of megabytes for ten million of them.
type group struct {
	kept   uint64 // a bit for each column, from the lowest; 1: it becomes an input
	before int32  // inputs of the groups before
}

// input returns the input that a column becomes; -1: none.
func (f *Factors) input(column int32) int32 {
	if int(column) >= len(f.factors) {
		return -1
	}
	g, bit := f.groups[column/64], uint64(1)<<(column%64)
	if g.kept&bit == 0 {
		return -1
	}
	return g.before + int32(bits.OnesCount64(g.kept&(bit-1)))
}

// newFactors reads the factors of columns (d) that the survey has found.
func newFactors(p schemas.Prepare, factors []float32) (*Factors, error) {
	f := &Factors{values: p.Values, unit: p.Scale == ScaleUnit, factors: factors, groups: make([]group, (len(factors)+63)/64)}
	for j, factor := range factors {
		g := &f.groups[j/64]
		if j%64 == 0 {
			g.before = int32(f.kept)
		}
		if factor != 0 {
			g.kept |= 1 << (j % 64)
			f.kept++
		}
		if !(factor >= 0) || math.IsInf(float64(factor), 1) {
			return nil, fmt.Errorf("%w: the factor of column %d is %v", schemas.ErrDamaged, j, factor)
		}
	}
	if f.kept == 0 {
		return nil, fmt.Errorf("%w: no column of the sparse rows has a factor", schemas.ErrDamaged)
	}
	return f, nil
}

// ApplySparse writes the inputs of sparse rows (n × m) into dst. Columns that the survey has not found, or left out, are left out. It panics
// if the preparation is of dense rows. A row whose inputs overflow has none: ApplySparse returns these rows.
func (p *Preparation) ApplySparse(dst *kernel.Sparse, rows *schemas.SparseRows) (overflowed []int) {
	f := p.Factors
	dst.Begin(f.kept)
	for i := range rows.Len() {
		indices, values := rows.Row(i)
		begin, square := len(dst.Values), 0.0
		for at, j := range indices {
			input := f.input(j)
			if input < 0 {
				continue
			}
			v := change(f.values, values[at]) * f.factors[j]
			square += float64(v) * float64(v)
			dst.Columns, dst.Values = append(dst.Columns, input), append(dst.Values, v)
		}
		if row := dst.Values[begin:]; f.unit && square > 0 {
			scale := 1 / math.Sqrt(square)
			for at, v := range row {
				row[at] = float32(float64(v) * scale)
			}
		} else if !(square <= maxLength*maxLength) {
			dst.Columns, dst.Values = dst.Columns[:begin], dst.Values[:begin]
			overflowed = append(overflowed, i)
		}
		dst.End()
	}
	return overflowed
}

// change returns what becomes of a value.
func change(values string, v float32) float32 {
	switch values {
	case ValuesLog:
		return float32(math.Copysign(math.Log1p(math.Abs(float64(v))), float64(v)))
	case ValuesSqrt:
		return float32(math.Copysign(math.Sqrt(math.Abs(float64(v))), float64(v)))
	case ValuesBinary:
		return 1
	}
	return v
}

// DenseError says that something needs dense rows, and the examples are sparse.
type DenseError struct {
	What string // the key and its value
	Want string // what works with sparse rows
}

// Error says what to set.
func (e *DenseError) Error() string {
	return fmt.Sprintf("%s: the examples are sparse, and this needs dense rows: set %s", e.What, e.Want)
}

// SparseError says that something needs sparse rows, and the examples are dense.
type SparseError struct{ What string } // the key, and its value if other values are for dense rows

// Error says which key it is.
func (e *SparseError) Error() string {
	return fmt.Sprintf("%s: the examples are dense, and this is for sparse rows, as LIBSVM files have: leave it out", e.What)
}

// checkSparse returns a *[DenseError] if features can't be made of inputs that are sparse, and a *[SparseError] if they can't be made of others.
func checkSparse(f schemas.Features, prepared *Preparation, scores int) error {
	k, _ := find(f.Kind)
	switch {
	case prepared.Factors == nil && k.onlySparse:
		return &SparseError{"features.kind: " + f.Kind}
	case prepared.Factors == nil:
		return nil
	case !k.sparse:
		var names []string
		for k := range kinds {
			if k.sparse {
				names = append(names, k.name)
			}
		}
		return &DenseError{"features.kind: " + f.Kind, "it to " + strings.Join(names, " or ")}
	case !k.inBlocks && f.Size > 0 || f.Replacement:
		return &DenseError{fmt.Sprintf("features.size: %d", f.Size), "it to 0, which is all columns"}
	case scores > 0:
		return &DenseError{"scores: true", "it to false"}
	}
	return nil
}

// OnlySparse reports whether features are made of sparse rows only.
func OnlySparse(f schemas.Features) bool {
	k, ok := find(f.Kind)
	return ok && k.onlySparse
}

// Sparse reports whether the block has sparse rows.
func (m *Map) Sparse() bool { return m.sparse }

// Counted reports whether the stage's weights are counted from its rows and their classes, and not fitted to what earlier stages leave over.
func (m *Map) Counted() bool { return m.counted }

// FittedAtATime returns how many inputs are fitted at a time; 0: all.
func (m *Map) FittedAtATime() int {
	if m.inBlocks {
		return m.features.Size
	}
	return 0
}

// Rounds returns how often each input of a stage that is fitted some inputs at a time has its turn, at most; 0: no matter how often.
func (m *Map) Rounds() int { return m.features.Rounds }

// InBlocks reports whether some inputs are fitted at a time: see [Map.FittedAtATime].
func InBlocks(f schemas.Features) bool {
	k, ok := find(f.Kind)
	return ok && k.inBlocks
}

// ExpandSparse returns the block (n × [Map.Size]) of prepared inputs x (n × m), whose memory it shares. It panics unless [Map.Sparse] is true.
func (m *Map) ExpandSparse(x kernel.Sparse) kernel.Sparse {
	if !m.sparse || x.Cols != m.inputs {
		panic(fmt.Sprintf("stages: %d sparse inputs, the map has %d", x.Cols, m.inputs))
	}
	x.Ones = m.extra > 0
	return x
}

// CheckRows returns a *[DenseError] or a *[SparseError] if examples that are sparse, or dense, can't be prepared so.
func CheckRows(p schemas.Prepare, sparse bool) error {
	switch {
	case sparse && p.PCA > 0:
		return &DenseError{fmt.Sprintf("prepare.pca: %d", p.PCA), "it to 0"}
	case sparse && p.Scale == ScaleStandard:
		return &DenseError{"prepare.scale: " + ScaleStandard, "it to " + ScaleNone + " or " + ScaleUnit}
	case !sparse && p.MinRows > 1:
		return &SparseError{"prepare.min_rows"}
	case !sparse && p.Values != "" && p.Values != ValuesNone:
		return &SparseError{"prepare.values"}
	case !sparse && p.IDF != 0:
		return &SparseError{"prepare.idf"}
	}
	return nil
}
