package kernel

import (
	"runtime"

	"golang.org/x/sys/cpu"
)

// hasAVX2 reports whether the assembly loops are used. vek has none for macOS, so Go code runs there.
func hasAVX2() bool { return cpu.X86.HasAVX2 && cpu.X86.HasFMA && runtime.GOOS != "darwin" }

func withoutAVX2() { cpu.X86.HasAVX2 = false }

// hasAVX512 reports whether the products use AVX-512, with which they give the same bits.
func hasAVX512() bool { return hasAVX2() && cpu.X86.HasAVX512F }

func withoutAVX512() { cpu.X86.HasAVX512F = false }

func mulPanel(dst, x, w *float32, n, p, k, stride int) {
	if hasAVX512() {
		mulNarrowAVX512(dst, x, w, n, p, k, stride)
	} else {
		mulNarrow(dst, x, w, n, p, k, stride)
	}
}

func crossPanel(sum, x, r *float32, n, p, k, strideX, strideR int) {
	if hasAVX512() {
		crossNarrowAVX512(sum, x, r, n, p, k, strideX, strideR)
	} else {
		crossNarrow(sum, x, r, n, p, k, strideX, strideR)
	}
}
