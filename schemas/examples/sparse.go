package examples

import "fmt"

// MaxColumns is the maximum number of columns of sparse rows: a weight for each column and class must fit into memory.
const MaxColumns = 1 << 26

// ColumnRows is the number of training rows in which a column of sparse rows is nonzero.
type ColumnRows struct {
	Column int32
	Rows   uint32
}

// SparseRows has the nonzero features of rows, row after row. The zero value has no rows.
type SparseRows struct {
	Ends    []int     // end of the values of each row
	Indices []int32   // of the values, from 0, ascending in each row
	Values  []float32 // finite; NaN is a missing value of a leading table column
}

// Len returns the number of rows.
func (s *SparseRows) Len() int { return len(s.Ends) }

// Row returns the indices and values of a row. They share the memory of s.
func (s *SparseRows) Row(row int) (indices []int32, values []float32) {
	from := 0
	if row > 0 {
		from = s.Ends[row-1]
	}
	to := s.Ends[row]
	return s.Indices[from:to:to], s.Values[from:to:to]
}

// Leading writes the first columns of each row into dst (n × columns, row-major), with zeros.
func (s *SparseRows) Leading(dst []float32, columns int) {
	clear(dst)
	for row := range s.Len() {
		indices, values := s.Row(row)
		for i, index := range indices {
			if int(index) >= columns {
				break
			}
			dst[row*columns+int(index)] = values[i]
		}
	}
}

// Reset removes all rows. It keeps the memory.
func (s *SparseRows) Reset() {
	s.Ends, s.Indices, s.Values = s.Ends[:0], s.Indices[:0], s.Values[:0]
}

// Append appends a value to the current row, unless it is 0. End ends the row.
func (s *SparseRows) Append(index int32, value float32) {
	if value != 0 {
		s.Indices, s.Values = append(s.Indices, index), append(s.Values, value)
	}
}

// End ends the current row.
func (s *SparseRows) End() { s.Ends = append(s.Ends, len(s.Values)) }

// CheckIndex returns an error unless an index of a row may follow the previous index, which is -1 for the first.
func CheckIndex(index, before int64) error {
	switch {
	case index < 0 || index >= MaxColumns:
		return fmt.Errorf("index %d: expected a whole number from 0 to %d", index, MaxColumns-1)
	case index <= before:
		return fmt.Errorf("index %d after %d: expected ascending indices, each once", index, before)
	}
	return nil
}

// without returns the rows without the values of the given rows.
func (s *SparseRows) without(rows []bool) *SparseRows {
	left := &SparseRows{}
	for row, empty := range rows {
		if indices, values := s.Row(row); !empty {
			left.Indices, left.Values = append(left.Indices, indices...), append(left.Values, values...)
		}
		left.End()
	}
	return left
}
