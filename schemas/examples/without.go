package examples

import (
	"github.com/stagewise/stagewise/schemas/coverage"
)

// Without returns the examples, which are at an offset of a partition, with forgotten rows blanked: they have weight 0,
// no label, no targets, and features of 0. Their number and split are kept. The result shares the memory of e, and is
// released in its place.
func (e *Batch) Without(forgotten coverage.Forgotten, partition int, offset int64) *Batch {
	left := e
	forgotten.In(partition, offset, e.Rows, func(first, end int) {
		if left == e {
			without := *e
			without.forgotten = make([]bool, e.Rows)
			left = &without
		}
		for row := first; row < end; row++ {
			left.forgotten[row] = true
		}
	})
	return left
}

// forgot reports whether a row is forgotten.
func (e *Batch) forgot(row int) bool { return e.forgotten != nil && e.forgotten[row] }
