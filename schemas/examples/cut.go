package examples

// After returns the rows from a row on. They share the memory of r.
func (r *Rows) After(row int) *Rows {
	cut := *r
	cut.Rows -= row
	if r.Floats != nil {
		cut.Floats = r.Floats[row*r.Cols:]
	}
	if r.Bytes != nil {
		cut.Bytes = r.Bytes[row*r.Cols:]
	}
	if r.Sparse != nil {
		cut.Sparse = r.Sparse.after(row)
	}
	if len(r.Targets) > 0 {
		cut.Targets = r.Targets[row*(len(r.Targets)/r.Rows):]
	}
	cut.Words, cut.Numbers, cut.NoLabel = after(r.Words, row), after(r.Numbers, row), after(r.NoLabel, row)
	cut.LabelLists, cut.Weights, cut.Splits = after(r.LabelLists, row), after(r.Weights, row), after(r.Splits, row)
	cut.Served, cut.SourceKeys = after(r.Served, row), after(r.SourceKeys, row)
	return &cut
}

// after returns the values of a column, which may be absent, from a row on.
func after[V any](column []V, row int) []V {
	if len(column) == 0 {
		return column
	}
	return column[row:]
}

// after returns the rows from a row on.
func (s *SparseRows) after(row int) *SparseRows {
	if row == 0 {
		return s
	}
	first := s.Ends[row-1]
	cut := &SparseRows{Indices: s.Indices[first:], Values: s.Values[first:]}
	for _, end := range s.Ends[row:] {
		cut.Ends = append(cut.Ends, end-first)
	}
	return cut
}
