// Package main writes the assembly of package kernel: each loop once with AVX-512 and once with AVX2 and FMA, from one description.
// It is a module of its own, so that the program does not depend on the assembler.
//
// The two versions of a loop do the same operations in the same order, so they give the same bits.
package main
