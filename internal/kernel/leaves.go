package kernel

import "fmt"

// AddLeafRows adds to each row of scores (n × k, row-major) the rows of w (trees × each × k) of its leaves, tree after
// tree. leaves (trees × n) holds the leaf of each row in each tree. It panics if a leaf is out of range.
func AddLeafRows(scores []float32, leaves []uint8, w []float32, n, each, k int) {
	trees := treesOf("AddLeafRows", leaves, len(scores), len(w), n, each, k)
	switch {
	case trees == 0 || k == 0:
	case hasAVX2():
		for from := 0; from < k; from += panel {
			addLeafRows(&scores[from], &leaves[0], &w[from], n, trees, each, min(panel, k-from), k)
		}
	default:
		addLeafRowsGo(scores, leaves, w, n, each, k)
	}
}

// treesOf returns the number of trees of leaves (trees × n). It panics unless there are n × k values of rows and trees × each × k of
// leaves, and for a leaf out of range.
func treesOf(operation string, leaves []uint8, rowValues, leafValues, n, each, k int) (trees int) {
	if n > 0 {
		trees = len(leaves) / n
	}
	if rowValues != n*k || len(leaves) != trees*n || leafValues != trees*each*k && n > 0 {
		panic(fmt.Sprintf("kernel: %s: %d values of %d rows and %d columns, %d leaves, %d values of %d leaves a tree", operation, rowValues, n,
			k, len(leaves), leafValues, each))
	}
	checkBelow(operation, "leaf", leaves, each)
	return trees
}

// addLeafRowsGo is AddLeafRows for rows and trees, without vector instructions.
func addLeafRowsGo(scores []float32, leaves []uint8, weights []float32, n, each, k int) {
	for ; len(leaves) > 0; leaves, weights = leaves[n:], weights[each*k:] {
		for i, leaf := range leaves[:n] {
			s := scores[i*k:][:k]
			for c, v := range weights[int(leaf)*k:][:k] {
				s[c] += v
			}
		}
	}
}

// AddLeafResiduals adds rows of k residuals (n × k, row-major) to the sums of their leaves (trees × each × k). leaves
// (trees × n) holds the leaf of each row in each tree. Each sum adds the rows in order. It panics if a leaf is out of
// range.
func AddLeafResiduals(sums []float64, leaves []uint8, residuals []float32, n, each, k int) {
	if treesOf("AddLeafResiduals", leaves, len(residuals), len(sums), n, each, k) == 0 || k == 0 {
		return
	}
	for ; len(leaves) > 0; leaves, sums = leaves[n:], sums[each*k:] {
		if hasAVX2() {
			addLeafResiduals(&sums[0], &leaves[0], &residuals[0], n, k)
		} else {
			addLeafResidualsGo(sums[:each*k], leaves[:n], residuals, k)
		}
	}
}

// addLeafResidualsGo is AddLeafResiduals for a tree, without vector instructions.
func addLeafResidualsGo(sums []float64, leaves []uint8, residuals []float32, k int) {
	for i, leaf := range leaves {
		s := sums[int(leaf)*k:][:k]
		for c, r := range residuals[i*k:][:k] {
			s[c] += float64(r)
		}
	}
}
