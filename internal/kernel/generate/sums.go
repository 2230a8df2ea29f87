package main

import "github.com/mmcloughlin/avo/operand"

// addRows sums in float64, so it processes half as many values at a time as a register has lanes.
func (w *writer) addRows() {
	w.function("addRows", "func(sum *float64, x *float32, n, k, stride int)",
		"adds the first k values of each of n rows of x, which begin stride values apart, to sum (n×k); n, k > 0.")
	sum, x, n, k, stride := w.integer("sum"), w.integer("x"), w.integer("n"), w.integer("k"), w.integer("stride")
	lanes := w.lanes / 2
	w.SHLQ(operand.U8(2), stride)

	w.Label("row")
	from, left := w.GP64(), w.GP64()
	w.MOVQ(x, from)
	w.MOVQ(k, left)
	w.SUBQ(operand.U8(uint8(lanes)), left)
	w.JLT(operand.LabelRef("rest"))
	w.Label("several")
	added := w.vector()
	w.VCVTPS2PD(operand.Mem{Base: from}, added)
	w.VADDPD(operand.Mem{Base: sum}, added, added)
	w.VMOVUPD(added, operand.Mem{Base: sum})
	w.ADDQ(operand.U8(uint8(4*lanes)), from)
	w.ADDQ(operand.U8(uint8(8*lanes)), sum)
	w.SUBQ(operand.U8(uint8(lanes)), left)
	w.JGE(operand.LabelRef("several"))
	w.Label("rest")
	w.ADDQ(operand.U8(uint8(lanes)), left)
	w.JZ(operand.LabelRef("next"))
	w.Label("one") // a masked store would defeat store-to-load forwarding to the next row's load of the same memory
	single := w.XMM()
	w.VXORPD(single, single, single)
	w.VCVTSS2SD(operand.Mem{Base: from}, single, single)
	w.VADDSD(operand.Mem{Base: sum}, single, single)
	w.VMOVSD(single, operand.Mem{Base: sum})
	w.ADDQ(operand.U8(4), from)
	w.ADDQ(operand.U8(8), sum)
	w.DECQ(left)
	w.JNZ(operand.LabelRef("one"))
	w.Label("next")
	w.ADDQ(stride, x)
	w.DECQ(n)
	w.JNZ(operand.LabelRef("row"))
	w.VZEROUPPER()
	w.RET()
}
