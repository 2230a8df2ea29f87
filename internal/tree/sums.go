package tree

import (
	"fmt"
	"math"
)

// pairRows is the number of rows that AddPairs processes at a time, so that their data stays in the first-level cache.
const pairRows = 1024

// AddPairs adds Σ h φ φᵀ of rows to the packed lower triangle of a Gram matrix (p(p+1)/2, p = trees × leaves): it adds
// a row's h to each pair of its leaves. Each sum adds the rows in order, however they are divided into calls.
func AddPairs(gram []float64, l Leaves, leaves int, h []float32) {
	p := l.Trees * leaves
	if len(gram) != p*(p+1)/2 || len(h) != l.Rows {
		panic(fmt.Sprintf("tree: AddPairs: %d sums of %d × %d leaves, %d values of %d rows", len(gram), l.Trees, leaves, len(h), l.Rows))
	}
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
