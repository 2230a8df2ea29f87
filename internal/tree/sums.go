package tree

import (
	"fmt"

	"github.com/stagewise/stagewise/internal/kernel"
)

// AddPairs adds Σ h φ φᵀ of rows to the packed lower triangle of a Gram matrix (p(p+1)/2, p = trees × leaves): h of a
// row counts for each pair of its leaves. A number of the matrix adds the rows in their order, whichever calls these
// come in. A call with a few thousand rows has its sums in the first-level cache.
func AddPairs(gram []float64, l Leaves, leaves int, h []float32) {
	p := l.Trees * leaves
	if len(gram) != p*(p+1)/2 || len(h) != l.Rows {
		panic(fmt.Sprintf("tree: AddPairs: %d sums of %d × %d leaves, %d values of %d rows", len(gram), l.Trees, leaves, len(h), l.Rows))
	}
	if l.Rows == 0 {
		return
	}
	var sums [MaxLeaves * MaxLeaves]float64
	for below := range l.Trees {
		rows := l.Tree(below)
		for i, leaf := range rows {
			at := below*leaves + int(leaf)
			gram[at*(at+1)/2+at] += float64(h[i])
		}
		for above := range below {
			for leaf := range leaves {
				at := below*leaves + leaf
				copy(sums[leaf*MaxLeaves:][:leaves], gram[at*(at+1)/2+above*leaves:])
			}
			addPairs(&sums, rows, l.Tree(above), h)
			for leaf := range leaves {
				at := below*leaves + leaf
				copy(gram[at*(at+1)/2+above*leaves:], sums[leaf*MaxLeaves:][:leaves])
			}
		}
	}
}

// addPairs adds h at the leaves of rows in two trees.
func addPairs(sums *[MaxLeaves * MaxLeaves]float64, below, above []uint8, h []float32) {
	above, h = above[:len(below)], h[:len(below)]
	for i, leaf := range below {
		sums[int(leaf%MaxLeaves)*MaxLeaves+int(above[i]%MaxLeaves)] += float64(h[i])
	}
}

// AddResiduals adds Σ φ rᵀ of rows to the cross moment (p × k, p = trees × leaves), given their residuals (n × k), which
// are multiplied by the rows' weights. A number of the moment adds the rows in their order.
func AddResiduals(cross []float64, l Leaves, leaves int, residuals []float32) {
	k := len(cross) / max(1, l.Trees*leaves)
	if len(cross) != l.Trees*leaves*k || len(residuals) != l.Rows*k {
		panic(fmt.Sprintf("tree: AddResiduals: %d residuals of %d rows into %d sums of %d × %d leaves",
			len(residuals), l.Rows, len(cross), l.Trees, leaves))
	}
	for t := range l.Trees {
		sums, rows := cross[t*leaves*k:][:leaves*k], l.Tree(t)
		switch k {
		case 1:
			for i, leaf := range rows {
				sums[leaf] += float64(residuals[i])
			}
		case 2:
			for i, leaf := range rows {
				r, s := residuals[2*i:][:2], sums[2*int(leaf):][:2]
				s[0] += float64(r[0])
				s[1] += float64(r[1])
			}
		default:
			for i, leaf := range rows {
				s := sums[int(leaf)*k:][:k]
				for c, r := range residuals[i*k:][:k] {
					s[c] += float64(r)
				}
			}
		}
	}
}

// AddScores adds φᵀ W of rows to scores (n × k), given the weights W of the leaves (p × k, p = trees × leaves). A score
// adds the trees in their order.
func AddScores(scores []float32, l Leaves, leaves int, weights []float32) {
	k := len(weights) / max(1, l.Trees*leaves)
	if len(weights) != l.Trees*leaves*k || len(scores) != l.Rows*k {
		panic(fmt.Sprintf("tree: AddScores: %d weights of %d × %d leaves to %d scores of %d rows",
			len(weights), l.Trees, leaves, len(scores), l.Rows))
	}
	kernel.AddLeafRows(scores, l.Data, weights, l.Rows, leaves, k)
}
