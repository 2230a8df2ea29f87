package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The narrow products process a few rows of x at a time. They add in the order of the columns (or of the rows), for any
// group size, so a value does not depend on the number of rows per call.

// rowsOf holds multiples of the row stride in bytes.
type rowsOf struct{ one, three, five reg.GPVirtual }

// rowsOf returns the multiples of a stride, which it converts from values to bytes.
func (w *writer) rowsOf(stride reg.GPVirtual) rowsOf {
	r := rowsOf{one: stride, three: w.GP64(), five: w.GP64()}
	w.SHLQ(operand.U8(2), r.one)
	w.LEAQ(operand.Mem{Base: r.one, Index: r.one, Scale: 2}, r.three)
	w.LEAQ(operand.Mem{Base: r.one, Index: r.one, Scale: 4}, r.five)
	return r
}

// at returns the address of a byte of row i ≤ 6, relative to base.
func (r rowsOf) at(base reg.GPVirtual, i, offset int) operand.Mem {
	m := operand.Mem{Base: base, Disp: offset}
	if i > 0 {
		m.Index = []reg.GPVirtual{1: r.one, 2: r.one, 3: r.three, 4: r.one, 5: r.five, 6: r.three}[i]
		m.Scale = []uint8{1: 1, 2: 2, 3: 1, 4: 4, 5: 1, 6: 2}[i]
	}
	return m
}

// next advances base by a number of rows.
func (w *writer) next(base reg.GPVirtual, r rowsOf, rows int) { w.LEAQ(r.at(base, rows, 0), base) }

// groups processes n rows in groups of the given sizes, in order: as many as possible of the first size, then of the next, and so on. do
// writes the code for a group; it must advance the pointers past the group's rows. groups ends the function.
func (w *writer) groups(prefix string, n reg.GPVirtual, sizes []int, do func(group string, rows int)) {
	for i, rows := range sizes {
		name := prefix + []string{"several", "few", "one"}[i]
		w.Label(name)
		w.CMPQ(n, operand.U8(rows))
		w.JLT(operand.LabelRef(name + "_end"))
		do(name, rows)
		w.SUBQ(operand.U8(rows), n)
		w.JMP(operand.LabelRef(name))
		w.Label(name + "_end")
	}
	w.VZEROUPPER()
	w.RET()
}

// eachGroup processes n rows: in groups as large as the registers allow, then in a group of four, the remainder of a
// tile of 64, then one by one. Rows of k values use one register if they fit.
func (w *writer) eachGroup(n reg.GPVirtual, do func(group string, rows, registers int)) {
	w.CMPQ(w.integer("k"), operand.U8(lanes))
	w.JLE(operand.LabelRef("narrow_several"))
	for _, width := range []struct {
		prefix    string
		registers int
	}{{"wide_", 2}, {"narrow_", 1}} {
		w.groups(width.prefix, n, []int{tileRows, 4, 1}, func(group string, rows int) { do(group, rows, width.registers) })
	}
}

func (w *writer) mulNarrow() {
	w.function("mulNarrow", "func(dst, x, w *float32, n, p, k, stride int)",
		"computes dst += x·w: x is n×p, w has p rows of 16 values, whose first k ≤ 16 are used, dst is n×k with rows "+
			"that begin stride values apart; p > 0.")
	x, n, dst := w.integer("x"), w.integer("n"), w.integer("dst")
	rows := w.rowsOf(w.integer("p"))
	step := w.integer("stride")
	w.SHLQ(operand.U8(2), step)

	// store adds the sums to dst. A masked store takes ten cycles on Zen 3, so full rows use plain stores.
	store := func(group string, sums []row) {
		k, registers := w.integer("k"), len(sums[0])
		add := func(move func(from, to operand.Op, i int)) {
			for _, sum := range sums {
				for i, z := range sum {
					old := w.YMM()
					move(at(dst, i), old, i)
					w.VADDPS(old, z, old)
					move(old, at(dst, i), i)
				}
				w.ADDQ(step, dst)
			}
		}
		w.CMPQ(k, operand.U8(lanes*registers))
		w.JNE(operand.LabelRef(group + "_masked"))
		add(func(from, to operand.Op, _ int) { w.VMOVUPS(from, to) })
		w.JMP(operand.LabelRef(group + "_added"))
		w.Label(group + "_masked")
		m := w.maskOf(k, registers)
		add(func(from, to operand.Op, i int) { w.VMASKMOVPS(from, m[i], to) })
		w.Label(group + "_added")
	}
	w.eachGroup(n, func(group string, count, registers int) {
		from, weights, left := w.GP64(), w.integer("w"), w.integer("p")
		w.MOVQ(x, from)
		sums := make([]row, count)
		for i := range sums {
			sums[i] = w.row(registers)
		}
		together := 1
		if count > 1 {
			together = 8
		}
		w.products(group, rows, from, weights, left, sums, together)
		store(group, sums)
		w.next(x, rows, count)
	})
}

