package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// leafRows is the number of rows that addLeafRows processes at a time: the additions to one row form a dependency
// chain, and four chains overlap.
const leafRows = 4

func (w *writer) addLeafRows() {
	w.function("addLeafRows", "func(scores *float32, leaves *uint8, w *float32, rows, count, each, k, stride int)",
		"adds the rows of w of its leaves in count trees to the first k ≤ 16 values of each row of scores, tree after tree; "+
			"leaves is count×rows, a tree has each rows of w, and rows of scores and of w begin stride values apart; "+
			"rows, count, k > 0.")
	scores, leaves, left := w.integer("scores"), w.integer("leaves"), w.integer("rows")
	k, stride, tree := w.integer("k"), w.integer("stride"), w.integer("each")
	w.SHLQ(operand.U8(2), stride)
	w.IMULQ(stride, tree) // bytes of w per tree
	leaf, from, rows := w.GP64(), w.GP64(), w.integer("rows")
	w.CMPQ(k, operand.U8(lanes))
	w.JLE(operand.LabelRef("narrow_begin"))
	for _, width := range []struct {
		prefix    string
		registers int
	}{{"wide_", 2}, {"narrow_", 1}} {
		w.Label(width.prefix + "begin")
		m := w.maskOf(k, width.registers)
		w.Label(width.prefix + "rows")
		w.CMPQ(left, operand.U8(leafRows))
		w.JL(operand.LabelRef(width.prefix + "rest"))
		w.addTrees(width.prefix+"tree", leafRows, scores, leaves, leaf, from, rows, stride, tree, m)
		w.ADDQ(operand.U8(leafRows), leaves)
		w.SUBQ(operand.U8(leafRows), left)
		w.JMP(operand.LabelRef(width.prefix + "rows"))

		w.Label(width.prefix + "rest")
		w.TESTQ(left, left)
		w.JZ(operand.LabelRef(width.prefix + "done"))
		w.addTrees(width.prefix+"last", 1, scores, leaves, leaf, from, rows, stride, tree, m)
		w.INCQ(leaves)
		w.DECQ(left)
		w.JMP(operand.LabelRef(width.prefix + "rest"))

		w.Label(width.prefix + "done")
		w.VZEROUPPER()
		w.RET()
	}
}

// addTrees adds the leaves of the given rows in all trees to their scores, and advances scores past these rows.
func (w *writer) addTrees(label string, n int, scores, leaves, leaf, from, rows, stride, tree reg.GPVirtual, m row) {
	sums := make([]row, n)
	w.MOVQ(scores, from)
	for r := range sums {
		sums[r] = w.row(len(m))
		for i, z := range sums[r] {
			w.VMASKMOVPS(at(from, i), m[i], z)
		}
		w.ADDQ(stride, from)
	}
	trees, weights := w.GP64(), w.GP64()
	w.Load(w.Param("count"), trees)
	w.Load(w.Param("w"), weights)
	w.MOVQ(leaves, leaf)
	w.Label(label)
	for r := range sums {
		w.MOVBQZX(operand.Mem{Base: leaf, Disp: r}, from)
		w.IMULQ(stride, from)
		w.ADDQ(weights, from)
		for i, z := range sums[r] {
			added := w.YMM()
			w.VMASKMOVPS(at(from, i), m[i], added)
			w.VADDPS(added, z, z)
		}
	}
	w.ADDQ(rows, leaf)
	w.ADDQ(tree, weights)
	w.DECQ(trees)
	w.JNZ(operand.LabelRef(label))
	for r := range sums {
		for i, z := range sums[r] {
			w.VMASKMOVPS(z, m[i], at(scores, i))
		}
		w.ADDQ(stride, scores)
	}
}

// addLeafResiduals adds whole registers, then two values, then one, so that it accesses no memory past a row.
func (w *writer) addLeafResiduals() {
	w.function("addLeafResiduals", "func(sums *float64, leaves *uint8, residuals *float32, n, k int)",
		"adds n rows of k residuals to the rows of sums of their leaves; n, k > 0.")
	sums, leaves, residuals, n, k := w.integer("sums"), w.integer("leaves"), w.integer("residuals"), w.integer("n"), w.integer("k")
	at, left, size := w.GP64(), w.GP64(), w.GP64()
	w.MOVQ(k, size)
	w.SHLQ(operand.U8(3), size)

	w.Label("row")
	w.MOVBQZX(operand.Mem{Base: leaves}, at)
	w.IMULQ(size, at)
	w.ADDQ(sums, at)
	w.MOVQ(k, left)
	w.SUBQ(operand.U8(4), left)
	w.JLT(operand.LabelRef("pair"))
	w.Label("several")
	four := w.YMM()
	w.VCVTPS2PD(operand.Mem{Base: residuals}, four)
	w.VADDPD(operand.Mem{Base: at}, four, four)
	w.VMOVUPD(four, operand.Mem{Base: at})
	w.ADDQ(operand.U8(16), residuals)
	w.ADDQ(operand.U8(32), at)
	w.SUBQ(operand.U8(4), left)
	w.JGE(operand.LabelRef("several"))
	w.Label("pair")
	w.TESTQ(operand.U32(2), left)
	w.JZ(operand.LabelRef("single"))
	two := w.XMM()
	w.VCVTPS2PD(operand.Mem{Base: residuals}, two)
	w.VADDPD(operand.Mem{Base: at}, two, two)
	w.VMOVUPD(two, operand.Mem{Base: at})
	w.ADDQ(operand.U8(8), residuals)
	w.ADDQ(operand.U8(16), at)
	w.Label("single")
	w.TESTQ(operand.U32(1), left)
	w.JZ(operand.LabelRef("next"))
	one := w.XMM()
	w.VXORPD(one, one, one)
	w.VCVTSS2SD(operand.Mem{Base: residuals}, one, one)
	w.VADDSD(operand.Mem{Base: at}, one, one)
	w.VMOVSD(one, operand.Mem{Base: at})
	w.ADDQ(operand.U8(4), residuals)
	w.Label("next")
	w.INCQ(leaves)
	w.DECQ(n)
	w.JNZ(operand.LabelRef("row"))
	w.VZEROUPPER()
	w.RET()
}
