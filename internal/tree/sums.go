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
	var rows pairs
	for from := 0; from < l.Rows; from += pairRows {
		to := min(from+pairRows, l.Rows)
		for i, v := range h[from:to] {
			rows.h[i] = float64(v)
		}
		for below := range l.Trees {
			var at [math.MaxUint8 + 1]int // offset of the columns of each leaf
			for leaf := range leaves {
				column := below*leaves + leaf
				at[leaf] = column * (column + 1) / 2
			}
			for i, leaf := range l.Tree(below)[from:to] {
				rows.at[i] = at[leaf]
				gram[at[leaf]+below*leaves+int(leaf)] += rows.h[i]
			}
			above := 0
			for ; above+4 <= below; above += 4 {
				rows.addFour(gram[above*leaves:], leaves, l.Tree(above)[from:to], l.Tree(above + 1)[from:to], l.Tree(above + 2)[from:to],
					l.Tree(above + 3)[from:to])
			}
			for ; above < below; above++ {
				rows.add(gram[above*leaves:], l.Tree(above)[from:to])
			}
		}
	}
}

// pairs are the rows for which AddPairs adds h to the pairs of one leaf: h, and the offset of the leaf's columns in the
// sums.
type pairs struct {
	h  [pairRows]float64
	at [pairRows]int
}

// add adds the rows, given their leaves in a tree above.
func (p *pairs) add(sums []float64, above []uint8) {
	at, h := p.at[:len(above)], p.h[:len(above)]
	for i, leaf := range above {
		sums[at[i]+int(leaf)] += h[i]
	}
}

// addFour is add for four trees whose columns are adjacent in the sums: additions to the same sum form a dependency
// chain, but those of different trees are independent.
func (p *pairs) addFour(sums []float64, leaves int, a, b, c, d []uint8) {
	at, h := p.at[:len(a)], p.h[:len(a)]
	b, c, d = b[:len(a)], c[:len(a)], d[:len(a)]
	second, third, fourth := sums[leaves:], sums[2*leaves:], sums[3*leaves:]
	for i, leaf := range a {
		from, v := at[i], h[i]
		sums[from+int(leaf)] += v
		second[from+int(b[i])] += v
		third[from+int(c[i])] += v
		fourth[from+int(d[i])] += v
	}
}
