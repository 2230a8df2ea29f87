package ingest

import (
	"errors"
	"fmt"
	"math"

	"github.com/stagewise/stagewise/schemas"
)

// sparseLists is a table that may have a column of sparse rows.
type sparseLists interface {
	// sparse calls put for each current row of a column, with the indices and values of its list, which are valid during the call. A null is an error.
	sparse(column int, put func(row int, indices []int64, values []float64) error) error
}

// findSparse gives the column of sparse rows its role if the features are one. There are no others then.
func (r *tableReader) findSparse() error {
	features := 0
	for i, c := range r.cells {
		if c.role != feature && c.role != category {
			continue
		}
		if features++; c.role == feature && r.fields[i].kind == pairs {
			r.sparse = i
		}
	}
	switch {
	case r.sparse < 0:
		return nil
	case features > 1:
		return r.fail(r.sparse, fmt.Errorf("sparse rows beside %d other columns: leave those out with examples.columns.drop, or name this one alone under examples.columns.use", features-1))
	}
	r.cells[r.sparse].role = entries
	return nil
}

// laySparse finds the column of texts or of sparse rows, for rows to predict.
func (r *tableReader) laySparse() error {
	r.ignoreAll()
	if r.options.Text != "" {
		return r.assignText()
	}
	for i, f := range r.fields {
		switch {
		case f.kind != pairs:
		case r.sparse >= 0:
			return r.fail(i, errors.New("another column of sparse rows: expected one"))
		default:
			r.sparse = i
		}
	}
	if r.sparse < 0 {
		return r.fail(-1, errors.New("no column of sparse rows, which the model was trained on: expected lists of index and value, or maps"))
	}
	r.cells[r.sparse].role = entries
	return nil
}

// isSparse reports whether the rows are sparse: lists of index and value, or counts of the words of texts.
func (l *layout) isSparse() bool { return l.sparse >= 0 || l.text >= 0 }

// readSparse reads a column of sparse rows. What is 0 is left out.
func (r *tableReader) readSparse(column int) error {
	return r.table.(sparseLists).sparse(column, func(row int, indices []int64, values []float64) error {
		last := int64(-1)
		for i, index := range indices {
			value := float32(values[i])
			err := schemas.CheckIndex(index, last)
			if err == nil && value-value != 0 { // only for a finite number is the difference 0
				err = fmt.Errorf("value %v: expected a finite number of at most %.3g in size", values[i], math.MaxFloat32)
			}
			if err != nil {
				return r.failAt(row, err)
			}
			last = index
			r.rows.Append(int32(index), value)
		}
		r.rows.End()
		return nil
	})
}

// readTexts counts the words of a column of texts. A null is a text without words.
func (r *tableReader) readTexts(column int) error {
	return r.table.texts(column, func(row int, text string, _ bool) error {
		if err := r.words.count(text); err != nil {
			return r.failAt(row, err)
		}
		r.words.appendTo(&r.rows)
		return nil
	})
}

// exampleBytes returns how many bytes of a message a row of the block takes. It returns an error if not even a message of this row alone holds it.
func (r *tableReader) exampleBytes(row int, label string) (int, error) {
	if !r.isSparse() {
		return r.rowBytes(label)
	}
	indices, _ := r.rows.Row(row)
	return r.sparseRowBytes(label, len(indices))
}

// cutSparse makes rows of the block those of the batch.
func (r *tableReader) cutSparse(from, to int) {
	first := 0
	if from > 0 {
		first = r.rows.Ends[from-1]
	}
	last := r.rows.Ends[to-1]
	r.cut = schemas.SparseRows{Ends: r.cut.Ends[:0], Indices: r.rows.Indices[first:last], Values: r.rows.Values[first:last]}
	for _, end := range r.rows.Ends[from:to] {
		r.cut.Ends = append(r.cut.Ends, end-first)
	}
	r.batch.Floats, r.batch.Sparse = nil, &r.cut
}
