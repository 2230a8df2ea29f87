package examples

import "slices"

// Slice returns the rows from one on, before another. They share the memory of r.
func (r *Rows) Slice(from, to int) *Rows {
	cut := *r
	cut.Rows = to - from
	k := len(r.Targets) / max(r.Rows, 1)
	cut.Floats, cut.Bytes = slice(r.Floats, from*r.Cols, to*r.Cols), slice(r.Bytes, from*r.Cols, to*r.Cols)
	cut.Targets = slice(r.Targets, from*k, to*k)
	if r.Sparse != nil {
		cut.Sparse = r.Sparse.Slice(from, to)
	}
	cut.Words, cut.Numbers, cut.NoLabel = slice(r.Words, from, to), slice(r.Numbers, from, to), slice(r.NoLabel, from, to)
	cut.LabelLists, cut.Weights, cut.Splits = slice(r.LabelLists, from, to), slice(r.Weights, from, to), slice(r.Splits, from, to)
	cut.Served, cut.SourceKeys = slice(r.Served, from, to), slice(r.SourceKeys, from, to)
	return &cut
}

// slice returns a part of a column, which may be absent, or have fewer values than there are rows if the last ones could not be read.
func slice[V any](column []V, from, to int) []V {
	if len(column) == 0 {
		return nil
	}
	return column[from:to]
}

// Append appends rows that have the same columns.
func (r *Rows) Append(o *Rows) {
	r.Cols, r.Columns, r.Image = o.Cols, o.Columns, o.Image
	if len(o.NoLabel) > 0 || len(r.NoLabel) > 0 {
		r.NoLabel = append(r.NoLabel, make([]bool, r.Rows-len(r.NoLabel))...)
		r.NoLabel = append(append(r.NoLabel, o.NoLabel...), make([]bool, o.Rows-len(o.NoLabel))...)
	}
	r.Floats, r.Bytes, r.Targets = append(r.Floats, o.Floats...), append(r.Bytes, o.Bytes...), append(r.Targets, o.Targets...)
	if o.Sparse != nil {
		r.Sparse.append(o.Sparse)
	}
	r.Words, r.Numbers, r.LabelLists = append(r.Words, o.Words...), append(r.Numbers, o.Numbers...), append(r.LabelLists, o.LabelLists...)
	r.Weights, r.Splits, r.Served = append(r.Weights, o.Weights...), append(r.Splits, o.Splits...), append(r.Served, o.Served...)
	r.SourceKeys = append(r.SourceKeys, o.SourceKeys...)
	r.Rows += o.Rows
}

// Reset removes the rows, and keeps the memory of their features, labels, targets and weights.
func (r *Rows) Reset() {
	*r = Rows{Floats: r.Floats[:0], Sparse: r.Sparse, Words: r.Words[:0], Numbers: r.Numbers[:0], NoLabel: r.NoLabel[:0],
		LabelLists: r.LabelLists[:0], Targets: r.Targets[:0], Weights: r.Weights[:0], Served: r.Served[:0]}
	if r.Sparse != nil {
		r.Sparse.Reset()
	}
}

// Drop removes the first rows. The others take their place in the memory that [Rows.Reset] keeps.
func (r *Rows) Drop(n int) {
	left := r.Slice(n, r.Rows)
	r.Reset()
	r.Append(left)
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

// append appends rows.
func (s *SparseRows) append(o *SparseRows) {
	first := len(s.Values)
	s.Indices, s.Values = append(s.Indices, o.Indices...), append(s.Values, o.Values...)
	for _, end := range o.Ends {
		s.Ends = append(s.Ends, first+end)
	}
}
