package examples

import "slices"

// Slice returns the rows from one on, before another. They share the memory of r.
func (r *Rows) Slice(from, to int) *Rows {
	cut := *r
	cut.Rows = to - from
	cut.Floats, cut.Bytes = slice(r.Floats, from*r.Cols, to*r.Cols), slice(r.Bytes, from*r.Cols, to*r.Cols)
	if r.Sparse != nil {
		cut.Sparse = r.Sparse.Slice(from, to)
	}
	if len(r.Targets) > 0 {
		k := len(r.Targets) / r.Rows
		cut.Targets = r.Targets[from*k : to*k]
	}
	cut.Words, cut.Numbers, cut.NoLabel = slice(r.Words, from, to), slice(r.Numbers, from, to), slice(r.NoLabel, from, to)
	cut.LabelLists, cut.Weights, cut.Splits = slice(r.LabelLists, from, to), slice(r.Weights, from, to), slice(r.Splits, from, to)
	cut.Served, cut.SourceKeys = slice(r.Served, from, to), slice(r.SourceKeys, from, to)
	return &cut
}

// Append appends a dense row of others, which have the same columns.
func (r *Rows) Append(other *Rows, row int) {
	r.Cols, r.Columns = other.Cols, other.Columns
	r.Floats = append(r.Floats, other.Floats[row*r.Cols:(row+1)*r.Cols]...)
	if k := len(other.Targets) / other.Rows; k > 0 {
		r.Targets = append(r.Targets, other.Targets[row*k:(row+1)*k]...)
	}
	if len(other.NoLabel) > 0 || len(r.NoLabel) > 0 {
		r.NoLabel = append(r.NoLabel, make([]bool, r.Rows-len(r.NoLabel))...)
		r.NoLabel = append(r.NoLabel, len(other.NoLabel) > 0 && other.NoLabel[row])
	}
	r.Words, r.Numbers = add(r.Words, other.Words, row), add(r.Numbers, other.Numbers, row)
	r.LabelLists, r.Weights = add(r.LabelLists, other.LabelLists, row), add(r.Weights, other.Weights, row)
	r.Served = add(r.Served, other.Served, row)
	r.Rows++
}

// add appends a value of a column, which may be absent.
func add[V any](to, from []V, row int) []V {
	if len(from) == 0 {
		return to
	}
	return append(to, from[row])
}

// Reset removes the rows, and keeps the memory of their features, labels, targets and weights.
func (r *Rows) Reset() {
	*r = Rows{Floats: r.Floats[:0], Sparse: r.Sparse, Words: r.Words[:0], Numbers: r.Numbers[:0], NoLabel: r.NoLabel[:0],
		LabelLists: r.LabelLists[:0], Targets: r.Targets[:0], Weights: r.Weights[:0], Served: r.Served[:0]}
	if r.Sparse != nil {
		r.Sparse.Reset()
	}
}

// Drop removes the first rows. The others take their place in the memory of the features, labels, targets and weights.
func (r *Rows) Drop(n int) {
	if n == r.Rows {
		r.Reset()
		return
	}
	r.Floats = drop(r.Floats, n*r.Cols)
	if r.Sparse != nil {
		r.Sparse.drop(n)
	}
	r.Targets = drop(r.Targets, n*(len(r.Targets)/r.Rows))
	r.Words, r.Numbers, r.NoLabel = drop(r.Words, n), drop(r.Numbers, n), drop(r.NoLabel, n)
	r.LabelLists, r.Weights, r.Served = drop(r.LabelLists, n), drop(r.Weights, n), drop(r.Served, n)
	r.Rows -= n
}

// drop removes the first values of a column, which may be absent.
func drop[V any](column []V, n int) []V {
	if len(column) == 0 {
		return column
	}
	return column[:copy(column, column[n:])]
}

// slice returns a part of a column, which may be absent.
func slice[V any](column []V, from, to int) []V {
	if len(column) == 0 {
		return nil
	}
	return column[from:to]
}

// Slice returns the rows from one on, before another. They share the memory of s.
func (s *SparseRows) Slice(from, to int) *SparseRows {
	first := 0
	if from > 0 {
		first = s.Ends[from-1]
	}
	ends := slices.Clone(s.Ends[from:to])
	for i := range ends {
		ends[i] -= first
	}
	last := first
	if to > from {
		last += ends[to-from-1]
	}
	return &SparseRows{Ends: ends, Indices: s.Indices[first:last], Values: s.Values[first:last]}
}

// drop removes the first rows.
func (s *SparseRows) drop(n int) {
	if n == 0 {
		return
	}
	first := s.Ends[n-1]
	s.Indices, s.Values, s.Ends = drop(s.Indices, first), drop(s.Values, first), drop(s.Ends, n)
	for i := range s.Ends {
		s.Ends[i] -= first
	}
}