// products sets the sums of each row to the products of left > 0 columns, in groups of together columns. It advances
// from and weights past the columns.
func (w *writer) products(name string, rows rowsOf, from, weights, left reg.GPVirtual, sums []row, together int) {
	for _, sum := range sums {
		for _, z := range sum {
			w.zero(z)
		}
	}
	if together > 1 {
		w.SUBQ(operand.U8(uint8(together)), left)
		w.JLT(operand.LabelRef(name + "_few"))
		w.Label(name + "_several")
		for i := range together {
			w.addColumn(rows, from, weights, 4*i, sums)
		}
		w.ADDQ(operand.U8(uint8(4*together)), from)
		w.ADDQ(operand.U32(uint32(together*wide)), weights)
		w.SUBQ(operand.U8(uint8(together)), left)
		w.JGE(operand.LabelRef(name + "_several"))
		w.Label(name + "_few")
		w.ADDQ(operand.U8(uint8(together)), left)
		w.JZ(operand.LabelRef(name + "_summed"))
	}
	w.Label(name + "_column")
	w.addColumn(rows, from, weights, 0, sums)
	w.ADDQ(operand.U8(4), from)
	w.ADDQ(operand.U8(wide), weights)
	w.DECQ(left)
	w.JNZ(operand.LabelRef(name + "_column"))
	w.Label(name + "_summed")
}

// addColumn multiplies the value at the given byte offset from from in each row by the weights of its column, and adds
// the products to the row's sums.
func (w *writer) addColumn(rows rowsOf, from, weights reg.GPVirtual, offset int, sums []row) {
	factors := w.row(len(sums[0]))
	for i, z := range factors {
		w.VMOVUPS(at(weights, i).Offset(narrow*offset), z)
	}
	for i, sum := range sums {
		w.addProduct(rows.at(from, i, offset), factors, sum)
	}
}

func (w *writer) crossNarrow() {
	w.function("crossNarrow", "func(sum, x, r *float32, n, p, k, strideX, strideR int)",
		"computes sum += xᵀ·r: x is n×p with rows that begin strideX values apart, r is n×k with k ≤ 16 and rows that "+
			"begin strideR values apart, sum has p rows of 16 values, whose last 16 − k do not change; p > 0.")
	x, r, n := w.integer("x"), w.integer("r"), w.integer("n")
	rows := w.rowsOf(w.integer("strideX"))
	step := w.integer("strideR")
	w.SHLQ(operand.U8(2), step)

	feature := func(from, to reg.GPVirtual, offset int, residuals []row) {
		sums := w.row(len(residuals[0]))
		for i, z := range sums {
			w.VMOVUPS(at(to, i).Offset(narrow*offset), z)
		}
		for i, factors := range residuals {
			w.addProduct(rows.at(from, i, offset), factors, sums)
		}
		for i, z := range sums {
			w.VMOVUPS(z, at(to, i).Offset(narrow*offset))
		}
	}

	w.eachGroup(n, func(group string, count, registers int) {
		m := w.maskOf(w.integer("k"), registers)
		residuals := make([]row, count)
		for j := range residuals {
			residuals[j] = w.row(registers)
			for i, z := range residuals[j] {
				w.VMASKMOVPS(at(r, i), m[i], z)
			}
			w.ADDQ(step, r)
		}
		from, to, left := w.GP64(), w.integer("sum"), w.integer("p")
		w.MOVQ(x, from)
		w.SUBQ(operand.U8(8), left)
		w.JLT(operand.LabelRef(group + "_few"))
		w.Label(group + "_features")
		for i := range 8 {
			feature(from, to, 4*i, residuals)
		}
		w.ADDQ(operand.U8(32), from)
		w.ADDQ(operand.U32(8*wide), to)
		w.SUBQ(operand.U8(8), left)
		w.JGE(operand.LabelRef(group + "_features"))
		w.Label(group + "_few")
		w.ADDQ(operand.U8(8), left)
		w.JZ(operand.LabelRef(group + "_next"))
		w.Label(group + "_feature")
		feature(from, to, 0, residuals)
		w.ADDQ(operand.U8(4), from)
		w.ADDQ(operand.U8(wide), to)
		w.DECQ(left)
		w.JNZ(operand.LabelRef(group + "_feature"))
		w.Label(group + "_next")
		w.next(x, rows, count)
	})
}
