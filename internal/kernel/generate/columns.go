package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func (w *writer) bytesToFloats() {
	w.function("bytesToFloats", "func(dst *float32, src *uint8, n int)", "converts n values of src into dst.")
	dst, src, n := w.integer("dst"), w.integer("src"), w.integer("n")
	w.SUBQ(operand.U8(uint8(w.lanes)), n)
	w.JLT(operand.LabelRef("rest"))
	w.Label("several")
	z := w.vector()
	w.VPMOVZXBD(operand.Mem{Base: src}, z)
	w.VCVTDQ2PS(z, z)
	w.VMOVUPS(z, operand.Mem{Base: dst})
	w.ADDQ(operand.U8(uint8(w.lanes)), src)
	w.ADDQ(operand.U8(uint8(w.bytes(1))), dst)
	w.SUBQ(operand.U8(uint8(w.lanes)), n)
	w.JGE(operand.LabelRef("several"))
	w.Label("rest")
	w.ADDQ(operand.U8(uint8(w.lanes)), n)
	w.JZ(operand.LabelRef("done"))
	w.Label("one")
	value, single := w.GP32(), w.XMM()
	w.MOVBLZX(operand.Mem{Base: src}, value)
	w.VXORPS(single, single, single)
	w.VCVTSI2SSL(value, single, single)
	w.VMOVSS(single, operand.Mem{Base: dst})
	w.INCQ(src)
	w.ADDQ(operand.U8(4), dst)
	w.DECQ(n)
	w.JNZ(operand.LabelRef("one"))
	w.Label("done")
	w.VZEROUPPER()
	w.RET()
}

func (w *writer) standardizeRow() {
	w.function("standardizeRow", "func(x, center, scale *float32, n int)", "replaces each of n values by (x − center)·scale, and a NaN by 0.")
	x, center, scale, n := w.integer("x"), w.integer("center"), w.integer("scale"), w.integer("n")
	past := w.GP64()
	w.MOVQ(n, past)
	w.ANDQ(operand.U8(uint8(w.lanes-1)), past)
	m := w.maskOf(past, 1)
	w.SUBQ(operand.U8(uint8(w.lanes)), n)
	w.JLT(operand.LabelRef("rest"))
	w.Label("several")
	z, result := w.vector(), w.vector()
	w.VMOVUPS(operand.Mem{Base: x}, z)
	w.VSUBPS(operand.Mem{Base: center}, z, result)
	w.VMULPS(operand.Mem{Base: scale}, result, result)
	w.dropNaN(z, result)
	w.VMOVUPS(result, operand.Mem{Base: x})
	for _, p := range []reg.GPVirtual{x, center, scale} {
		w.ADDQ(operand.U8(uint8(w.bytes(1))), p)
	}
	w.SUBQ(operand.U8(uint8(w.lanes)), n)
	w.JGE(operand.LabelRef("several"))
	w.Label("rest")
	z, result = w.vector(), w.vector()
	c, s := w.vector(), w.vector()
	w.loadSelected(operand.Mem{Base: x}, m, 0, z)
	w.loadSelected(operand.Mem{Base: center}, m, 0, c)
	w.loadSelected(operand.Mem{Base: scale}, m, 0, s)
	w.VSUBPS(c, z, result)
	w.VMULPS(s, result, result)
	w.dropNaN(z, result)
	w.storeSelected(result, m, 0, operand.Mem{Base: x})
	w.VZEROUPPER()
	w.RET()
}

// half returns a register of half the lanes.
func (w *writer) half() reg.VecVirtual {
	if w.lanes == 16 {
		return w.YMM()
	}
	return w.XMM()
}

