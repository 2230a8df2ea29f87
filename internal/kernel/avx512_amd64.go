package kernel

import "golang.org/x/sys/cpu"

// wide tells whether the processor and the system have 512-bit registers.
func wide() bool { return cpu.X86.HasAVX512F }

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
