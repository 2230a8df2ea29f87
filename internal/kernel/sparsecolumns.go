package kernel

import "slices"

// SparseColumns is a matrix in compressed sparse column format. Create it with [NewSparseColumns]. It is immutable.
type SparseColumns struct {
	rows    int
	columns []int32   // nonempty columns, ascending
	starts  []int32   // offset of each of them in values, and then the number of values
	row     []int32   // row of each value, ascending in each column
	values  []float32 // the values
}

// NewSparseColumns returns the values of x by column, without the column of ones.
func NewSparseColumns(x Sparse) SparseColumns {
	s, next := SparseColumns{rows: x.Rows}, make([]int32, x.Cols) // counts of values per column, and then the next offset of each
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

// Bytes returns the memory size of s.
func (s SparseColumns) Bytes() int64 {
	return 4 * int64(cap(s.columns)+cap(s.starts)+cap(s.row)+cap(s.values))
}

// Choose writes the matrix of the given columns, which ascend, into dst (n × their number). It reuses dst's memory. Its
// time is proportional to the number of values in these columns.
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
			at := dst.Starts[i] // advances to the start of the next row
			dst.Columns[at], dst.Values[at] = f.place, values[v]
			dst.Starts[i]++
		}
	}
	copy(dst.Starts[1:], dst.Starts)
	dst.Starts[0] = 0
}

// found is a nonempty column: its index among the requested columns, and in the matrix.
type found struct{ place, at int32 }

// find looks up columns, which ascend.
func (s SparseColumns) find(columns []int32) []found {
	list, from := make([]found, 0, min(len(columns), len(s.columns))), 0
	for place, j := range columns {
		at, has := slices.BinarySearch(s.columns[from:], j)
		if from += at; has {
			list = append(list, found{int32(place), int32(from)})
		}
	}
	return list
}
