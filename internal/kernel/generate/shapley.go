package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of a ShapleyNode, and its size.
const (
	shapleyShares = 64
	shapleyColumn = 72
	shapleyPlace  = 76
	shapleyPoints = 80
	shapleyAbove  = 84
	shapleySide   = 88
	shapleyBelow  = 92
	shapleyNode   = 100
)

// shapleyVectors is the number of registers that hold a value of all rows of a group.
const shapleyVectors = 2

func (w *writer) reachNodes() {
	w.function("reachNodes", "func(reached, effects *float32, nodes *uint32, points *float32, codes *uint8, n, count int)",
		"is ShapleyTree.reach for n nodes and count points; n, count > 0.")
	effects, node, to := w.integer("effects"), w.integer("nodes"), w.integer("reached")
	count, n := w.integer("count"), w.integer("n")
	size := w.GP64() // of a row of reached
	w.MOVQ(count, size)
	w.SHLQ(operand.U8(6), size)
	w.ADDQ(size, to) // all rows reach the root
	w.JMP(operand.LabelRef("effects"))

	w.Label("node")
	above, known, from, side, left := w.GP64(), w.GP64(), w.GP64(), w.GP64(), w.GP64()
	w.MOVLQSX(operand.Mem{Base: node, Disp: shapleyAbove}, from)
	w.MOVQ(from, above)
	w.SHLQ(operand.U8(6), from)
	w.ADDQ(w.argument("effects"), from)
	effect := w.load(from, 0)
	w.IMUL3Q(operand.U32(shapleyNode), above, from)
	w.ADDQ(w.argument("nodes"), from)
	w.IMULQ(size, above)
	w.ADDQ(w.argument("reached"), above)
	w.MOVLQSX(operand.Mem{Base: node, Disp: shapleySide}, side)
	share := w.YMM()
	w.VBROADCASTSS(operand.Mem{Base: from, Index: side, Scale: 4, Disp: shapleyShares}, share)
	w.pointsOf(from, count, known)
	w.IMULQ(count, side)
	w.LEAQ(operand.Mem{Base: known, Index: side, Scale: 4}, known)
	w.MOVQ(count, left)
	w.Label("point")
	for i := range shapleyVectors {
		z := w.YMM()
		w.VBROADCASTSS(operand.Mem{Base: known}, z)
		w.VFMADD213PS(share, effect[i], z)
		w.VMULPS(at(above, i), z, z)
		w.VMOVUPS(z, at(to, i))
	}
	w.ADDQ(operand.U8(4), known)
	w.ADDQ(operand.U8(4*lanes*shapleyVectors), above)
	w.ADDQ(operand.U8(4*lanes*shapleyVectors), to)
	w.DECQ(left)
	w.JNZ(operand.LabelRef("point"))

	w.Label("effects")
	column, zero := w.GP64(), w.YMM()
	w.MOVLQSX(operand.Mem{Base: node, Disp: shapleyColumn}, column)
	w.SHLQ(operand.U8(4), column)
	w.ADDQ(w.argument("codes"), column)
	w.zero(zero)
	var parts [2]reg.VecVirtual
	for side := range parts {
		parts[side] = w.YMM()
		w.VBROADCASTSS(operand.Mem{Base: node, Disp: shapleyShares + 4*(1-side)}, parts[side])
	}
	for i := range shapleyVectors {
		codes, high := w.YMM(), w.YMM()
		w.VPMOVZXBD(operand.Mem{Base: column, Disp: lanes * i}, codes)
		w.VPSRLD(operand.U8(3), codes, high)
		var added row
		for side, part := range parts {
			passing, z := w.YMM(), w.YMM()
			w.VPERMD(operand.Mem{Base: node, Disp: 4 * lanes * side}, codes, passing)
			w.VPSLLVD(high, passing, passing)
			w.VBLENDVPS(passing, part, zero, z)
			added = append(added, z)
		}
		w.VSUBPS(added[1], added[0], added[0])
		w.VMOVUPS(added[0], at(effects, i))
	}
	w.ADDQ(operand.U8(4*lanes*shapleyVectors), effects)
	w.ADDQ(operand.U8(shapleyNode), node)
	w.DECQ(n)
	w.JNZ(operand.LabelRef("node"))
	w.VZEROUPPER()
	w.RET()
}

// load returns a value of all rows of a group.
func (w *writer) load(from reg.GPVirtual, disp int) row {
	r := w.row(shapleyVectors)
	for i, z := range r {
		w.VMOVUPS(operand.Mem{Base: from, Disp: disp + 4*lanes*i}, z)
	}
	return r
}

// pointsOf writes the address of the points of a node to at.
func (w *writer) pointsOf(node, count, at reg.GPVirtual) {
	w.MOVLQSX(operand.Mem{Base: node, Disp: shapleyPoints}, at)
	w.LEAQ(operand.Mem{Base: at, Index: at, Scale: 2}, at)
	w.IMULQ(count, at)
	w.SHLQ(operand.U8(2), at)
	w.ADDQ(w.argument("points"), at)
}

