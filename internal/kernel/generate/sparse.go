package main

import "github.com/mmcloughlin/avo/operand"

// crossSparseRow rounds each product before it adds it, as Go does on this processor, so that the bits are the same. It sums in float64,
// so it processes four values at a time.
func (w *writer) crossSparseRow() {
	w.function("crossSparseRow", "func(sum *float64, indices *int32, values, r *float32, weight float32, n, k int)",
		"adds k values of r, times weight and the value of each of n indices, to the rows of sum at these indices; a row of sum "+
			"has k values; n, k > 0.")
	sum, indices, values, r, n, k := w.integer("sum"), w.integer("indices"), w.integer("values"), w.integer("r"), w.integer("n"),
		w.integer("k")
	weight := w.XMM()
	w.VBROADCASTSS(w.argument("weight"), weight)
	past, stride := w.GP64(), w.GP64()
	w.MOVQ(k, stride)
	w.SHLQ(operand.U8(3), stride)
	w.MOVQ(k, past)
	w.ANDQ(operand.U8(lanes/2-1), past)
	single, double := w.XMM(), w.YMM() // masks of the first values after the last whole four
	w.VMOVUPS(operand.Mem{Base: w.selection(past)}, single)
	w.VPMOVSXDQ(single, double)

	w.Label("value")
	at, from, left := w.GP64(), w.GP64(), w.GP64()
	w.MOVLQSX(operand.Mem{Base: indices}, at)
	w.IMULQ(stride, at)
	w.ADDQ(sum, at)
	factor := w.XMM()
	w.VBROADCASTSS(operand.Mem{Base: values}, factor)
	w.VMULPS(weight, factor, factor)
	w.MOVQ(r, from)
	w.MOVQ(k, left)
	w.SUBQ(operand.U8(lanes/2), left)
	w.JLT(operand.LabelRef("rest"))
	w.Label("several")
	product, added := w.XMM(), w.YMM()
	w.VMULPS(operand.Mem{Base: from}, factor, product)
	w.VCVTPS2PD(product, added)
	w.VADDPD(operand.Mem{Base: at}, added, added)
	w.VMOVUPD(added, operand.Mem{Base: at})
	w.ADDQ(operand.U8(4*lanes/2), from)
	w.ADDQ(operand.U8(8*lanes/2), at)
	w.SUBQ(operand.U8(lanes/2), left)
	w.JGE(operand.LabelRef("several"))
	w.Label("rest")
	w.TESTQ(past, past)
	w.JZ(operand.LabelRef("next"))
	product, added = w.XMM(), w.YMM()
	w.VMASKMOVPS(operand.Mem{Base: from}, single, product)
	w.VMULPS(factor, product, product)
	w.VCVTPS2PD(product, added)
	old := w.YMM()
	w.VMASKMOVPD(operand.Mem{Base: at}, double, old)
	w.VADDPD(old, added, old)
	w.VMASKMOVPD(old, double, operand.Mem{Base: at})
	w.Label("next")
	w.ADDQ(operand.U8(4), indices)
	w.ADDQ(operand.U8(4), values)
	w.DECQ(n)
	w.JNZ(operand.LabelRef("value"))
	w.VZEROUPPER()
	w.RET()
}
