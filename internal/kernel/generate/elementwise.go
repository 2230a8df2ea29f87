package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// nearest rounds to the nearest integer, without an exception.
const nearest = operand.U8(8)

// cosine replaces the angles in z by scale·cos, and returns the result register. It subtracts the nearest multiple of π
// in two parts, and evaluates a polynomial in the square of the remainder.
func (w *writer) cosine(z reg.VecVirtual, constants row) reg.VecVirtual {
	multiple, sum := w.YMM(), w.YMM()
	w.VMULPS(constants[0], z, multiple)
	w.VROUNDPS(nearest, multiple, multiple)
	w.VFNMADD231PS(constants[1], multiple, z)
	w.VFNMADD231PS(constants[2], multiple, z)
	w.VCVTPS2DQ(multiple, multiple)
	w.VMULPS(z, z, z)
	w.Comment("Limit the square of an angle too large to reduce; a NaN stays NaN.")
	w.VMINPS(z, constants[3], z)
	w.VMOVAPS(constants[8], sum)
	for _, i := range []int{7, 6, 5, 4, 9} {
		w.VFMADD213PS(constants[i], z, sum)
	}
	w.Comment("An odd multiple changes the sign.")
	w.VPSLLD(operand.U8(31), multiple, multiple)
	w.VXORPS(multiple, sum, sum)
	w.VMULPS(constants[10], sum, sum)
	return sum
}

func (w *writer) cosineRows() {
	w.function("cosineRows", "func(x, offsets, constants *float32, n, p int)",
		"replaces each x[i, j] by constants[10]·cos(x[i, j] + offsets[j]): x is n×p, and constants is the result of cosine.")
	x, n := w.integer("x"), w.integer("n")
	from, constants := w.integer("constants"), w.row(11)
	for i, z := range constants {
		w.VBROADCASTSS(operand.Mem{Base: from, Disp: 4 * i}, z)
	}
	past := w.integer("p")
	w.ANDQ(operand.U8(lanes-1), past)
	m := w.maskOf(past, 1)
	w.SHLQ(operand.U8(2), past)

	w.Label("row")
	w.TESTQ(n, n)
	w.JZ(operand.LabelRef("done"))
	offsets, left := w.integer("offsets"), w.integer("p")
	w.SUBQ(operand.U8(lanes), left)
	w.JLT(operand.LabelRef("tail"))
	w.Label("body")
	z := w.YMM()
	w.VMOVUPS(operand.Mem{Base: x}, z)
	w.VADDPS(operand.Mem{Base: offsets}, z, z)
	w.VMOVUPS(w.cosine(z, constants), operand.Mem{Base: x})
	w.ADDQ(operand.U8(4*lanes), offsets)
	w.ADDQ(operand.U8(4*lanes), x)
	w.SUBQ(operand.U8(lanes), left)
	w.JGE(operand.LabelRef("body"))
	w.Label("tail")
	z, b := w.YMM(), w.YMM()
	w.VMASKMOVPS(operand.Mem{Base: x}, m[0], z)
	w.VMASKMOVPS(operand.Mem{Base: offsets}, m[0], b)
	w.VADDPS(b, z, z)
	w.VMASKMOVPS(w.cosine(z, constants), m[0], operand.Mem{Base: x})
	w.ADDQ(past, x)
	w.DECQ(n)
	w.JMP(operand.LabelRef("row"))
	w.Label("done")
	w.VZEROUPPER()
	w.RET()
}
