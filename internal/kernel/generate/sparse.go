package main

import "github.com/mmcloughlin/avo/operand"

// The loops over a row of sparse values round each product before they add it, as Go does on this processor, so that
// their bits are the same.

func (w *writer) mulSparseRow() {
	w.function("mulSparseRow", "func(dst *float32, indices *int32, values, w *float32, n, k, stride int)",
		"adds the rows of w at n indices, times their values, to the first k ≤ 16 values of dst; the rows of w begin stride "+
			"values apart; n > 0.")
	dst, indices, values, weights, n := w.integer("dst"), w.integer("indices"), w.integer("values"), w.integer("w"), w.integer("n")
	m := w.maskOf(w.integer("k"), narrow/lanes)
	stride := w.integer("stride")
	w.SHLQ(operand.U8(2), stride)
	sum := w.row(narrow / lanes)
	for i, z := range sum {
		w.VMASKMOVPS(at(dst, i), m[i], z)
	}
	w.Label("value")
	from, value := w.GP64(), w.YMM()
	w.MOVLQSX(operand.Mem{Base: indices}, from)
	w.IMULQ(stride, from)
	w.ADDQ(weights, from)
	w.VBROADCASTSS(operand.Mem{Base: values}, value)
	for i, z := range sum {
		product := w.YMM()
		w.VMASKMOVPS(at(from, i), m[i], product)
		w.VMULPS(value, product, product)
		w.VADDPS(product, z, z)
	}
	w.ADDQ(operand.U8(4), indices)
	w.ADDQ(operand.U8(4), values)
	w.DECQ(n)
	w.JNZ(operand.LabelRef("value"))
	for i, z := range sum {
		w.VMASKMOVPS(z, m[i], at(dst, i))
	}
	w.VZEROUPPER()
	w.RET()
}

// crossSparseRow sums in float64, so it processes four values at a time.
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
