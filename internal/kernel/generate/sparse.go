package main

import "github.com/mmcloughlin/avo/operand"

// The loops over a row of sparse values round each product before they add it, as Go does on this processor, so that
// their bits are the same.

func (w *writer) mulSparseRow() {
	w.function("mulSparseRow", "func(dst *float32, indices *int32, values, w *float32, n, k, stride int)",
		"adds the rows of w at n indices, times their values, to the first k ≤ 16 values of dst; the rows of w begin stride "+
			"values apart; n > 0.")
	dst, indices, values, weights, n := w.integer("dst"), w.integer("indices"), w.integer("values"), w.integer("w"), w.integer("n")
	m := w.maskOf(w.integer("k"), narrow/w.lanes)
	stride := w.integer("stride")
	w.SHLQ(operand.U8(2), stride)
	sum := w.row(narrow / w.lanes)
	for i, z := range sum {
		w.loadSelected(operand.Mem{Base: dst, Disp: w.bytes(i)}, m, i, z)
	}
	w.Label("value")
	at, value := w.GP64(), w.vector()
	w.MOVLQSX(operand.Mem{Base: indices}, at)
	w.IMULQ(stride, at)
	w.ADDQ(weights, at)
	w.VBROADCASTSS(operand.Mem{Base: values}, value)
	for i, z := range sum {
		product := w.vector()
		w.loadSelected(operand.Mem{Base: at, Disp: w.bytes(i)}, m, i, product)
		w.VMULPS(value, product, product)
		w.VADDPS(product, z, z)
	}
	w.ADDQ(operand.U8(4), indices)
	w.ADDQ(operand.U8(4), values)
	w.DECQ(n)
	w.JNZ(operand.LabelRef("value"))
	for i, z := range sum {
		w.storeSelected(z, m, i, operand.Mem{Base: dst, Disp: w.bytes(i)})
	}
	w.VZEROUPPER()
	w.RET()
}

// crossSparseRow sums in float64, so it processes half as many values at a time as a register has lanes.
func (w *writer) crossSparseRow() {
	w.function("crossSparseRow", "func(sum *float64, indices *int32, values, r *float32, weight float32, n, k int)",
		"adds k values of r, times weight and the value of each of n indices, to the rows of sum at these indices; a row of sum "+
			"has k values; n, k > 0.")
	sum, indices, values, r, n, k := w.integer("sum"), w.integer("indices"), w.integer("values"), w.integer("r"), w.integer("n"),
		w.integer("k")
	weight, lanes := w.half(), w.lanes/2
	w.VBROADCASTSS(w.argument("weight"), weight)
	past, stride := w.GP64(), w.GP64()
	w.MOVQ(k, stride)
	w.SHLQ(operand.U8(3), stride)
	w.MOVQ(k, past)
	w.ANDQ(operand.U8(uint8(lanes-1)), past)
	single, double := w.halfMask(past)

	w.Label("value")
	at, from, left := w.GP64(), w.GP64(), w.GP64()
	w.MOVLQSX(operand.Mem{Base: indices}, at)
	w.IMULQ(stride, at)
	w.ADDQ(sum, at)
	factor := w.half()
	w.VBROADCASTSS(operand.Mem{Base: values}, factor)
	w.VMULPS(weight, factor, factor)
	w.MOVQ(r, from)
	w.MOVQ(k, left)
	w.SUBQ(operand.U8(uint8(lanes)), left)
	w.JLT(operand.LabelRef("rest"))
	w.Label("several")
	product, added := w.half(), w.vector()
	w.VMULPS(operand.Mem{Base: from}, factor, product)
	w.VCVTPS2PD(product, added)
	w.VADDPD(operand.Mem{Base: at}, added, added)
	w.VMOVUPD(added, operand.Mem{Base: at})
	w.ADDQ(operand.U8(uint8(4*lanes)), from)
	w.ADDQ(operand.U8(uint8(8*lanes)), at)
	w.SUBQ(operand.U8(uint8(lanes)), left)
	w.JGE(operand.LabelRef("several"))
	w.Label("rest")
	w.TESTQ(past, past)
	w.JZ(operand.LabelRef("next"))
	product, added = w.half(), w.vector()
	w.loadSelected(operand.Mem{Base: from}, single, 0, product)
	w.VMULPS(factor, product, product)
	w.VCVTPS2PD(product, added)
	w.addSelected(added, double, operand.Mem{Base: at})
	w.Label("next")
	w.ADDQ(operand.U8(4), indices)
	w.ADDQ(operand.U8(4), values)
	w.DECQ(n)
	w.JNZ(operand.LabelRef("value"))
	w.VZEROUPPER()
	w.RET()
}
