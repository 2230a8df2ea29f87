package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// registers are the vector registers of an instruction set.
type registers struct {
	// suffix ends the names of the functions.
	suffix string
	// lanes is the number of float32 values in a register.
	lanes int
	// rows is the number of rows of x that the narrow products process at a time, which the number of registers limits.
	rows int
	// prefetch enables software prefetch of the next rows of x in mulNarrow. Rows of 1024 values are 4096 bytes apart,
	// so two groups of rows map to one set of the first-level cache and exceed its ways. Measured with AVX2 on an EPYC
	// of Zen 3, 64 × 1024 by 16 values in the second-level cache: a column of 6 rows takes 6.1 cycles without prefetch
	// and 7.1 with it; the lower bound is 6. With x in memory, both take the same time.
	prefetch bool
}

var (
	avx512 = registers{suffix: "AVX512", lanes: 16, rows: 8, prefetch: true}
	avx2   = registers{suffix: "AVX2", lanes: 8, rows: 6}
)

// narrow is the number of values in a row of a narrow product, including padding.
const narrow = 16

// A row is the registers that hold the values of a narrow row.
type row []reg.VecVirtual

// writer writes functions that use the registers of one instruction set.
type writer struct {
	*build.Context
	registers
}

// function begins a function that needs no stack.
func (w *writer) function(name, signature, doc string) {
	w.Function(name + w.suffix)
	w.Attributes(4) // NOSPLIT
	w.SignatureExpr(signature)
	w.Pragma("noescape")
	w.Doc(name + w.suffix + " " + doc)
}

// integer loads an argument.
func (w *writer) integer(name string) reg.GPVirtual {
	r := w.GP64()
	w.Load(w.Param(name), r)
	return r
}

// argument returns the address of an argument.
func (w *writer) argument(name string) operand.Mem {
	a, err := w.Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return a.Addr
}

// vector returns a register of all lanes.
func (w *writer) vector() reg.VecVirtual {
	if w.lanes == 16 {
		return w.ZMM()
	}
	return w.YMM()
}

// row returns the given number of registers.
func (w *writer) row(registers int) row {
	r := make(row, registers)
	for i := range r {
		r[i] = w.vector()
	}
	return r
}

// bytes returns the byte offset of register i within a row.
func (w *writer) bytes(i int) int { return 4 * w.lanes * i }

func (w *writer) zero(z reg.VecVirtual) {
	if w.lanes == 16 {
		w.VPXORD(z, z, z)
	} else {
		w.VXORPS(z, z, z)
	}
}

// A mask selects the first values of a narrow row, or of a register. It is a mask register, or a vector per register
// whose selected values have all bits set.
type mask []reg.Register

// maskOf returns the mask of the first count values of the given number of registers.
func (w *writer) maskOf(count reg.GPVirtual, registers int) mask {
	if w.lanes == 16 {
		w.MOVQ(count, reg.RCX)
		bits := w.GP64()
		w.MOVQ(operand.U32(1), bits)
		w.SHLQ(reg.CL, bits)
		w.DECQ(bits)
		k := w.K()
		w.KMOVW(bits.As32(), k)
		return mask{k}
	}
	at := w.selection(count)
	m := make(mask, registers)
	for i := range m {
		y := w.YMM()
		w.VMOVUPS(operand.Mem{Base: at, Disp: w.bytes(i)}, y)
		m[i] = y
	}
	return m
}

// selection returns the address of a vector that selects the first count values of 16.
func (w *writer) selection(count reg.GPVirtual) reg.GPVirtual {
	at, back := w.GP64(), w.GP64()
	w.LEAQ(operand.NewDataAddr(operand.NewStaticSymbol("selection"), 4*narrow), at)
	w.MOVQ(count, back)
	w.SHLQ(operand.U8(2), back)
	w.SUBQ(back, at)
	return at
}

// selections writes the data of selection: 16 values with all bits set, and 16 without.
func (w *writer) selections() {
	w.StaticGlobal("selection")
	w.DataAttributes(8 | 16) // RODATA, NOPTR
	for i := range 2 * narrow {
		v := operand.U32(0)
		if i < narrow {
			v = 1<<32 - 1
		}
		w.AddDatum(4*i, v)
	}
}

// loadSelected loads the selected values of register i. The others become 0, and their memory is not read.
func (w *writer) loadSelected(from operand.Mem, m mask, i int, z reg.VecVirtual) {
	if w.lanes == 16 {
		w.VMOVUPS_Z(from, m[0], z)
	} else {
		w.VMASKMOVPS(from, m[i], z)
	}
}

// storeSelected stores the selected values of register i, and leaves the memory of the others as it is.
func (w *writer) storeSelected(z reg.VecVirtual, m mask, i int, to operand.Mem) {
	if w.lanes == 16 {
		w.VMOVUPS(z, m[0], to)
	} else {
		w.VMASKMOVPS(z, m[i], to)
	}
}

// addProduct adds the value at x times each of factors to sums.
func (w *writer) addProduct(x operand.Mem, factors, sums row) {
	if w.lanes == 16 {
		w.VFMADD231PS_BCST(x, factors[0], sums[0])
		return
	}
	value := w.YMM()
	w.VBROADCASTSS(x, value)
	for i := range sums {
		w.VFMADD231PS(value, factors[i], sums[i])
	}
}

// round rounds to the nearest integer, without an exception.
func (w *writer) round(z reg.VecVirtual) {
	if w.lanes == 16 {
		w.VRNDSCALEPS(operand.U8(8), z, z)
	} else {
		w.VROUNDPS(operand.U8(8), z, z)
	}
}

// flip changes the sign of z where the lowest bit of the integers in odd is set. It overwrites odd.
func (w *writer) flip(odd, z reg.VecVirtual) {
	w.VPSLLD(operand.U8(31), odd, odd)
	if w.lanes == 16 {
		w.VPXORD(odd, z, z)
	} else {
		w.VXORPS(odd, z, z)
	}
}

// dropNaN sets z to 0 where x is a NaN.
func (w *writer) dropNaN(x, z reg.VecVirtual) {
	const ordered = operand.U8(7)
	if w.lanes == 16 {
		k := w.K()
		w.VCMPPS(ordered, x, x, k)
		w.VMOVAPS_Z(z, k, z)
		return
	}
	y := w.YMM()
	w.VCMPPS(ordered, x, x, y)
	w.VANDPS(y, z, z)
}

// constants holds the values at an address, one per register. AVX-512 has enough registers for all of them.
type constants struct {
	w    *writer
	at   reg.GPVirtual
	kept []reg.VecVirtual
}

// constantsAt prepares n values. They are kept in registers if all fit.
func (w *writer) constantsAt(name string, n, scratch int) *constants {
	c := &constants{w: w, at: w.integer(name)}
	if room := 2 * w.lanes; n+scratch <= room {
		for i := range n {
			z := w.vector()
			w.VBROADCASTSS(operand.Mem{Base: c.at, Disp: 4 * i}, z)
			c.kept = append(c.kept, z)
		}
	}
	return c
}

func (c *constants) get(i int) reg.VecVirtual {
	if c.kept != nil {
		return c.kept[i]
	}
	z := c.w.vector()
	c.w.VBROADCASTSS(operand.Mem{Base: c.at, Disp: 4 * i}, z)
	return z
}
