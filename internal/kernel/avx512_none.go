//go:build !amd64

package kernel

func hasAVX512() bool { return false }

func mulNarrow(dst, x, w *float32, n, p, k int)           { panic("kernel: no 512-bit registers") }
func crossNarrow(sum, x, r *float32, n, p, k int)         { panic("kernel: no 512-bit registers") }
func cosineRows(x, offsets, constants *float32, n, p int) { panic("kernel: no 512-bit registers") }
func softmaxRows(x, highest, sums *float32, first *int32, constants *float32, n, k int) {
	panic("kernel: no 512-bit registers")
}
func bytesToFloats(dst *float32, src *uint8, n int)   { panic("kernel: no 512-bit registers") }
func standardizeRow(x, center, scale *float32, n int) { panic("kernel: no 512-bit registers") }
func momentsRow(sums, squares, present *float64, x, center *float32, weight float64, n int) {
	panic("kernel: no 512-bit registers")
}
