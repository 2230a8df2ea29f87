package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// cosine replaces the angles in z by scale·cos, and returns the result register. It subtracts the nearest multiple of π
// in two parts, and evaluates a polynomial in the square of the remainder.
func (w *writer) cosine(z reg.VecVirtual, c *constants) reg.VecVirtual {
	multiple, sum := w.vector(), w.vector()
	w.VMULPS(c.get(0), z, multiple)
	w.round(multiple)
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
	w.flip(multiple, sum)
	w.VMULPS(c.get(10), sum, sum)
	return sum
}

func (w *writer) cosineRows() {
	w.function("cosineRows", "func(x, offsets, constants *float32, n, p int)",
		"replaces each x[i, j] by constants[10]·cos(x[i, j] + offsets[j]): x is n×p, and constants is the result of cosine.")
	x, n := w.integer("x"), w.integer("n")
	c := w.constantsAt("constants", 11, 5)
	past := w.integer("p")
	w.ANDQ(operand.U8(uint8(w.lanes-1)), past)
	m := w.maskOf(past, 1)
	w.SHLQ(operand.U8(2), past)

	w.Label("row")
	w.TESTQ(n, n)
	w.JZ(operand.LabelRef("done"))
	offsets, left := w.integer("offsets"), w.integer("p")
	w.SUBQ(operand.U8(uint8(w.lanes)), left)
	w.JLT(operand.LabelRef("tail"))
	w.Label("body")
	z := w.vector()
	w.VMOVUPS(operand.Mem{Base: x}, z)
	w.VADDPS(operand.Mem{Base: offsets}, z, z)
	w.VMOVUPS(w.cosine(z, c), operand.Mem{Base: x})
	w.ADDQ(operand.U8(uint8(w.bytes(1))), offsets)
	w.ADDQ(operand.U8(uint8(w.bytes(1))), x)
	w.SUBQ(operand.U8(uint8(w.lanes)), left)
	w.JGE(operand.LabelRef("body"))
	w.Label("tail")
	z, b := w.vector(), w.vector()
	w.loadSelected(operand.Mem{Base: x}, m, 0, z)
	w.loadSelected(operand.Mem{Base: offsets}, m, 0, b)
	w.VADDPS(b, z, z)
	w.storeSelected(w.cosine(z, c), m, 0, operand.Mem{Base: x})
	w.ADDQ(past, x)
	w.DECQ(n)
	w.JMP(operand.LabelRef("row"))
	w.Label("done")
	w.VZEROUPPER()
	w.RET()
}

// across reduces a narrow row to one value, and returns a register that holds it in all lanes. Both instruction sets
// combine the same values in the same order.
func (w *writer) across(combine func(...operand.Op), values row) reg.VecVirtual {
	z, other := w.vector(), w.vector()
	if w.lanes == 16 {
		w.VSHUFF64X2(operand.U8(0x4E), values[0], values[0], other)
		combine(other, values[0], z)
		w.VSHUFF64X2(operand.U8(0xB1), z, z, other)
	} else {
		combine(values[1], values[0], z)
		w.VPERM2F128(operand.U8(1), z, z, other)
	}
	combine(other, z, z)
	for _, swap := range []operand.U8{0x4E, 0xB1} {
		w.VPERMILPS(swap, z, other)
		combine(other, z, z)
	}
	return z
}

