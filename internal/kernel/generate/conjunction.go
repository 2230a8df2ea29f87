package main

import "github.com/mmcloughlin/avo/operand"

// conjoinedWords is the number of words that a call of conjoinRows writes: those of 32 trees of 32 leaves.
const conjoinedWords = 16

// conjoinRows keeps the words of the conjunction in four registers.
func (w *writer) conjoinRows() {
	w.function("conjoinRows", "func(dst, words *uint64, offsets *int, n int)",
		"writes the bitwise AND of n rows of 16 words, which begin at the offsets; n > 0.")
	dst, words, offsets, n := w.integer("dst"), w.integer("words"), w.integer("offsets"), w.integer("n")
	all, from := w.row(2*conjoinedWords/lanes), w.GP64()
	w.MOVQ(operand.Mem{Base: offsets}, from)
	for i, z := range all {
		w.VMOVUPS(operand.Mem{Base: words, Index: from, Scale: 8, Disp: 4 * lanes * i}, z)
	}
	w.JMP(operand.LabelRef("next"))
	w.Label("row")
	w.MOVQ(operand.Mem{Base: offsets}, from)
	for i, z := range all {
		w.VPAND(operand.Mem{Base: words, Index: from, Scale: 8, Disp: 4 * lanes * i}, z, z)
	}
	w.Label("next")
	w.ADDQ(operand.U8(8), offsets)
	w.DECQ(n)
	w.JNZ(operand.LabelRef("row"))
	for i, z := range all {
		w.VMOVUPS(z, at(dst, i))
	}
	w.VZEROUPPER()
	w.RET()
}
