package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The narrow products process a few rows of x at a time. They add in the order of the columns (or of the rows), for any
// group size, so a value does not depend on the number of rows per call.

// rowsOf holds multiples of the row stride in bytes.
type rowsOf struct{ one, three, five, seven reg.GPVirtual }

// rowsOf returns the multiples of a stride, which it converts from values to bytes.
func (w *writer) rowsOf(stride reg.GPVirtual) rowsOf {
	r := rowsOf{one: stride, three: w.GP64(), five: w.GP64()}
	w.SHLQ(operand.U8(2), r.one)
	w.LEAQ(operand.Mem{Base: r.one, Index: r.one, Scale: 2}, r.three)
	w.LEAQ(operand.Mem{Base: r.one, Index: r.one, Scale: 4}, r.five)
	if w.rows > 6 {
		r.seven = w.GP64()
		w.LEAQ(operand.Mem{Base: r.three, Index: r.one, Scale: 4}, r.seven)
	}
	return r
}

// at returns the address of a byte of row i < 8, relative to base.
func (r rowsOf) at(base reg.GPVirtual, i, offset int) operand.Mem {
	m := operand.Mem{Base: base, Disp: offset}
	if i > 0 {
		m.Index = []reg.GPVirtual{1: r.one, 2: r.one, 3: r.three, 4: r.one, 5: r.five, 6: r.three, 7: r.seven}[i]
		m.Scale = []uint8{1: 1, 2: 2, 3: 1, 4: 4, 5: 1, 6: 2, 7: 1}[i]
	}
	return m
}

// next advances base by 1, 4, 6 or 8 rows.
func (w *writer) next(base reg.GPVirtual, r rowsOf, rows int) {
	m := operand.Mem{Base: base, Index: r.one, Scale: uint8(rows)}
	if rows == 6 {
		m.Index, m.Scale = r.three, 2
	}
	w.LEAQ(m, base)
}

// eachGroup processes n rows: in groups as large as the registers allow, then in a group of four, the remainder of a
// tile of 64 with AVX2, then one by one. Rows of k values use one register if they fit. do writes the code for a group;
// it must advance the pointers past the group's rows. eachGroup ends the function.
func (w *writer) eachGroup(n reg.GPVirtual, do func(group string, rows, registers int)) {
	for registers := narrow / w.lanes; registers > 0; registers-- {
		width := []string{1: "narrow_", 2: "wide_"}[registers]
		if registers > 1 {
			w.CMPQ(w.integer("k"), operand.U8(uint8(w.lanes)))
			w.JLE(operand.LabelRef("narrow_several"))
		}
		for _, g := range []struct {
			name string
			rows int
		}{{width + "several", w.rows}, {width + "four", 4}, {width + "one", 1}} {
			w.Label(g.name)
			w.CMPQ(n, operand.U8(uint8(g.rows)))
			w.JLT(operand.LabelRef(g.name + "_end"))
			do(g.name, g.rows, registers)
			w.SUBQ(operand.U8(uint8(g.rows)), n)
			w.JMP(operand.LabelRef(g.name))
			w.Label(g.name + "_end")
		}
		w.VZEROUPPER()
		w.RET()
	}
}

const wide = 4 * narrow // bytes of a padded row

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
		add := func(load func(operand.Mem, int, reg.VecVirtual), store func(reg.VecVirtual, int, operand.Mem)) {
			for _, sum := range sums {
				for i, z := range sum {
					old, to := w.vector(), operand.Mem{Base: dst, Disp: w.bytes(i)}
					load(to, i, old)
					w.VADDPS(old, z, old)
					store(old, i, to)
				}
				w.ADDQ(step, dst)
			}
		}
		if w.lanes < narrow {
			w.CMPQ(k, operand.U8(uint8(w.lanes*registers)))
			w.JNE(operand.LabelRef(group + "_masked"))
			add(func(from operand.Mem, _ int, z reg.VecVirtual) { w.VMOVUPS(from, z) }, func(z reg.VecVirtual, _ int,
				to operand.Mem) {
				w.VMOVUPS(z, to)
			})
			w.JMP(operand.LabelRef(group + "_added"))
			w.Label(group + "_masked")
		}
		m := w.maskOf(k, registers)
		add(func(from operand.Mem, i int, z reg.VecVirtual) { w.loadSelected(from, m, i, z) }, func(z reg.VecVirtual, i int,
			to operand.Mem) {
			w.storeSelected(z, m, i, to)
		})
		w.Label(group + "_added")
	}
	w.eachGroup(n, func(group string, count, registers int) {
		at, weights, left := w.GP64(), w.integer("w"), w.integer("p")
		w.MOVQ(x, at)
		sums := make([]row, count)
		for i := range sums {
			sums[i] = w.row(registers)
		}
		together, prefetch := 1, func() {}
		if count > 1 {
			together = 16
		}
		if count > 1 && w.prefetch {
			w.Comment("Prefetch the next rows: the hardware prefetcher misses them.")
			ahead := w.GP64()
			w.MOVQ(x, ahead)
			w.next(ahead, rows, count)
			prefetch = func() {
				for i := range count {
					w.PREFETCHT0(rows.at(ahead, i, 0))
				}
				w.ADDQ(operand.U8(64), ahead)
			}
		}
		w.products(group, rows, at, weights, left, sums, together, prefetch)
		store(group, sums)
		w.next(x, rows, count)
	})
}

