package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// addResponses multiplies a few rows by 16 filters, and adds the responses to their sums while they are in registers.
func (w *writer) addResponses() {
	w.function("addResponses", "func(above, below, mirroredAbove, mirroredBelow, x, w, tile *float32, threshold float32, n, even, odd int)",
		"adds max(z, threshold) to the 16 values of above, and max(−z, threshold) to those of below, for each row z of x·w: x "+
			"is n×(even + odd), w has even + odd rows of 16 values. If odd > 0, it first adds the same for rows with negated last "+
			"odd values to mirroredAbove and mirroredBelow. tile has room for 128 values; n, even > 0.")
	x, n, stride := w.integer("x"), w.integer("n"), w.integer("even")
	w.ADDQ(w.argument("odd"), stride)
	rows := w.rowsOf(stride)
	w.groups("", n, []int{tileRows, 3, 1}, func(group string, count int) {
		w.responses(group, count, rows, x)
		w.next(x, rows, count)
	})
}

// responses processes the rows from x on.
func (w *writer) responses(name string, count int, rows rowsOf, x reg.GPVirtual) {
	from, weights := w.GP64(), w.integer("w")
	w.MOVQ(x, from)
	sums := make([]row, count)
	for i := range sums {
		sums[i] = w.row(narrow / lanes)
	}
	const together = 4
	w.products(name+"_even", rows, from, weights, w.integer("even"), sums, together)
	odd := w.integer("odd")
	w.TESTQ(odd, odd)
	w.JZ(operand.LabelRef(name + "_rectified"))

	tile := w.integer("tile")
	each := func(do func(z reg.VecVirtual, kept operand.Mem)) {
		for i, sum := range sums {
			for j, z := range sum {
				do(z, at(tile, j).Offset(wide*i))
			}
		}
	}
	each(func(z reg.VecVirtual, kept operand.Mem) { w.VMOVUPS(z, kept) })
	w.products(name+"_odd", rows, from, weights, odd, sums, together)
	each(func(z reg.VecVirtual, kept operand.Mem) {
		even, both := w.YMM(), w.YMM()
		w.VMOVUPS(kept, even)
		w.VADDPS(z, even, both)
		w.VMOVUPS(both, kept)
		w.VSUBPS(z, even, z)
	})
	w.rectify(sums, "mirroredAbove", "mirroredBelow")
	each(func(z reg.VecVirtual, kept operand.Mem) { w.VMOVUPS(kept, z) })
	w.Label(name + "_rectified")
	w.rectify(sums, "above", "below")
}

// rectify adds the rectified responses of all rows to the sums at two addresses. It loads the constants itself, as the
// sums leave only four registers.
func (w *writer) rectify(responses []row, above, below string) {
	for _, side := range []struct {
		to  string
		add func(z, limit, limited, sum reg.VecVirtual)
	}{
		{above, func(z, limit, limited, sum reg.VecVirtual) {
			w.VMAXPS(z, limit, limited)
			w.VADDPS(limited, sum, sum)
		}},
		{below, func(z, limit, limited, sum reg.VecVirtual) {
			w.VMINPS(z, limit, limited)
			w.VSUBPS(limited, sum, sum)
		}},
	} {
		w.Comment("A NaN in Intel's last operand stays NaN.")
		to, limit := w.integer(side.to), w.YMM()
		w.VBROADCASTSS(w.argument("threshold"), limit)
		if side.to == below {
			positive := limit
			limit = w.YMM()
			w.zero(limit)
			w.VSUBPS(positive, limit, limit)
		}
		for j := range responses[0] {
			sum := w.YMM()
			w.VMOVUPS(at(to, j), sum)
			for _, z := range responses {
				limited := w.YMM()
				side.add(z[j], limit, limited, sum)
			}
			w.VMOVUPS(sum, at(to, j))
		}
	}
}
