//go:build !amd64

package kernel

func hasAVX2() bool  { return false }
func withoutAVX2()   {}
func withoutAVX512() {}

const missing = "kernel: the loops of this processor are in Go"

func mulNarrow(dst, x, w *float32, n, p, k, stride int)             { panic(missing) }
func crossNarrow(sum, x, r *float32, n, p, k, strideX, strideR int) { panic(missing) }
func cosineRows(x, offsets, constants *float32, n, p int)           { panic(missing) }
func addParts(sums *float64, parts *uint8, named *int32, tried, size int, codes *uint8, stride int, values *float64, width int,
	rows *int32, n int) {
	panic(missing)
}
func addLeafRows(scores *float32, leaves *uint8, w *float32, rows, count, each, k, stride int) {
	panic(missing)
}
func addResponses(above, below, mirroredAbove, mirroredBelow, x, w, tile *float32, threshold float32, n, even, odd int) {
	panic(missing)
}
func crossSparseRow(sum *float64, indices *int32, values, r *float32, weight float32, n, k int) {
	panic(missing)
}
func addLeafResiduals(sums *float64, leaves *uint8, residuals *float32, n, k int) { panic(missing) }
func reachNodes(reached *float32, nodes *uint32, points *float32, codes *uint8, n, count, stride int) {
	panic(missing)
}
func meanOfNodes(sums *float64, means, leaves, reached *float32, nodes *uint32, points *float32, n, count, stride int) {
	panic(missing)
}
