package kernel

import "slices"

// SparseColumns is a matrix of which only the values that are not 0 are kept, column after column. [NewSparseColumns]
// makes it. It is immutable.
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

// Choose writes the matrix of some columns, which ascend, into dst (n × their number). It reuses dst's memory, and
// takes as long as these columns have values.
func (s SparseColumns) Choose(dst *Sparse, columns []int32) {
	*dst = Sparse{Rows: s.rows, Cols: len(columns), Starts: slices.Grow(dst.Starts[:0], s.rows+1)[:s.rows+1], Columns: dst.Columns[:0],
		Values: dst.Values[:0]}
	clear(dst.Starts)
	found := s.find(columns)
	count := 0
	for _, f := range found {
		for _, i := range s.row[s.starts[f.at]:s.starts[f.at+1]] {
			dst.Starts[i+1]++
			count++
		}
	}
	for i := range s.rows {
		dst.Starts[i+1] += dst.Starts[i]
	}
	dst.Columns, dst.Values = slices.Grow(dst.Columns, count)[:count], slices.Grow(dst.Values, count)[:count]
	for _, f := range found {
		from, to := s.starts[f.at], s.starts[f.at+1]
		values := s.values[from:to]
		for v, i := range s.row[from:to] {
			at := dst.Starts[i] // moves on to the begin of the next row
			dst.Columns[at], dst.Values[at] = f.place, values[v]
			dst.Starts[i]++
		}
	}
	copy(dst.Starts[1:], dst.Starts)
	dst.Starts[0] = 0
}

// found is a column that has values: its place among those that are looked for, and among those of the matrix.
type found struct{ place, at int32 }

// find finds columns, which ascend. From the place of the one before, it doubles its step until it has gone too far, as that is seldom far.
func (s SparseColumns) find(columns []int32) []found {
	list, rest := make([]found, 0, min(len(columns), len(s.columns))), s.columns
	for place, j := range columns {
		step := 1
		for step < len(rest) && rest[step] < j {
			step *= 2
		}
		at, has := slices.BinarySearch(rest[step/2:min(step+1, len(rest))], j)
		rest = rest[step/2+at:]
		if has {
			list = append(list, found{int32(place), int32(len(s.columns) - len(rest))})
		}
	}
	return list
}
