package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// nearest rounds to the nearest integer, without an exception.
const nearest = operand.U8(8)

// constants holds the values at an address. They are kept in registers if these suffice.
type constants struct {
	w    *writer
	from reg.GPVirtual
	kept row
}

func (c constants) get(i int) reg.VecVirtual {
	if c.kept != nil {
		return c.kept[i]
	}
	return c.w.broadcast(c.from, i)
}

// cosine replaces the angles in z by scale·cos, and returns the result register. It subtracts the nearest multiple of π
// in two parts, and evaluates a polynomial in the square of the remainder.
func (w *writer) cosine(z reg.VecVirtual, c constants) reg.VecVirtual {
	multiple, sum := w.YMM(), w.YMM()
	w.VMULPS(c.get(0), z, multiple)
	w.VROUNDPS(nearest, multiple, multiple)
	w.VFNMADD231PS(c.get(1), multiple, z)
	w.VFNMADD231PS(c.get(2), multiple, z)
	w.VCVTPS2DQ(multiple, multiple)
	w.VMULPS(z, z, z)
	w.Comment("Limit the square of an angle too large to reduce; a NaN stays NaN.")
	w.VMINPS(z, c.get(3), z)
	w.VMOVAPS(c.get(8), sum)
	for _, i := range []int{7, 6, 5, 4, 9} {
		w.VFMADD213PS(c.get(i), z, sum)
	}
	w.Comment("An odd multiple changes the sign.")
	w.VPSLLD(operand.U8(31), multiple, multiple)
	w.VXORPS(multiple, sum, sum)
	w.VMULPS(c.get(10), sum, sum)
	return sum
}

func (w *writer) cosineRows() {
	w.function("cosineRows", "func(x, offsets, constants *float32, n, p int)",
		"replaces each x[i, j] by constants[10]·cos(x[i, j] + offsets[j]): x is n×p, and constants is the result of cosine.")
	x, n := w.integer("x"), w.integer("n")
	c := constants{w: w, from: w.integer("constants")}
	for i := range 11 {
		c.kept = append(c.kept, w.broadcast(c.from, i))
	}
	past := w.integer("p")
	w.ANDQ(operand.U8(lanes-1), past)
	m := w.maskOf(past, 1)
	w.SHLQ(operand.U8(2), past)

	w.Label("row")
	w.TESTQ(n, n)
	w.JZ(operand.LabelRef("done"))
	offsets, left := w.integer("offsets"), w.integer("p")
	w.SUBQ(operand.U8(lanes), left)
	w.JLT(operand.LabelRef("tail"))
	w.Label("body")
	z := w.YMM()
	w.VMOVUPS(operand.Mem{Base: x}, z)
	w.VADDPS(operand.Mem{Base: offsets}, z, z)
	w.VMOVUPS(w.cosine(z, c), operand.Mem{Base: x})
	w.ADDQ(operand.U8(4*lanes), offsets)
	w.ADDQ(operand.U8(4*lanes), x)
	w.SUBQ(operand.U8(lanes), left)
	w.JGE(operand.LabelRef("body"))
	w.Label("tail")
	z, b := w.YMM(), w.YMM()
	w.VMASKMOVPS(operand.Mem{Base: x}, m[0], z)
	w.VMASKMOVPS(operand.Mem{Base: offsets}, m[0], b)
	w.VADDPS(b, z, z)
	w.VMASKMOVPS(w.cosine(z, c), m[0], operand.Mem{Base: x})
	w.ADDQ(past, x)
	w.DECQ(n)
	w.JMP(operand.LabelRef("row"))
	w.Label("done")
	w.VZEROUPPER()
	w.RET()
}

// across reduces a narrow row to one value, and returns a register that holds it in all lanes.
func (w *writer) across(combine func(...operand.Op), values row) reg.VecVirtual {
	z, other := w.YMM(), w.YMM()
	combine(values[1], values[0], z)
	w.VPERM2F128(operand.U8(1), z, z, other)
	combine(other, z, z)
	for _, swap := range []operand.U8{0x4E, 0xB1} {
		w.VPERMILPS(swap, z, other)
		combine(other, z, z)
	}
	return z
}

