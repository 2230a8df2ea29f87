package kernel

import (
	"runtime"

	"golang.org/x/sys/cpu"
)

// hasAVX2 reports whether the assembly loops are used. vek has none for macOS, so Go code runs there.
func hasAVX2() bool { return cpu.X86.HasAVX2 && cpu.X86.HasFMA && runtime.GOOS != "darwin" }

func withoutAVX2() { cpu.X86.HasAVX2 = false }

func withoutAVX512() { cpu.X86.HasAVX512F = false }
