package kernel

import (
	"runtime"

	"golang.org/x/sys/cpu"
)

// hasAVX512 reports whether the AVX-512 loops are used.
func hasAVX512() bool { return cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL && hasAVX2() }

// hasAVX2 reports whether the AVX2 or AVX-512 loops are used. vek has none for macOS, so Go code runs there.
func hasAVX2() bool { return cpu.X86.HasAVX2 && cpu.X86.HasFMA && runtime.GOOS != "darwin" }

func withoutAVX512() { cpu.X86.HasAVX512F = false }

func withoutAVX2() { cpu.X86.HasAVX2 = false }

func mulNarrow(dst, x, w *float32, n, p, k, stride int) {
	if hasAVX512() {
		mulNarrowAVX512(dst, x, w, n, p, k, stride)
	} else {
		mulNarrowAVX2(dst, x, w, n, p, k, stride)
	}
}

func crossNarrow(sum, x, r *float32, n, p, k, strideX, strideR int) {
	if hasAVX512() {
		crossNarrowAVX512(sum, x, r, n, p, k, strideX, strideR)
	} else {
		crossNarrowAVX2(sum, x, r, n, p, k, strideX, strideR)
	}
}

func addResponses(above, below, mirroredAbove, mirroredBelow, x, w, tile *float32, threshold float32, n, even, odd int) {
	if hasAVX512() {
		addResponsesAVX512(above, below, mirroredAbove, mirroredBelow, x, w, tile, threshold, n, even, odd)
	} else {
		addResponsesAVX2(above, below, mirroredAbove, mirroredBelow, x, w, tile, threshold, n, even, odd)
	}
}

func cosineRows(x, offsets, constants *float32, n, p int) {
	if hasAVX512() {
		cosineRowsAVX512(x, offsets, constants, n, p)
	} else {
		cosineRowsAVX2(x, offsets, constants, n, p)
	}
}

func softmaxRows(x, highest, sums *float32, first *int32, constants *float32, n, k int) {
	if hasAVX512() {
		softmaxRowsAVX512(x, highest, sums, first, constants, n, k)
	} else {
		softmaxRowsAVX2(x, highest, sums, first, constants, n, k)
	}
}

func softmaxPairs(x, highest, sums *float32, first *int32, constants *float32, n int) {
	softmaxPairsAVX2(x, highest, sums, first, constants, n)
}

func scaleRows(x, factors, offset, constants *float32, n, p int) {
	if hasAVX512() {
		scaleRowsAVX512(x, factors, offset, constants, n, p)
	} else {
		scaleRowsAVX2(x, factors, offset, constants, n, p)
	}
}

func copyWindows(dst, src *float32, n, height, width, step, stride int) {
	if hasAVX512() {
		copyWindowsAVX512(dst, src, n, height, width, step, stride)
	} else {
		copyWindowsAVX2(dst, src, n, height, width, step, stride)
	}
}

func bytesToFloats(dst *float32, src *uint8, n int) {
	if hasAVX512() {
		bytesToFloatsAVX512(dst, src, n)
	} else {
		bytesToFloatsAVX2(dst, src, n)
	}
}

func standardizeRow(x, center, scale *float32, n int) {
	if hasAVX512() {
		standardizeRowAVX512(x, center, scale, n)
	} else {
		standardizeRowAVX2(x, center, scale, n)
	}
}

func momentsRow(sums, squares, present *float64, x, center *float32, weight float64, n int) {
	if hasAVX512() {
		momentsRowAVX512(sums, squares, present, x, center, weight, n)
	} else {
		momentsRowAVX2(sums, squares, present, x, center, weight, n)
	}
}

func mulSparseRow(dst *float32, indices *int32, values, w *float32, n, k, stride int) {
	if hasAVX512() {
		mulSparseRowAVX512(dst, indices, values, w, n, k, stride)
	} else {
		mulSparseRowAVX2(dst, indices, values, w, n, k, stride)
	}
}

func conjoinRows(dst, words *uint64, offsets *int, n int) {
	if hasAVX512() {
		conjoinRowsAVX512(dst, words, offsets, n)
	} else {
		conjoinRowsAVX2(dst, words, offsets, n)
	}
}

func addLeafRows(scores *float32, leaves *uint8, w *float32, rows, count, each, k, stride int) {
	if k <= 8 {
		addNarrowLeafRowsAVX2(scores, leaves, w, rows, count, each, k, stride)
	} else {
		addLeafRowsAVX2(scores, leaves, w, rows, count, each, k, stride)
	}
}

func addLeafResiduals(sums *float64, leaves *uint8, residuals *float32, n, k int) {
	addLeafResidualsAVX2(sums, leaves, residuals, n, k)
}

func addLeafPairs(sums, others *float64, leaves *uint8, residuals *float32, n int) {
	addLeafPairsAVX2(sums, others, leaves, residuals, n)
}

func crossSparseRow(sum *float64, indices *int32, values, r *float32, weight float32, n, k int) {
	if hasAVX512() {
		crossSparseRowAVX512(sum, indices, values, r, weight, n, k)
	} else {
		crossSparseRowAVX2(sum, indices, values, r, weight, n, k)
	}
}

func addRows(sum *float64, x *float32, n, k, stride int) {
	if hasAVX512() {
		addRowsAVX512(sum, x, n, k, stride)
	} else {
		addRowsAVX2(sum, x, n, k, stride)
	}
}

func boundRows(low, high, codes *uint8, rows *int32, n, stride int) {
	boundRowsAVX2(low, high, codes, rows, n, stride)
}

func addParts(sums *float64, parts *uint8, named *int32, tried, size int, codes *uint8, stride int, values *float64, width int,
	rows *int32, n int) {
	add := addPartsAVX2
	switch width / 8 {
	case 4:
		add = addPartsOf4AVX2
	case 8:
		add = addPartsOf8AVX2
	case 12:
		add = addPartsOf12AVX2
	case 16:
		add = addPartsOf16AVX2
	case 20:
		add = addPartsOf20AVX2
	}
	add(sums, parts, named, tried, size, codes, stride, values, width, rows, n)
}