// momentsRow sums in float64, so it processes half as many values at a time as a register has lanes.
func (w *writer) momentsRow() {
	w.function("momentsRow", "func(sums, squares, present *float64, x, center *float32, weight float64, n int)",
		"replaces each of n values by z = x − center, and a NaN by 0, and adds weight·z, weight·z² and, except for a NaN, weight.")
	x, center, n := w.integer("x"), w.integer("center"), w.integer("n")
	totals := []reg.GPVirtual{w.integer("sums"), w.integer("squares"), w.integer("present")}
	weight := w.vector()
	w.VBROADCASTSD(w.argument("weight"), weight)
	lanes := w.lanes / 2
	past := w.GP64()
	w.MOVQ(n, past)
	w.ANDQ(operand.U8(uint8(lanes-1)), past)
	single, double := w.halfMask(past)

	// terms returns the centred values, and their contribution to each total.
	terms := func(values, c reg.VecVirtual) (z reg.VecVirtual, terms []reg.VecVirtual) {
		const ordered = operand.U8(7)
		z = w.half()
		double, first, second, third := w.vector(), w.vector(), w.vector(), w.vector()
		w.VSUBPS(c, values, z)
		if w.lanes == 16 {
			k := w.K()
			w.VCMPPS(ordered, values, values, k)
			w.VMOVAPS_Z(z, k, z)
			w.VMOVAPD_Z(weight, k, third)
		} else {
			number := w.XMM()
			w.VCMPPS(ordered, values, values, number)
			w.VANDPS(number, z, z)
			w.VPMOVSXDQ(number, third)
			w.VANDPD(weight, third, third)
		}
		w.VCVTPS2PD(z, double)
		w.VMULPD(weight, double, first)
		w.VMULPD(double, first, second)
		return z, []reg.VecVirtual{first, second, third}
	}

	w.SUBQ(operand.U8(uint8(lanes)), n)
	w.JLT(operand.LabelRef("rest"))
	w.Label("several")
	values, c := w.half(), w.half()
	w.VMOVUPS(operand.Mem{Base: x}, values)
	w.VMOVUPS(operand.Mem{Base: center}, c)
	z, added := terms(values, c)
	w.VMOVUPS(z, operand.Mem{Base: x})
	for i, total := range totals {
		w.VADDPD(operand.Mem{Base: total}, added[i], added[i])
		w.VMOVUPD(added[i], operand.Mem{Base: total})
		w.ADDQ(operand.U8(uint8(8*lanes)), total)
	}
	w.ADDQ(operand.U8(uint8(4*lanes)), x)
	w.ADDQ(operand.U8(uint8(4*lanes)), center)
	w.SUBQ(operand.U8(uint8(lanes)), n)
	w.JGE(operand.LabelRef("several"))

	w.Label("rest")
	values, c = w.half(), w.half()
	w.loadSelected(operand.Mem{Base: x}, single, 0, values)
	w.loadSelected(operand.Mem{Base: center}, single, 0, c)
	z, added = terms(values, c)
	w.storeSelected(z, single, 0, operand.Mem{Base: x})
	for i, total := range totals {
		w.addSelected(added[i], double, operand.Mem{Base: total})
	}
	w.VZEROUPPER()
	w.RET()
}

// halfMask returns masks of the first count values of a register of half the lanes, for float32 and for float64.
func (w *writer) halfMask(count reg.GPVirtual) (single, double mask) {
	if w.lanes == 16 {
		m := w.maskOf(count, 1)
		return m, m
	}
	floats, doubles := w.XMM(), w.YMM()
	w.VMOVUPS(operand.Mem{Base: w.selection(count)}, floats)
	w.VPMOVSXDQ(floats, doubles)
	return mask{floats}, mask{doubles}
}

// addSelected adds the selected float64 values to those at an address, and leaves the memory of the others unchanged.
func (w *writer) addSelected(z reg.VecVirtual, m mask, at operand.Mem) {
	old := w.vector()
	if w.lanes == 16 {
		w.VMOVUPD_Z(at, m[0], old)
		w.VADDPD(old, z, old)
		w.VMOVUPD(old, m[0], at)
		return
	}
	w.VMASKMOVPD(at, m[0], old)
	w.VADDPD(old, z, old)
	w.VMASKMOVPD(old, m[0], at)
}
