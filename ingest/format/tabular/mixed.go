package tabular

import (
	"slices"

	"github.com/stagewise/stagewise/ingest/layout"
)

// beginMixed allocates the words and texts of the current rows, if they are mixed.
func (r *tableReader) beginMixed() {
	if !r.IsMixed() {
		return
	}
	n := r.block.Rows * len(r.Options.Categorical)
	r.hashed = slices.Grow(r.hashed[:0], n)[:n]
	r.texts.Reset()
}

// readHashed reads a column of hashed words. A null is a missing value.
func (r *tableReader) readHashed(column int, c layout.Cell) error {
	k := len(r.Options.Categorical)
	return r.table.Texts(column, func(row int, word string, _ bool) error {
		if err := r.HashWord(c, r.hashed[row*k:(row+1)*k], word); err != nil {
			return r.failAt(row, err)
		}
		return nil
	})
}

// endMixed assembles the mixed rows.
func (r *tableReader) endMixed() {
	if !r.IsMixed() {
		return
	}
	k, d := len(r.Options.Categorical), r.Features
	for row := range r.block.Rows {
		var columns []int32
		var counts []float32
		if r.Text >= 0 {
			columns, counts = r.texts.Row(row)
		}
		r.AppendMixed(&r.Rows, r.block.Floats[row*d:(row+1)*d], columns, counts, r.hashed[row*k:(row+1)*k])
	}
}
