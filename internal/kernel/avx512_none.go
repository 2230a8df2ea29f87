//go:build !amd64

package kernel

func wide() bool { return false }

func mulNarrow(dst, x, w *float32, n, p, k int)           { panic("kernel: no 512-bit registers") }
func crossNarrow(sum, x, r *float32, n, p, k int)         { panic("kernel: no 512-bit registers") }
func cosineRows(x, offsets, constants *float32, n, p int) { panic("kernel: no 512-bit registers") }
