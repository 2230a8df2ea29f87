package kernel

import "golang.org/x/sys/cpu"

// wide tells whether the processor and the system have 512-bit registers.
func wide() bool { return cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL }

// mulNarrow is dst += x·w: x is n×p, w p rows of 16 values of which the first k ≤ 16 count, dst n×k; p > 0.
//
//go:noescape
func mulNarrow(dst, x, w *float32, n, p, k int)

// crossNarrow is sum += xᵀ·r: x is n×p, r n×k with k ≤ 16, sum p rows of 16 values of which those beyond k stay as they are;
// p > 0.
//
//go:noescape
func crossNarrow(sum, x, r *float32, n, p, k int)

// cosineRows replaces each x[i, j] by constants[10]·cos(x[i, j] + offsets[j]): x is n×p, the other constants are those of
// cosine.
//
//go:noescape
func cosineRows(x, offsets, constants *float32, n, p int)

// softmaxRows replaces each row of x, n×k with 0 < k ≤ 16, by its softmax, and writes the greatest value that it had, the sum of
// the exponentials of what the others are below it, and the column of the first that is the greatest, 16 if none is. The
// constants are those of exponential.
//
//go:noescape
func softmaxRows(x, highest, sums *float32, first *int32, constants *float32, n, k int)

// bytesToFloats converts n values.
//
//go:noescape
func bytesToFloats(dst *float32, src *uint8, n int)

// standardizeRow replaces each of n values by (x − center)·scale, and a NaN by 0.
//
//go:noescape
func standardizeRow(x, center, scale *float32, n int)

// momentsRow replaces each of n values by z = x − center, and a NaN by 0, and adds weight·z, weight·z² and, but for a NaN, weight.
//
//go:noescape
func momentsRow(sums, squares, present *float64, x, center *float32, weight float64, n int)
