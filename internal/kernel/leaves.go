package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// AddLeafRows adds to each row of scores (n × k, row-major) the rows of w (trees × each × k) of its leaves, tree after
// tree. leaves (trees × n) holds the leaf of each row in each tree. It panics if a leaf is out of range.
func AddLeafRows(scores []float32, leaves []uint8, w []float32, n, each, k int) {
	trees := 0
	if n > 0 {
		trees = len(leaves) / n
	}
	if len(scores) != n*k || len(leaves) != trees*n || len(w) != trees*each*k && n > 0 {
		panic(fmt.Sprintf("kernel: AddLeafRows: %d scores of %d rows and %d columns, %d leaves, %d weights of %d leaves a tree", len(scores), n,
			k, len(leaves), len(w), each))
	}
	if n == 0 || trees == 0 || k == 0 {
		return
	}
	if !hasAVX2() {
		addLeafRowsGo(scores, leaves, w, n, each, k)
		return
	}
	if !areBelow(leaves, each) {
		panic(fmt.Sprintf("kernel: AddLeafRows: leaf %d of %d", slices.Max(leaves), each))
	}
	for from := 0; from < k; from += panel {
		addLeafRows(&scores[from], &leaves[0], &w[from], n, trees, each, min(panel, k-from), k)
	}
}

// areBelow reports whether all values are below a limit. It tests eight at a time.
func areBelow(values []uint8, limit int) bool {
	const ones, most = 0x0101010101010101, math.MaxUint8 / 2
	if limit > 0 && limit <= most+1 {
		any, added := uint64(0), ones*uint64(most+1-limit) // the sum exceeds most for values from the limit on
		for ; len(values) >= 8; values = values[8:] {
			eight := binary.LittleEndian.Uint64(values)
			any |= eight | (eight + added)
		}
		if any&(ones*(most+1)) != 0 {
			return false
		}
	}
	for _, v := range values {
		if int(v) >= limit {
			return false
		}
	}
	return true
}

// addLeafRowsGo is AddLeafRows for rows and trees, without vector instructions.
func addLeafRowsGo(scores []float32, leaves []uint8, weights []float32, n, each, k int) {
	for ; len(leaves) > 0; leaves, weights = leaves[n:], weights[each*k:] {
		w, rows := weights[:each*k], leaves[:n]
		switch k {
		case 1:
			for i, leaf := range rows {
				scores[i] += w[leaf]
			}
		case 2:
			for i, leaf := range rows {
				s, v := scores[2*i:][:2], w[2*int(leaf):][:2]
				s[0] += v[0]
				s[1] += v[1]
			}
		default:
			for i, leaf := range rows {
				s := scores[i*k:][:k]
				for c, v := range w[int(leaf)*k:][:k] {
					s[c] += v
				}
			}
		}
	}
}

// AddLeafResiduals adds rows of k residuals (n × k, row-major) to the sums of their leaves (trees × each × k). leaves
// (trees × n) holds the leaf of each row in each tree. Each sum adds the rows in order. It panics if a leaf is out of
// range.
func AddLeafResiduals(sums []float64, leaves []uint8, residuals []float32, n, each, k int) {
	trees := 0
	if n > 0 {
		trees = len(leaves) / n
	}
	if len(residuals) != n*k || len(leaves) != trees*n || len(sums) != trees*each*k && n > 0 {
		panic(fmt.Sprintf("kernel: AddLeafResiduals: %d residuals of %d rows and %d columns, %d leaves, %d sums of %d leaves a tree",
			len(residuals), n, k, len(leaves), len(sums), each))
	}
	if n == 0 || trees == 0 || k == 0 {
		return
	}
	if !areBelow(leaves, each) {
		panic(fmt.Sprintf("kernel: AddLeafResiduals: leaf %d of %d", slices.Max(leaves), each))
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
