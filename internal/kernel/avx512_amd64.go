package kernel

import "golang.org/x/sys/cpu"

// hasAVX512 reports whether the processor and the operating system support the AVX-512 instructions of this package.
func hasAVX512() bool { return cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL }

// mulNarrow computes dst += x·w: x is n×p, w has p rows of 16 values of which the first k ≤ 16 are used, dst is n×k; p > 0.
//
//go:noescape
func mulNarrow(dst, x, w *float32, n, p, k int)

// crossNarrow computes sum += xᵀ·r: x is n×p, r is n×k with k ≤ 16, sum has p rows of 16 values, of which those beyond k do not
// change; p > 0.
//
//go:noescape
func crossNarrow(sum, x, r *float32, n, p, k int)

// cosineRows replaces each x[i, j] by constants[10]·cos(x[i, j] + offsets[j]): x is n×p, and constants is the result of
// cosine.
//
//go:noescape
func cosineRows(x, offsets, constants *float32, n, p int)

// softmaxRows replaces each row of x, n×k with 0 < k ≤ 16, by its softmax. For each row it writes the maximum, Σ exp(x − maximum),
// and the first column that has the maximum, or 16 if no column has it. constants is the result of exponential.
//
//go:noescape
func softmaxRows(x, highest, sums *float32, first *int32, constants *float32, n, k int)

// bytesToFloats converts n values of src into dst.
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