// products sets the sums of each row to the products of left > 0 columns, in groups of together columns, and calls
// first before each group. It advances at and weights past the columns.
func (w *writer) products(name string, rows rowsOf, at, weights, left reg.GPVirtual, sums []row, together int, before func()) {
	for _, sum := range sums {
		for _, z := range sum {
			w.zero(z)
		}
	}
	if together > 1 {
		w.SUBQ(operand.U8(uint8(together)), left)
		w.JLT(operand.LabelRef(name + "_few"))
		w.Label(name + "_several")
		before()
		for i := range together {
			w.addColumn(rows, at, weights, 4*i, sums)
		}
		w.ADDQ(operand.U8(uint8(4*together)), at)
		w.ADDQ(operand.U32(uint32(together*wide)), weights)
		w.SUBQ(operand.U8(uint8(together)), left)
		w.JGE(operand.LabelRef(name + "_several"))
		w.Label(name + "_few")
		w.ADDQ(operand.U8(uint8(together)), left)
		w.JZ(operand.LabelRef(name + "_summed"))
	}
	w.Label(name + "_column")
	w.addColumn(rows, at, weights, 0, sums)
	w.ADDQ(operand.U8(4), at)
	w.ADDQ(operand.U8(wide), weights)
	w.DECQ(left)
	w.JNZ(operand.LabelRef(name + "_column"))
	w.Label(name + "_summed")
}

// addColumn multiplies the value at the given byte offset from at in each row by the weights of its column, and adds
// the products to the row's sums.
func (w *writer) addColumn(rows rowsOf, at, weights reg.GPVirtual, offset int, sums []row) {
	factors := w.row(len(sums[0]))
	for i, z := range factors {
		w.VMOVUPS(operand.Mem{Base: weights, Disp: narrow*offset + w.bytes(i)}, z)
	}
	for i, sum := range sums {
		w.addProduct(rows.at(at, i, offset), factors, sum)
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

	feature := func(at, to reg.GPVirtual, offset int, residuals []row) {
		sums := w.row(len(residuals[0]))
		for i, z := range sums {
			w.VMOVUPS(operand.Mem{Base: to, Disp: narrow*offset + w.bytes(i)}, z)
		}
		for i, factors := range residuals {
			w.addProduct(rows.at(at, i, offset), factors, sums)
		}
		for i, z := range sums {
			w.VMOVUPS(z, operand.Mem{Base: to, Disp: narrow*offset + w.bytes(i)})
		}
	}

	w.eachGroup(n, func(group string, count, registers int) {
		m := w.maskOf(w.integer("k"), registers)
		residuals := make([]row, count)
		for j := range residuals {
			residuals[j] = w.row(registers)
			for i, z := range residuals[j] {
				w.loadSelected(operand.Mem{Base: r, Disp: w.bytes(i)}, m, i, z)
			}
			w.ADDQ(step, r)
		}
		at, to, left := w.GP64(), w.integer("sum"), w.integer("p")
		w.MOVQ(x, at)
		w.SUBQ(operand.U8(8), left)
		w.JLT(operand.LabelRef(group + "_few"))
		w.Label(group + "_features")
		for i := range 8 {
			feature(at, to, 4*i, residuals)
		}
		w.ADDQ(operand.U8(32), at)
		w.ADDQ(operand.U32(8*wide), to)
		w.SUBQ(operand.U8(8), left)
		w.JGE(operand.LabelRef(group + "_features"))
		w.Label(group + "_few")
		w.ADDQ(operand.U8(8), left)
		w.JZ(operand.LabelRef(group + "_next"))
		w.Label(group + "_feature")
		feature(at, to, 0, residuals)
		w.ADDQ(operand.U8(4), at)
		w.ADDQ(operand.U8(wide), to)
		w.DECQ(left)
		w.JNZ(operand.LabelRef(group + "_feature"))
		w.Label(group + "_next")
		w.next(x, rows, count)
	})
}
