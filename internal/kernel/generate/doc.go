// Package main writes the assembly of package kernel: each loop once for AVX-512 and once for AVX2 and FMA, from one
// description. It is a separate module, so that stagewise does not depend on the assembler.
//
// The two versions of a loop do the same operations in the same order, so they give the same bits.
package main
