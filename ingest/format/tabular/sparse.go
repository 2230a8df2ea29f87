package tabular

import (
	"errors"
	"fmt"
	"math"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
)

// sparseLists is a table that may have a column of sparse rows.
type sparseLists interface {
	// Sparse calls put for each current row of a column, with the indices and values of its list, which are valid during the
	// call. A null is an error.
	Sparse(column int, put func(row int, indices []int64, values []float64) error) error
}

// findSparse assigns the role of the column of sparse rows, if there is one. There are no other features then.
func (r *tableReader) findSparse() error {
	features := 0
	for i, c := range r.Cells {
		if !c.Role.IsFeature() {
			continue
		}
		if features++; c.Role == layout.Feature && r.fields[i].Kind == Pairs {
			r.Sparse = i
		}
	}
	switch {
	case r.Sparse < 0:
		return nil
	case features > 1:
		return r.fail(r.Sparse, fmt.Errorf("sparse rows and %d other columns: exclude those with examples.columns.drop, or "+
			"list only this one under examples.columns.use", features-1))
	}
	r.Cells[r.Sparse].Role = layout.Entries
	return nil
}

// laySparse finds the column of texts or of sparse rows in rows to predict.
func (r *tableReader) laySparse(want layout.Features) error {
	if r.Options.Mixed() {
		return r.LayMixed(want)
	}
	r.IgnoreAll()
	if r.Options.Text != "" {
		return r.AssignText()
	}
	for i, f := range r.fields {
		switch {
		case f.Kind != Pairs:
		case r.Sparse >= 0:
			return r.fail(i, errors.New("another column of sparse rows: expected one"))
		default:
			r.Sparse = i
		}
	}
	if r.Sparse < 0 {
		return r.fail(-1, errors.New("no column of sparse rows, which the model was trained on: expected lists of index and value, or maps"))
	}
	r.Cells[r.Sparse].Role = layout.Entries
	return nil
}

// readSparse reads a column of sparse rows. Zeros are omitted.
func (r *tableReader) readSparse(column int) error {
	return r.table.(sparseLists).Sparse(column, func(row int, indices []int64, values []float64) error {
		last := int64(-1)
		for i, index := range indices {
			value := float32(values[i])
			err := examples.CheckIndex(index, last)
			if err == nil && value-value != 0 { // the difference is 0 only for a finite number
				err = fmt.Errorf("value %v: expected a finite number of at most %.3g in size", values[i], math.MaxFloat32)
			}
			if err != nil {
				return r.failAt(row, err)
			}
			last = index
			r.Rows.Append(int32(index), value)
		}
		r.Rows.End()
		return nil
	})
}

// readTexts counts the words of a text column. A null is a text without words.
func (r *tableReader) readTexts(column int) error {
	return r.table.Texts(column, func(row int, text string, _ bool) error {
		if err := r.Words.Count(text); err != nil {
			return r.failAt(row, err)
		}
		if r.IsMixed() {
			r.Words.AppendTo(&r.texts)
		} else {
			r.Words.AppendTo(&r.Rows)
		}
		return nil
	})
}

// exampleBytes returns the length of a row of the block in a message. It returns an error if the row does not fit into a
// message of its own.
func (r *tableReader) exampleBytes(row int, label string) (int, error) {
	if !r.IsSparse() {
		return r.RowBytes(label)
	}
	indices, _ := r.Rows.Row(row)
	return r.SparseRowBytes(label, len(indices))
}

// cutSparse copies rows of the block to the batch.
func (r *tableReader) cutSparse(from, to int) {
	first := 0
	if from > 0 {
		first = r.Rows.Ends[from-1]
	}
	last := r.Rows.Ends[to-1]
	r.cut = examples.SparseRows{Ends: r.cut.Ends[:0], Indices: r.Rows.Indices[first:last], Values: r.Rows.Values[first:last]}
	for _, end := range r.Rows.Ends[from:to] {
		r.cut.Ends = append(r.cut.Ends, end-first)
	}
	r.batch.Floats, r.batch.Cols, r.batch.Sparse = nil, 0, &r.cut
}