// firstEqual writes the index of the first of k columns that equals z, or 16 if there is none. It considers the values
// that the mask selects.
func (w *writer) firstEqual(values row, z reg.VecVirtual, m mask, to operand.Mem) {
	const equal = operand.U8(0)
	found := w.GP32()
	if w.lanes == 16 {
		k := w.K()
		w.VCMPPS(equal, z, values[0], m[0], k)
		w.KMOVW(k, found)
	} else {
		for i, value := range values {
			y, bits := w.YMM(), found
			w.VCMPPS(equal, z, value, y)
			w.VANDPS(m[i].(reg.VecVirtual), y, y)
			if i == 0 {
				w.VMOVMSKPS(y, found)
				continue
			}
			bits = w.GP32()
			w.VMOVMSKPS(y, bits)
			w.SHLL(operand.U8(uint8(w.lanes*i)), bits)
			w.ORL(bits, found)
		}
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
	c := w.constantsAt("constants", 12, 8)
	const lowest = 11 // index of constants
	step := w.integer("k")
	m := w.maskOf(step, narrow/w.lanes)
	w.SHLQ(operand.U8(2), step)

	w.Label("next")
	w.TESTQ(n, n)
	w.JZ(operand.LabelRef("finished"))
	values := w.row(narrow / w.lanes)
	for i, z := range values {
		from := operand.Mem{Base: x, Disp: w.bytes(i)}
		if w.lanes == 16 {
			w.VMOVAPS(c.get(lowest), z)
			w.VMOVUPS(from, m[0], z)
		} else {
			w.loadSelected(from, m, i, z)
			w.VBLENDVPS(m[i], z, c.get(lowest), z)
		}
	}
	maximum := w.across(w.max, values)
	w.firstEqual(values, maximum, m, operand.Mem{Base: first})
	w.VMOVSS(maximum.AsX(), operand.Mem{Base: highest})
	exponential := w.exponentials(values, maximum, c)
	for i, z := range exponential {
		if w.lanes == 16 {
			w.VMOVAPS_Z(z, m[0], z)
		} else {
			w.VANDPS(m[i], z, z)
		}
	}
	sum := w.across(w.add, exponential)
	w.VMOVSS(sum.AsX(), operand.Mem{Base: sums})
	for i, z := range exponential {
		w.VDIVPS(sum, z, z)
		w.storeSelected(z, m, i, operand.Mem{Base: x, Disp: w.bytes(i)})
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
func (w *writer) exponentials(values row, maximum reg.VecVirtual, c *constants) row {
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
		w.round(exponent[i])
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

// softmaxPairs is for AVX2 only. It processes eight rows at a time: one register holds the first values of the rows,
// another the second values. Each row thus takes a fraction of the time, with the same bits.
func (w *writer) softmaxPairs() {
	w.function("softmaxPairs", "func(x, highest, sums *float32, first *int32, constants *float32, n int)",
		"is softmaxRows for n rows of two values; n is a multiple of 8. first is unspecified for rows with a NaN.")
	x, highest, sums, first, n := w.integer("x"), w.integer("highest"), w.integer("sums"), w.integer("first"), w.integer("n")
	c := w.constantsAt("constants", 12, 8)
	w.Label("next")
	w.TESTQ(n, n)
	w.JZ(operand.LabelRef("finished"))
	lower, upper, values := w.vector(), w.vector(), w.row(2)
	w.VMOVUPS(operand.Mem{Base: x}, lower)
	w.VMOVUPS(operand.Mem{Base: x, Disp: w.bytes(1)}, upper)
	w.VSHUFPS(operand.U8(0x88), upper, lower, values[0])
	w.VSHUFPS(operand.U8(0xDD), upper, lower, values[1])
	maximum, equal, ones := w.vector(), w.vector(), w.vector()
	w.VMAXPS(values[0], values[1], maximum)
	w.VCMPPS(operand.U8(0), values[0], maximum, equal)
	w.VPCMPEQD(ones, ones, ones)
	w.VPSUBD(ones, equal, equal)
	w.storePairs(equal, first)
	w.storePairs(maximum, highest)
	exponential := w.exponentials(values, maximum, c)
	sum := w.vector()
	w.VADDPS(exponential[0], exponential[1], sum)
	w.storePairs(sum, sums)
	for _, z := range exponential {
		w.VDIVPS(sum, z, z)
	}
	w.VUNPCKLPS(exponential[1], exponential[0], lower)
	w.VUNPCKHPS(exponential[1], exponential[0], upper)
	w.VMOVUPS(lower, operand.Mem{Base: x})
	w.VMOVUPS(upper, operand.Mem{Base: x, Disp: w.bytes(1)})
	w.ADDQ(operand.U8(uint8(2*w.bytes(1))), x)
	for _, p := range []reg.GPVirtual{highest, sums, first} {
		w.ADDQ(operand.U8(uint8(w.bytes(1))), p)
	}
	w.SUBQ(operand.U8(uint8(w.lanes)), n)
	w.JMP(operand.LabelRef("next"))
	w.Label("finished")
	w.VZEROUPPER()
	w.RET()
}

// storePairs stores one value of each of eight rows, which VSHUFPS has gathered from two registers of four rows.
func (w *writer) storePairs(z reg.VecVirtual, to reg.GPVirtual) {
	ordered := w.vector()
	w.VPERMPD(operand.U8(0xD8), z, ordered)
	w.VMOVUPS(ordered, operand.Mem{Base: to})
}

func (w *writer) max(ops ...operand.Op) { w.VMAXPS(ops...) }
func (w *writer) add(ops ...operand.Op) { w.VADDPS(ops...) }

// timesPowerOfTwo multiplies z by 2 to the power of each integer of exponent, from −126 to 127. It overwrites exponent.
func (w *writer) timesPowerOfTwo(z, exponent reg.VecVirtual) {
	if w.lanes == 16 {
		w.VSCALEFPS(exponent, z, z)
		return
	}
	bias := w.YMM()
	w.Comment("Make the floats from their bits: the biased exponent, and a fraction of 0.")
	w.VPCMPEQD(bias, bias, bias)
	w.VPSRLD(operand.U8(25), bias, bias)
	w.VCVTPS2DQ(exponent, exponent)
	w.VPADDD(bias, exponent, exponent)
	w.VPSLLD(operand.U8(23), exponent, exponent)
	w.VMULPS(exponent, z, z)
}

// scaleRows accumulates the squares of a row in 16 sums, with both instruction sets. The values after the last whole 16
// stay in registers: a masked store defeats store-to-load forwarding.
func (w *writer) scaleRows() {
	w.function("scaleRows", "func(x, factors, offset, constants *float32, n, p int)",
		"replaces each row of x, n×p, by row·factors[i] − offset, and then multiplies it by constants[0] / max(its length, constants[1]).")
	x, factors, n, constants := w.integer("x"), w.integer("factors"), w.integer("n"), w.integer("constants")
	past := w.integer("p")
	w.ANDQ(operand.U8(narrow-1), past)
	m := w.maskOf(past, narrow/w.lanes)
	w.SHLQ(operand.U8(2), past)

	// whole loops over a row, 16 values at a time.
	whole := func(name string, pointers []reg.GPVirtual, do func(i int)) {
		left := w.integer("p")
		w.SUBQ(operand.U8(narrow), left)
		w.JLT(operand.LabelRef(name + "_rest"))
		w.Label(name)
		for i := range narrow / w.lanes {
			do(i)
		}
		for _, p := range pointers {
			w.ADDQ(operand.U8(wide), p)
		}
		w.SUBQ(operand.U8(narrow), left)
		w.JGE(operand.LabelRef(name))
		w.Label(name + "_rest")
	}
	part := func(base reg.GPVirtual, i int) operand.Mem { return operand.Mem{Base: base, Disp: w.bytes(i)} }

	w.Label("row")
	w.TESTQ(n, n)
	w.JZ(operand.LabelRef("done"))
	factor, squares := w.vector(), w.row(narrow/w.lanes)
	w.VBROADCASTSS(operand.Mem{Base: factors}, factor)
	for _, z := range squares {
		w.zero(z)
	}
	at, offset := w.GP64(), w.integer("offset")
	w.MOVQ(x, at)
	whole("shift", []reg.GPVirtual{at, offset}, func(i int) {
		z := w.vector()
		w.VMOVUPS(part(at, i), z)
		w.VFMSUB213PS(part(offset, i), factor, z)
		w.VFMADD231PS(z, z, squares[i])
		w.VMOVUPS(z, part(at, i))
	})
	rest := w.row(narrow / w.lanes)
	for i, z := range rest {
		o := w.vector()
		w.loadSelected(part(at, i), m, i, z)
		w.loadSelected(part(offset, i), m, i, o)
		w.VFMSUB213PS(o, factor, z)
		w.VFMADD231PS(z, z, squares[i])
	}
	length := w.across(w.add, squares).AsX()
	w.VSQRTSS(length, length, length)
	w.VMAXSS(operand.Mem{Base: constants, Disp: 4}, length, length)
	scale, all := w.XMM(), w.vector()
	w.VMOVSS(operand.Mem{Base: constants}, scale)
	w.VDIVSS(length, scale, scale)
	w.VBROADCASTSS(scale, all)
	whole("scale", []reg.GPVirtual{x}, func(i int) {
		z := w.vector()
		w.VMULPS(part(x, i), all, z)
		w.VMOVUPS(z, part(x, i))
	})
	for i, z := range rest {
		w.VMULPS(all, z, z)
		w.storeSelected(z, m, i, part(x, i))
	}
	w.ADDQ(past, x)
	w.ADDQ(operand.U8(4), factors)
	w.DECQ(n)
	w.JMP(operand.LabelRef("row"))
	w.Label("done")
	w.VZEROUPPER()
	w.RET()
}

// copyWindows copies rows of up to one register each.
func (w *writer) copyWindows() {
	w.function("copyWindows", "func(dst, src *float32, n, height, width, step, stride int)",
		"copies n windows of src, each height×width, with rows that begin stride values apart. Windows begin step values apart in "+
			"src, and are contiguous in dst.")
	dst, src, n := w.integer("dst"), w.integer("src"), w.integer("n")
	step, stride, past, height := w.integer("step"), w.integer("stride"), w.integer("width"), w.integer("height")
	w.SHLQ(operand.U8(2), step)
	w.SHLQ(operand.U8(2), stride)
	w.ANDQ(operand.U8(uint8(w.lanes-1)), past)
	m := w.maskOf(past, 1)
	w.SHLQ(operand.U8(2), past)
	z := w.vector()

	w.Label("window")
	w.TESTQ(n, n)
	w.JZ(operand.LabelRef("done"))
	row, rows := w.GP64(), w.GP64()
	w.MOVQ(src, row)
	w.MOVQ(height, rows)
	w.Label("row")
	at, left := w.GP64(), w.integer("width")
	w.MOVQ(row, at)
	w.SUBQ(operand.U8(uint8(w.lanes)), left)
	w.JLT(operand.LabelRef("rest"))
	w.Label("several")
	w.VMOVUPS(operand.Mem{Base: at}, z)
	w.VMOVUPS(z, operand.Mem{Base: dst})
	w.ADDQ(operand.U8(uint8(w.bytes(1))), at)
	w.ADDQ(operand.U8(uint8(w.bytes(1))), dst)
	w.SUBQ(operand.U8(uint8(w.lanes)), left)
	w.JGE(operand.LabelRef("several"))
	w.Label("rest")
	w.loadSelected(operand.Mem{Base: at}, m, 0, z)
	w.storeSelected(z, m, 0, operand.Mem{Base: dst})
	w.ADDQ(past, dst)
	w.ADDQ(stride, row)
	w.DECQ(rows)
	w.JNZ(operand.LabelRef("row"))
	w.ADDQ(step, src)
	w.DECQ(n)
	w.JMP(operand.LabelRef("window"))
	w.Label("done")
	w.VZEROUPPER()
	w.RET()
}