// firstEqual writes the index of the first of k columns that equals z, or 16 if there is none. It considers the values
// that the mask selects.
func (w *writer) firstEqual(values row, z reg.VecVirtual, m row, to operand.Mem) {
	const equal = operand.U8(0)
	found := w.GP32()
	for i, value := range values {
		y, bits := w.YMM(), found
		w.VCMPPS(equal, z, value, y)
		w.VANDPS(m[i], y, y)
		if i == 0 {
			w.VMOVMSKPS(y, found)
			continue
		}
		bits = w.GP32()
		w.VMOVMSKPS(y, bits)
		w.SHLL(operand.U8(lanes*i), bits)
		w.ORL(bits, found)
	}
	w.Comment("In a row of NaN no value equals the maximum.")
	w.ORL(operand.U32(1<<narrow), found)
	w.BSFL(found, found)
	w.MOVL(found, to)
}

func (w *writer) softmaxRows() {
	w.function("softmaxRows", "func(x, highest, sums *float32, first *int32, constants *float32, n, k int)",
		"replaces each row of x, n×k with 0 < k ≤ 16, by its softmax. For each row it writes the maximum, Σ exp(x − "+
			"maximum), and the first column that equals the maximum, or 16 if none does. constants is the result of exponential.")
	x, highest, sums, first, n := w.integer("x"), w.integer("highest"), w.integer("sums"), w.integer("first"), w.integer("n")
	c := constants{w: w, from: w.integer("constants")}
	const lowest = 11 // index of constants
	step := w.integer("k")
	m := w.maskOf(step, narrow/lanes)
	w.SHLQ(operand.U8(2), step)

	w.Label("next")
	w.TESTQ(n, n)
	w.JZ(operand.LabelRef("finished"))
	values := w.row(narrow / lanes)
	for i, z := range values {
		w.VMASKMOVPS(at(x, i), m[i], z)
		w.VBLENDVPS(m[i], z, c.get(lowest), z)
	}
	maximum := w.across(w.max, values)
	w.firstEqual(values, maximum, m, operand.Mem{Base: first})
	w.VMOVSS(maximum.AsX(), operand.Mem{Base: highest})
	exponential := w.exponentials(values, maximum, c)
	for i, z := range exponential {
		w.VANDPS(m[i], z, z)
	}
	sum := w.across(w.add, exponential)
	w.VMOVSS(sum.AsX(), operand.Mem{Base: sums})
	for i, z := range exponential {
		w.VDIVPS(sum, z, z)
		w.VMASKMOVPS(z, m[i], at(x, i))
	}
	w.ADDQ(step, x)
	for _, p := range []reg.GPVirtual{highest, sums, first} {
		w.ADDQ(operand.U8(4), p)
	}
	w.DECQ(n)
	w.JMP(operand.LabelRef("next"))
	w.Label("finished")
	w.VZEROUPPER()
	w.RET()
}

// exponentials returns exp(value − maximum) of all values, which it overwrites.
func (w *writer) exponentials(values row, maximum reg.VecVirtual, c constants) row {
	const one, least = 9, 10 // indices of constants
	exponent, exponential := w.row(len(values)), w.row(len(values))
	minimum := c.get(least)
	for _, z := range values {
		w.VSUBPS(maximum, z, z)
		w.Comment("A NaN in Intel's last operand stays NaN.")
		w.VMAXPS(z, minimum, z)
	}
	inverse := c.get(0)
	for i, z := range values {
		w.VMULPS(inverse, z, exponent[i])
		w.VROUNDPS(nearest, exponent[i], exponent[i])
	}
	for _, part := range []int{1, 2} {
		constant := c.get(part)
		for i, z := range values {
			w.VFNMADD231PS(constant, exponent[i], z)
		}
	}
	constant := c.get(3)
	for i := range values {
		w.VMOVAPS(constant, exponential[i])
	}
	for _, power := range []int{4, 5, 6, 7, 8, one, one} {
		constant := c.get(power)
		for i, z := range values {
			w.VFMADD213PS(constant, z, exponential[i])
		}
	}
	for i, z := range exponential {
		w.timesPowerOfTwo(z, exponent[i])
	}
	return exponential
}

