// Package main writes the assembly of package kernel, for AVX2 and FMA. It is a separate module, so that stagewise does not
// depend on the assembler.
package main
