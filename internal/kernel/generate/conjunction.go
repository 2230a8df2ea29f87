package main

import "github.com/mmcloughlin/avo/operand"

// conjoinedWords is the number of words that a call of conjoinRows writes: those of 32 trees of 32 leaves.
const conjoinedWords = 16

// conjoinRows keeps the words of the conjunction in two or four registers.
func (w *writer) conjoinRows() {
	w.function("conjoinRows", "func(dst, words *uint64, offsets *int, n int)",
		"writes the bitwise AND of n rows of 16 words, which begin at the offsets; n > 0.")
	dst, words, offsets, n := w.integer("dst"), w.integer("words"), w.integer("offsets"), w.integer("n")
	all, at := w.row(2*conjoinedWords/w.lanes), w.GP64()
	w.MOVQ(operand.Mem{Base: offsets}, at)
	for i, z := range all {
		w.VMOVUPS(operand.Mem{Base: words, Index: at, Scale: 8, Disp: w.bytes(i)}, z)
	}
	w.JMP(operand.LabelRef("next"))
	w.Label("row")
	w.MOVQ(operand.Mem{Base: offsets}, at)
	for i, z := range all {
		from := operand.Mem{Base: words, Index: at, Scale: 8, Disp: w.bytes(i)}
		if w.lanes == 16 {
			w.VPANDQ(from, z, z)
		} else {
			w.VPAND(from, z, z)
		}
	}
	w.Label("next")
	w.ADDQ(operand.U8(8), offsets)
	w.DECQ(n)
	w.JNZ(operand.LabelRef("row"))
	for i, z := range all {
		w.VMOVUPS(z, operand.Mem{Base: dst, Disp: w.bytes(i)})
	}
	w.VZEROUPPER()
	w.RET()
}