func (w *writer) max(ops ...operand.Op) { w.VMAXPS(ops...) }
func (w *writer) add(ops ...operand.Op) { w.VADDPS(ops...) }

// timesPowerOfTwo multiplies z by 2 to the power of each integer of exponent, from −126 to 127. It overwrites exponent.
func (w *writer) timesPowerOfTwo(z, exponent reg.VecVirtual) {
	bias := w.YMM()
	w.Comment("Make the floats from their bits: the biased exponent, and a fraction of 0.")
	w.VPCMPEQD(bias, bias, bias)
	w.VPSRLD(operand.U8(25), bias, bias)
	w.VCVTPS2DQ(exponent, exponent)
	w.VPADDD(bias, exponent, exponent)
	w.VPSLLD(operand.U8(23), exponent, exponent)
	w.VMULPS(exponent, z, z)
}

// scaleRows accumulates the squares of a row in 16 sums. The values after the last whole 16
// stay in registers: a masked store defeats store-to-load forwarding.
func (w *writer) scaleRows() {
	w.function("scaleRows", "func(x, factors, offset, constants *float32, n, p int)",
		"replaces each row of x, n×p, by row·factors[i] − offset, and then multiplies it by constants[0] / max(its length, constants[1]).")
	x, factors, n, constants := w.integer("x"), w.integer("factors"), w.integer("n"), w.integer("constants")
	past := w.integer("p")
	w.ANDQ(operand.U8(narrow-1), past)
	m := w.maskOf(past, narrow/lanes)
	w.SHLQ(operand.U8(2), past)

	// whole loops over a row, 16 values at a time.
	whole := func(name string, pointers []reg.GPVirtual, do func(i int)) {
		left := w.integer("p")
		w.SUBQ(operand.U8(narrow), left)
		w.JLT(operand.LabelRef(name + "_rest"))
		w.Label(name)
		for i := range narrow / lanes {
			do(i)
		}
		for _, p := range pointers {
			w.ADDQ(operand.U8(wide), p)
		}
		w.SUBQ(operand.U8(narrow), left)
		w.JGE(operand.LabelRef(name))
		w.Label(name + "_rest")
	}

	w.Label("row")
	w.TESTQ(n, n)
	w.JZ(operand.LabelRef("done"))
	factor, squares := w.YMM(), w.row(narrow/lanes)
	w.VBROADCASTSS(operand.Mem{Base: factors}, factor)
	for _, z := range squares {
		w.zero(z)
	}
	from, offset := w.GP64(), w.integer("offset")
	w.MOVQ(x, from)
	whole("shift", []reg.GPVirtual{from, offset}, func(i int) {
		z := w.YMM()
		w.VMOVUPS(at(from, i), z)
		w.VFMSUB213PS(at(offset, i), factor, z)
		w.VFMADD231PS(z, z, squares[i])
		w.VMOVUPS(z, at(from, i))
	})
	rest := w.row(narrow / lanes)
	for i, z := range rest {
		o := w.YMM()
		w.VMASKMOVPS(at(from, i), m[i], z)
		w.VMASKMOVPS(at(offset, i), m[i], o)
		w.VFMSUB213PS(o, factor, z)
		w.VFMADD231PS(z, z, squares[i])
	}
	length := w.across(w.add, squares).AsX()
	w.VSQRTSS(length, length, length)
	w.VMAXSS(operand.Mem{Base: constants, Disp: 4}, length, length)
	scale, all := w.XMM(), w.YMM()
	w.VMOVSS(operand.Mem{Base: constants}, scale)
	w.VDIVSS(length, scale, scale)
	w.VBROADCASTSS(scale, all)
	whole("scale", []reg.GPVirtual{x}, func(i int) {
		z := w.YMM()
		w.VMULPS(at(x, i), all, z)
		w.VMOVUPS(z, at(x, i))
	})
	for i, z := range rest {
		w.VMULPS(all, z, z)
		w.VMASKMOVPS(z, m[i], at(x, i))
	}
	w.ADDQ(past, x)
	w.ADDQ(operand.U8(4), factors)
	w.DECQ(n)
	w.JMP(operand.LabelRef("row"))
	w.Label("done")
	w.VZEROUPPER()
	w.RET()
}
