package accumulate

import (
	"fmt"
	"math"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/tree"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// AddLeaves adds Σ h x xᵀ of rows to the field gram of a block of trees, given h of each row. The block has the given number of columns:
// the indicators of the leaves of each tree, and then the intercept if there is one. Each sum adds the rows in order, however they are
// divided into calls. It panics for other shapes.
func (s *Sum) AddLeaves(l tree.Leaves, leaves, columns int, h []float32) {
	p := l.Trees * leaves
	if p > columns || columns > p+1 || len(h) != l.Rows {
		panic(fmt.Sprintf("accumulate: %d × %d leaves of a block of %d columns, %d values of %d rows", l.Trees, leaves, columns, len(h), l.Rows))
	}
	gram := s.Field(statistics.FieldGram, columns*(columns+1)/2)
	addPairs(gram, l, leaves, h)
	if columns > p {
		last := gram[p*(p+1)/2:]
		kernel.AddLeafResiduals(last[:p], l.Data, h, l.Rows, leaves, 1)
		addByColumn(last[p:], h)
	}
}

// AddLeafResiduals adds the cross moment of a block of trees and residuals (n × k), whose columns are those of [Sum.AddLeaves].
func (s *Sum) AddLeafResiduals(l tree.Leaves, leaves, columns int, residuals kernel.Dense) {
	p, k := l.Trees*leaves, residuals.Cols
	cross := s.Field(statistics.FieldCross, columns, k)
	kernel.AddLeafResiduals(cross[:p*k], l.Data, residuals.Data, l.Rows, leaves, k)
	if columns > p {
		addByColumn(cross[p*k:], residuals.Data)
	}
}

// addByColumn adds each row of values, which has the length of sums, to sums.
func addByColumn(sums []float64, values []float32) {
	for i, v := range values {
		sums[i%len(sums)] += float64(v)
	}
}

// pairRows is the number of rows that addPairs processes at a time, so that their data stays in the first-level cache.
const pairRows = 1024

// addPairs adds a row's h to each pair of its leaves, in the packed lower triangle of a Gram matrix.
func addPairs(gram []float64, l tree.Leaves, leaves int, h []float32) {
	var weights [pairRows]float64 // h of the rows
	var places [pairRows]int      // offset in the sums of the columns of each row's leaf
	for from := 0; from < l.Rows; from += pairRows {
		to := min(from+pairRows, l.Rows)
		for i, v := range h[from:to] {
			weights[i] = float64(v)
		}
		for below := range l.Trees {
			var at [math.MaxUint8 + 1]int // offset of the columns of each leaf
			for leaf := range leaves {
				column := below*leaves + leaf
				at[leaf] = column * (column + 1) / 2
			}
			for i, leaf := range l.Tree(below)[from:to] {
				places[i] = at[leaf]
				gram[at[leaf]+below*leaves+int(leaf)] += weights[i]
			}
			for above := range below {
				sums := gram[above*leaves:]
				for i, leaf := range l.Tree(above)[from:to] {
					sums[places[i]+int(leaf)] += weights[i]
				}
			}
		}
	}
}

// AddWords adds the residuals (n × k) and the curvatures (n) of rows, both times the rows' weights, to the sums of the words of columns,
// given the codes of the rows (n × width): see [tree.Words].
func (s *Sum) AddWords(columns []int, codes []uint8, width int, residuals kernel.Dense, curvatures []float32) {
	each := residuals.Cols + 1
	sums := s.Field(statistics.FieldWords, len(columns), tree.Codes, each)
	for j, column := range columns {
		for i, h := range curvatures {
			to := sums[(j*tree.Codes+int(codes[i*width+column]))*each:][:each]
			for c, r := range residuals.Row(i) {
				to[c] += float64(r)
			}
			to[each-1] += float64(h)
		}
	}
}
