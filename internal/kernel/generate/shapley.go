package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of a ShapleyNode, and its size.
const (
	shapleyShares      = 64
	shapleyColumn      = 72
	shapleyPlace       = 76
	shapleyPoints      = 80
	shapleyBelow       = 84
	shapleyAbove       = 92
	shapleyAbovePoints = 96
	shapleyAboveShare  = 100
	shapleyNode        = 104
)

// shapleyVectors is the number of registers for a value of all rows.
const shapleyVectors = 2

func (w *writer) reachNodes() {
	w.function("reachNodes", "func(reached *float32, nodes *uint32, points *float32, codes *uint8, n, count, stride int)",
		"is ShapleyTree.reach for n nodes and count points, which begin stride bytes apart; n, count > 0.")
	to, node, plane, stride, left := w.integer("reached"), w.integer("nodes"), w.integer("n"), w.integer("stride"), w.integer("n")
	w.SHLQ(operand.U8(6), plane) // bytes of a point
	w.JMP(operand.LabelRef("effects"))

	w.Label("node")
	from, known, last, points := w.field(shapleyAbove, node), w.field(shapleyAbovePoints, node), w.GP64(), w.integer("count")
	w.SHLQ(operand.U8(6), from)
	w.ADDQ(w.argument("reached"), from)
	w.SHLQ(operand.U8(2), known)
	w.ADDQ(w.argument("points"), known)
	effect, share := w.values(from), w.YMM()
	w.VBROADCASTSS(operand.Mem{Base: node, Disp: shapleyAboveShare}, share)
	w.MOVQ(to, last)
	w.Label("point")
	w.ADDQ(plane, from)
	w.ADDQ(plane, last)
	for i := range effect {
		z := w.YMM()
		w.VBROADCASTSS(operand.Mem{Base: known}, z)
		w.VFMADD213PS(share, effect[i], z)
		w.VMULPS(at(from, i), z, z)
		w.VMOVUPS(z, at(last, i))
	}
	w.ADDQ(stride, known)
	w.DECQ(points)
	w.JNZ(operand.LabelRef("point"))

	w.Label("effects")
	codes, zero, shares := w.field(shapleyColumn, node), w.YMM(), w.row(2)
	w.SHLQ(operand.U8(4), codes)
	w.ADDQ(w.argument("codes"), codes)
	w.zero(zero)
	for side, z := range shares {
		w.VBROADCASTSS(operand.Mem{Base: node, Disp: shapleyShares + 4*side}, z)
	}
	for i := range shapleyVectors {
		low, high, added := w.YMM(), w.YMM(), w.row(2)
		w.VPMOVZXBD(operand.Mem{Base: codes, Disp: lanes * i}, low)
		w.VPSRLD(operand.U8(3), low, high)
		for side, z := range added {
			w.VPERMD(operand.Mem{Base: node, Disp: 4 * lanes * side}, low, z)
			w.VPSLLVD(high, z, z)
			w.VBLENDVPS(z, shares[1-side], zero, z)
		}
		w.VSUBPS(added[1], added[0], added[0])
		w.VMOVUPS(added[0], at(to, i))
	}
	w.ADDQ(operand.U8(4*lanes*shapleyVectors), to)
	w.ADDQ(operand.U8(shapleyNode), node)
	w.DECQ(left)
	w.JNZ(operand.LabelRef("node"))
	w.VZEROUPPER()
	w.RET()
}

func (w *writer) meanOfNodes() {
	w.function("meanOfNodes",
		"func(sums *float64, means, leaves, reached *float32, nodes *uint32, points *float32, n, count, stride int)",
		"is ShapleyTree.mean for n nodes and count points, which begin stride bytes apart; scores of leaves begin n before those of the "+
			"first; n, count > 0.")
	node, n, plane, last := w.integer("nodes"), w.integer("n"), w.integer("n"), w.GP64()
	w.SHLQ(operand.U8(6), plane) // bytes of a point
	w.IMUL3Q(operand.U32(shapleyNode), n, last)
	w.ADDQ(last, node)
	w.MOVQ(plane, last)

	w.Label("node")
	w.SUBQ(operand.U8(shapleyNode), node)
	w.SUBQ(operand.U8(4*lanes*shapleyVectors), last)
	reached, to, left, known := w.integer("reached"), w.integer("means"), w.integer("count"), w.field(shapleyPoints, node)
	w.ADDQ(last, reached)
	w.ADDQ(last, to)
	w.SHLQ(operand.U8(2), known)
	w.ADDQ(w.argument("points"), known)
	effect, sum, share := w.values(reached), w.row(shapleyVectors), w.YMM()
	for _, z := range sum {
		w.zero(z)
	}
	w.VBROADCASTSS(operand.Mem{Base: node, Disp: shapleyShares}, share)
	var below, step [2]reg.GPVirtual // a leaf has the same score at all points
	for side := range below {
		index, from := w.field(shapleyBelow+4*side, node), w.integer("means")
		step[side], below[side] = w.GP64(), index
		w.XORQ(step[side], step[side])
		w.CMPQ(index, n)
		w.CMOVQLT(plane, step[side])
		w.CMOVQGE(w.argument("leaves"), from)
		w.SHLQ(operand.U8(6), index)
		w.ADDQ(from, index)
	}
	w.Label("point")
	w.ADDQ(plane, reached)
	slope := w.YMM()
	w.VBROADCASTSS(operand.Mem{Base: known, Disp: 8}, slope)
	for i := range shapleyVectors {
		difference, right, product, z := w.YMM(), w.YMM(), w.YMM(), w.YMM()
		w.VMOVUPS(at(below[0], i), difference)
		w.VMOVUPS(at(below[1], i), right)
		w.VSUBPS(right, difference, difference)
		w.VMULPS(at(reached, i), slope, product)
		w.VFMADD231PS(product, difference, sum[i])
		w.VBROADCASTSS(operand.Mem{Base: known}, z)
		w.VFMADD213PS(share, effect[i], z)
		w.VFMADD213PS(right, difference, z)
		w.VMOVUPS(z, at(to, i))
	}
	w.ADDQ(plane, to)
	for side := range below {
		w.ADDQ(step[side], below[side])
	}
	w.ADDQ(w.argument("stride"), known)
	w.DECQ(left)
	w.JNZ(operand.LabelRef("point"))
	sums := w.field(shapleyPlace, node)
	w.SHLQ(operand.U8(7), sums)
	w.ADDQ(w.argument("sums"), sums)
	for i, z := range sum {
		w.VMULPS(effect[i], z, z)
		for half := range 2 {
			four, added := w.XMM(), w.YMM()
			w.VEXTRACTF128(operand.U8(half), z, four)
			w.VCVTPS2PD(four, added)
			w.VADDPD(at(sums, 2*i+half), added, added)
			w.VMOVUPD(added, at(sums, 2*i+half))
		}
	}
	w.TESTQ(last, last)
	w.JNZ(operand.LabelRef("node"))
	w.VZEROUPPER()
	w.RET()
}

// field loads an integer of a node.
func (w *writer) field(offset int, node reg.GPVirtual) reg.GPVirtual {
	r := w.GP64()
	w.MOVLQSX(operand.Mem{Base: node, Disp: offset}, r)
	return r
}

// values loads the values of all rows.
func (w *writer) values(from reg.GPVirtual) row {
	r := w.row(shapleyVectors)
	for i, z := range r {
		w.VMOVUPS(at(from, i), z)
	}
	return r
}