func (w *writer) meanOfNodes() {
	w.function("meanOfNodes",
		"func(sums *float64, means, leaves, reached, effects *float32, nodes *uint32, points *float32, n, count int)",
		"is ShapleyTree.mean for n nodes and count points; n, count > 0.")
	node, n, count := w.integer("nodes"), w.integer("n"), w.integer("count")
	effects, reached, to := w.integer("effects"), w.integer("reached"), w.integer("means")
	size, index := w.GP64(), w.GP64()
	w.MOVQ(count, size)
	w.SHLQ(operand.U8(6), size)
	w.MOVQ(n, index)
	w.IMULQ(size, index)
	w.ADDQ(index, reached)
	w.ADDQ(index, to)
	w.IMUL3Q(operand.U32(shapleyNode), n, index)
	w.ADDQ(index, node)
	w.MOVQ(n, index)
	w.SHLQ(operand.U8(6), index)
	w.ADDQ(index, effects)

	w.Label("node")
	w.SUBQ(operand.U8(shapleyNode), node)
	w.SUBQ(operand.U8(4*lanes*shapleyVectors), effects)
	w.SUBQ(size, to)
	w.SUBQ(size, reached)
	known, slopes, from := w.GP64(), w.GP64(), w.GP64()
	w.pointsOf(node, count, known)
	w.LEAQ(operand.Mem{Base: known, Index: count, Scale: 8}, slopes)
	effect, sum, share := w.load(effects, 0), w.row(shapleyVectors), w.YMM()
	for _, z := range sum {
		w.zero(z)
	}
	w.VBROADCASTSS(operand.Mem{Base: node, Disp: shapleyShares}, share)
	var below [2]reg.GPVirtual
	for side := range below {
		below[side] = w.GP64()
		w.MOVLQSX(operand.Mem{Base: node, Disp: shapleyBelow + 4*side}, below[side])
	}
	w.XORQ(from, from)
	w.CMPQ(below[0], w.argument("n"))
	w.JGE(operand.LabelRef("left_leaf"))
	for _, leaves := range [][2]bool{{false, false}, {false, true}, {true, false}, {true, true}} {
		name := fmt.Sprintf("%t_%t_", leaves[0], leaves[1])
		if leaves == [2]bool{true, false} {
			w.Label("left_leaf")
		}
		if !leaves[1] {
			w.CMPQ(below[1], w.argument("n"))
			w.JGE(operand.LabelRef(fmt.Sprintf("%t_true_begin", leaves[0])))
		}
		w.Label(name + "begin")
		var values [2]row
		for side, leaf := range leaves {
			if values[side] = w.row(shapleyVectors); leaf {
				w.SUBQ(w.argument("n"), below[side])
				w.SHLQ(operand.U8(2), below[side])
				w.ADDQ(w.argument("leaves"), below[side])
				w.VBROADCASTSS(operand.Mem{Base: below[side]}, values[side][0])
				values[side] = row{values[side][0], values[side][0]}
			} else {
				w.IMULQ(size, below[side])
				w.ADDQ(w.argument("means"), below[side])
			}
		}
		w.Label(name + "point")
		slope := w.YMM()
		w.VBROADCASTSS(operand.Mem{Base: slopes}, slope)
		for i := range shapleyVectors {
			difference, product, z := w.YMM(), w.YMM(), w.YMM()
			for side, leaf := range leaves {
				if !leaf {
					w.VMOVUPS(operand.Mem{Base: below[side], Index: from, Scale: 1, Disp: 4 * lanes * i}, values[side][i])
				}
			}
			w.VSUBPS(values[1][i], values[0][i], difference)
			w.VMULPS(operand.Mem{Base: reached, Index: from, Scale: 1, Disp: 4 * lanes * i}, slope, product)
			w.VFMADD231PS(product, difference, sum[i])
			w.VBROADCASTSS(operand.Mem{Base: known}, z)
			w.VFMADD213PS(share, effect[i], z)
			w.VFMADD213PS(values[1][i], difference, z)
			w.VMOVUPS(z, operand.Mem{Base: to, Index: from, Scale: 1, Disp: 4 * lanes * i})
		}
		w.ADDQ(operand.U8(4), known)
		w.ADDQ(operand.U8(4), slopes)
		w.ADDQ(operand.U8(4*lanes*shapleyVectors), from)
		w.CMPQ(from, size)
		w.JNE(operand.LabelRef(name + "point"))
		if leaves != [2]bool{true, true} {
			w.JMP(operand.LabelRef("sums"))
		}
	}
	w.Label("sums")
	at := w.GP64()
	w.MOVLQSX(operand.Mem{Base: node, Disp: shapleyPlace}, at)
	w.SHLQ(operand.U8(7), at)
	w.ADDQ(w.argument("sums"), at)
	for i, z := range sum {
		w.VMULPS(effect[i], z, z)
		for half := range 2 {
			four, added := w.XMM(), w.YMM()
			place := operand.Mem{Base: at, Disp: 8*lanes*i + 4*lanes*half}
			w.VEXTRACTF128(operand.U8(half), z, four)
			w.VCVTPS2PD(four, added)
			w.VADDPD(place, added, added)
			w.VMOVUPD(added, place)
		}
	}
	w.CMPQ(node, w.argument("nodes"))
	w.JNE(operand.LabelRef("node"))
	w.VZEROUPPER()
	w.RET()
}
