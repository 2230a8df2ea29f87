package kernel

import "slices"

// SparseColumns is a matrix of which only the values that are not 0 are kept, column after column. [NewSparseColumns] makes it. It is immutable.
type SparseColumns struct {
	rows    int
	columns []int32   // those that have values, ascending
	starts  []int32   // where the values of each of these begin, and at last where those of the last end
	row     []int32   // of each value, ascending in each column
	values  []float32 // the values
}

// NewSparseColumns returns the values of x by column, without the column of ones.
func NewSparseColumns(x Sparse) SparseColumns {
	s, next := SparseColumns{rows: x.Rows}, make([]int32, x.Cols) // how many values each column has, and then where its next value goes
	if x.Rows == 0 {
		return s
	}
	columns := x.Columns[x.Starts[0]:x.Starts[x.Rows]]
	s.row, s.values = make([]int32, len(columns)), make([]float32, len(columns))
	for _, j := range columns {
		if next[j] == 0 {
			s.columns = append(s.columns, j)
		}
		next[j]++
	}
	slices.Sort(s.columns)
	s.starts = make([]int32, len(s.columns)+1)
	for i, j := range s.columns {
		s.starts[i+1] = s.starts[i] + next[j]
		next[j] = s.starts[i]
	}
	for i := range x.Rows {
		columns, values := x.Row(i)
		for at, j := range columns {
			s.row[next[j]], s.values[next[j]] = int32(i), values[at]
			next[j]++
		}
	}
	return s
}

// Bytes returns how much memory s takes.
func (s SparseColumns) Bytes() int64 {
	return 4 * int64(cap(s.columns)+cap(s.starts)+cap(s.row)+cap(s.values))
}

// Choose writes the matrix of some columns, which ascend, into dst (n × their number). It reuses dst's memory, and takes as long as these columns
// have values.
func (s SparseColumns) Choose(dst *Sparse, columns []int32) {
	*dst = Sparse{Rows: s.rows, Cols: len(columns), Starts: slices.Grow(dst.Starts[:0], s.rows+1)[:s.rows+1], Columns: dst.Columns[:0], Values: dst.Values[:0]}
	clear(dst.Starts)
	count := 0
	s.each(columns, func(_, from, to int) {
		for _, i := range s.row[from:to] {
			dst.Starts[i+1]++
		}
		count += to - from
	})
	for i := range s.rows {
		dst.Starts[i+1] += dst.Starts[i]
	}
	dst.Columns, dst.Values = slices.Grow(dst.Columns, count)[:count], slices.Grow(dst.Values, count)[:count]
	s.each(columns, func(place, from, to int) {
		for v, i := range s.row[from:to] {
			at := dst.Starts[i] // moves on to the begin of the next row
			dst.Columns[at], dst.Values[at] = int32(place), s.values[from+v]
			dst.Starts[i]++
		}
	})
	copy(dst.Starts[1:], dst.Starts)
	dst.Starts[0] = 0
}

// each calls with for each of some columns, which ascend, that has values: its place among them, and where its values begin and end.
func (s SparseColumns) each(columns []int32, with func(place, from, to int)) {
	next := 0
	for place, j := range columns {
		at, has := slices.BinarySearch(s.columns[next:], j)
		if next += at; has {
			with(place, int(s.starts[next]), int(s.starts[next+1]))
		}
	}
}
