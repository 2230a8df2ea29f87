package layout

import (
	"fmt"

	"github.com/stagewise/stagewise/schemas/examples"
)

// Extent is the columns of sparse rows that are converted to dense ones: Width columns starting with First. The zero
// value: rows stay sparse.
type Extent struct {
	First int64
	Width int
}

// FoundExtent is the smallest and the largest index in files. Start from NewFoundExtent.
type FoundExtent struct{ First, Last int64 }

// NewFoundExtent returns the extent of files without an index.
func NewFoundExtent() *FoundExtent { return &FoundExtent{First: examples.MaxColumns, Last: -1} }

// Add adds an index.
func (f *FoundExtent) Add(index int64) { f.First, f.Last = min(f.First, index), max(f.Last, index) }

// Extent returns the columns from the first on, which is 0 if some row has it, and otherwise 1. ok is false without an
// index.
func (f *FoundExtent) Extent() (e Extent, ok bool) {
	if f.Last < 0 {
		return e, false
	}
	e.First = min(f.First, 1) // LIBSVM counts from 1, other writers from 0
	e.Width = int(f.Last-e.First) + 1
	return e, true
}

// NeedingDense returns the options for stages that need dense rows, or do not.
func (o Options) NeedingDense(need bool) Options {
	o.needsDense = need
	return o
}

// NeedsDense reports whether the stages need dense rows.
func (o Options) NeedsDense() bool { return o.needsDense }

// WithExtent returns the options that convert sparse rows to dense ones with these columns.
func (o Options) WithExtent(e Extent) Options {
	o.extent = e
	return o
}

// Extent returns the columns of sparse rows that are converted; zero: none.
func (o Options) Extent() Extent { return o.extent }

// Place returns the dense position of an index; −1: beyond the last one, which is allowed in rows to predict.
func (e Extent) Place(index int64) (int, error) {
	at := index - e.First
	switch {
	case at < 0:
		return 0, fmt.Errorf("index %d: the columns that the model was trained on begin at %d", index, e.First)
	case at >= int64(e.Width):
		return -1, nil
	}
	return int(at), nil
}
