package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// leafRows is how many rows addLeafRows processes at a time: an addition waits for the one before it in its row, and four rows wait at
// the same time.
const leafRows = 4

// addLeafRows is for AVX2 alone: measured on an EPYC with AVX-512, a leaf of two values takes 4.7 ns with its masks instead of 0.8, and one
// of seven 3.5 instead of 1.1.
func (w *writer) addLeafRows(name string, registers int) {
	w.function(name, "func(scores *float32, leaves *uint8, w *float32, rows, count, each, k, stride int)",
		fmt.Sprintf("adds to the first k ≤ %d values of each row of scores the rows of w of its leaves in count trees, tree after tree; leaves "+
			"has those of all rows in the first tree first; a tree has each rows of w; rows of scores and of w begin stride values apart; "+
			"rows, count, k > 0.", registers*w.lanes))
	scores, leaves, left := w.integer("scores"), w.integer("leaves"), w.integer("rows")
	m := w.maskOf(w.integer("k"), registers)
	stride, tree := w.integer("stride"), w.integer("each")
	w.SHLQ(operand.U8(2), stride)
	w.IMULQ(stride, tree) // bytes of w that a tree has
	at, from, rows := w.GP64(), w.GP64(), w.integer("rows")

	w.Label("rows")
	w.CMPQ(left, operand.U8(leafRows))
	w.JL(operand.LabelRef("rest"))
	w.addTrees("tree", leafRows, scores, leaves, at, from, rows, stride, tree, m)
	w.ADDQ(operand.U8(leafRows), leaves)
	w.SUBQ(operand.U8(leafRows), left)
	w.JMP(operand.LabelRef("rows"))

	w.Label("rest")
	w.TESTQ(left, left)
	w.JZ(operand.LabelRef("done"))
	w.addTrees("last", 1, scores, leaves, at, from, rows, stride, tree, m)
	w.INCQ(leaves)
	w.DECQ(left)
	w.JMP(operand.LabelRef("rest"))

	w.Label("done")
	w.VZEROUPPER()
	w.RET()
}

// addTrees adds the leaves of some rows in all trees to their scores, and makes scores the address of the rows after them.
func (w *writer) addTrees(label string, n int, scores, leaves, at, from, rows, stride, tree reg.GPVirtual, m mask) {
	sums := make([]row, n)
	w.MOVQ(scores, from)
	for r := range sums {
		sums[r] = w.row(len(m))
		for i, z := range sums[r] {
			w.loadSelected(operand.Mem{Base: from, Disp: w.bytes(i)}, m, i, z)
		}
		w.ADDQ(stride, from)
	}
	trees, weights := w.GP64(), w.GP64()
	w.Load(w.Param("count"), trees)
	w.Load(w.Param("w"), weights)
	w.MOVQ(leaves, at)
	w.Label(label)
	for r := range sums {
		w.MOVBQZX(operand.Mem{Base: at, Disp: r}, from)
		w.IMULQ(stride, from)
		w.ADDQ(weights, from)
		for i, z := range sums[r] {
			leaf := w.vector()
			w.loadSelected(operand.Mem{Base: from, Disp: w.bytes(i)}, m, i, leaf)
			w.VADDPS(leaf, z, z)
		}
	}
	w.ADDQ(rows, at)
	w.ADDQ(tree, weights)
	w.DECQ(trees)
	w.JNZ(operand.LabelRef(label))
	for r := range sums {
		for i, z := range sums[r] {
			w.storeSelected(z, m, i, operand.Mem{Base: scores, Disp: w.bytes(i)})
		}
		w.ADDQ(stride, scores)
	}
}
