package kernel

import (
	"fmt"
	"slices"
)

// Sparse is a matrix in compressed sparse row format. The zero value is the 0×0 matrix.
type Sparse struct {
	// Rows is the number of rows, and Cols the number of columns without the column of ones.
	Rows, Cols int
	// Ones says that one more column follows, which is 1 in every row.
	Ones bool
	// Starts holds the offset of each row in Values, and then the number of values: Rows+1 offsets, or none without
	// rows.
	Starts []int
	// Columns holds the column of each value, from 0, ascending in each row.
	Columns []int32
	// Values holds the values.
	Values []float32
}

// Width returns the number of columns, including the column of ones.
func (s Sparse) Width() int {
	if s.Ones {
		return s.Cols + 1
	}
	return s.Cols
}

// Row returns the columns and the values of row i. They share s's memory.
func (s Sparse) Row(i int) (columns []int32, values []float32) {
	from, to := s.Starts[i], s.Starts[i+1]
	return s.Columns[from:to:to], s.Values[from:to:to]
}

// Begin makes s a matrix without rows, of the given number of columns. It reuses s's memory.
func (s *Sparse) Begin(cols int) {
	*s = Sparse{Cols: cols, Starts: append(s.Starts[:0], 0), Columns: s.Columns[:0], Values: s.Values[:0]}
}

// End ends a row: the values appended to Columns and Values since the previous row.
func (s *Sparse) End() {
	s.Rows++
	s.Starts = append(s.Starts, len(s.Values))
}

// check panics unless s is rows×width and its columns are in range.
func (s Sparse) check(operation string, rows, width int) {
	if s.Rows != rows || s.Width() != width {
		panic(fmt.Sprintf("kernel: %s: a sparse matrix of %d×%d, want %d×%d", operation, s.Rows, s.Width(), rows, width))
	}
	if rows > 0 {
		checkBelow(operation, "column", s.Columns[s.Starts[0]:s.Starts[rows]], s.Cols)
	}
}

// Choose writes the given columns of s, which ascend, into dst (n × their number), without the column of ones. It reuses dst's memory.
func (s Sparse) Choose(dst *Sparse, columns []int32) {
	dst.Begin(len(columns))
	var some [1 << 10]uint64 // a bit for each column modulo their number: most values need no search
	for _, j := range columns {
		some[j/64%int32(len(some))] |= 1 << (j % 64)
	}
	for i := range s.Rows {
		all, values := s.Row(i)
		from := 0
		for at, j := range all {
			if some[j/64%int32(len(some))]>>(j%64)&1 == 0 {
				continue
			}
			place, chosen := slices.BinarySearch(columns[from:], j)
			if from += place; chosen {
				dst.Columns, dst.Values = append(dst.Columns, int32(from)), append(dst.Values, values[at])
			}
		}
		dst.End()
	}
}

// MulAddSparse computes dst += x·w: x is n×p, w p×k and dst n×k. It panics if a column of x is out of range.
func MulAddSparse(dst Dense, x Sparse, w Dense) {
	x.check("MulAddSparse", dst.Rows, w.Rows)
	w.check("MulAddSparse", "w", w.Rows, dst.Cols)
	for i := range x.Rows {
		columns, values := x.Row(i)
		row := dst.Row(i)
		for at, j := range columns {
			addScaled(row, values[at], w.Row(int(j)))
		}
		if x.Ones {
			addScaled(row, 1, w.Row(x.Cols))
		}
	}
}

// addScaled computes dst += f·x, with single-precision products.
func addScaled[T float32 | float64](dst []T, f float32, x []float32) {
	dst = dst[:len(x)]
	for len(x) >= 4 { // eliminating bounds checks makes it a third faster
		d, s := dst[:4:4], x[:4:4]
		d[0] += T(f * s[0])
		d[1] += T(f * s[1])
		d[2] += T(f * s[2])
		d[3] += T(f * s[3])
		dst, x = dst[4:], x[4:]
	}
	for c, v := range x {
		dst[c] += T(f * v)
	}
}

// AddCrossSparse adds the cross moment xᵀ·diag(weights)·r to sum, which has p×k values, row-major: x is n×p and r n×k.
// Rows of weight 0 add nothing, even if not finite. It panics if a column of x is out of range.
func AddCrossSparse(sum []float64, x Sparse, r Dense, weights []float32) {
	k := r.Cols
	x.check("AddCrossSparse", r.Rows, x.Width())
	if len(sum) != x.Width()*k || len(weights) != r.Rows {
		panic(fmt.Sprintf("kernel: AddCrossSparse: %d sums and %d weights, want %d×%d and %d", len(sum), len(weights), x.Width(), k, r.Rows))
	}
	vectors := hasAVX2() && k > 0
	for i, w := range weights {
		if w == 0 {
			continue
		}
		columns, values := x.Row(i)
		row := r.Row(i)
		if n := len(columns); vectors && n > 0 {
			crossSparseRow(&sum[0], &columns[0], &values[0], &row[0], w, n, k)
		} else {
			for at, j := range columns {
				addScaled(sum[int(j)*k:(int(j)+1)*k], w*values[at], row)
			}
		}
		if x.Ones {
			addScaled(sum[x.Cols*k:], w, row)
		}
	}
}

// AddDiagonalSparse adds the diagonal of xᵀ·diag(weights)·x to squares, and Σ w·|x[i,j]|·Σ|x[i,·]| of each column to
// bounds. By the Cauchy–Schwarz inequality, diag(bounds) − xᵀ·diag(weights)·x has no negative eigenvalue. Both have a
// value for each column of x (n×p). Rows of weight 0 add nothing, even if not finite.
func AddDiagonalSparse(squares, bounds []float64, x Sparse, weights []float32) {
	if p := x.Width(); len(squares) != p || len(bounds) != p || len(weights) != x.Rows {
		panic(fmt.Sprintf("kernel: AddDiagonalSparse: %d squares, %d bounds and %d weights, want %d×%d", len(squares), len(bounds),
			len(weights), x.Rows, p))
	}
	for i, w := range weights {
		if w == 0 {
			continue
		}
		columns, values := x.Row(i)
		length := 0.0
		for _, v := range values {
			length += max(float64(v), -float64(v))
		}
		if x.Ones {
			length++
			squares[x.Cols] += float64(w)
			bounds[x.Cols] += float64(w) * length
		}
		for at, j := range columns {
			v := float64(values[at])
			squares[j] += float64(w) * v * v
			bounds[j] += float64(w) * max(v, -v) * length
		}
	}
}
