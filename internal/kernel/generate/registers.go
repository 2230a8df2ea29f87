package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const (
	// lanes is the number of float32 values in a register of AVX2.
	lanes = 8
	// narrow is the number of values in a row of a narrow product, including padding: two registers.
	narrow = 16
	wide   = 4 * narrow // bytes of such a row
	// tileRows is the number of rows of x that a product processes at a time, which the number of registers of AVX2 limits.
	tileRows = 6
)

// A row is the registers that hold the values of a narrow row, or a part of it.
type row []reg.VecVirtual

// writer writes functions that use AVX2 and FMA.
type writer struct{ *build.Context }

// function begins a function that needs no stack.
func (w *writer) function(name, signature, doc string) {
	w.Function(name)
	w.Attributes(4) // NOSPLIT
	w.SignatureExpr(signature)
	w.Pragma("noescape")
	w.Doc(name + " " + doc)
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

// row returns the given number of registers.
func (w *writer) row(registers int) row {
	r := make(row, registers)
	for i := range r {
		r[i] = w.YMM()
	}
	return r
}

// at returns the address of register i of a row.
func at(base reg.GPVirtual, i int) operand.Mem { return operand.Mem{Base: base, Disp: 4 * lanes * i} }

func (w *writer) zero(z reg.VecVirtual) { w.VXORPS(z, z, z) }

// maskOf returns a mask of the first count values of the given number of registers: vectors whose selected values have
// all bits set.
func (w *writer) maskOf(count reg.GPVirtual, registers int) row {
	from, m := w.selection(count), w.row(registers)
	for i, y := range m {
		w.VMOVUPS(at(from, i), y)
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

// addProduct adds the value at x times each of factors to sums.
func (w *writer) addProduct(x operand.Mem, factors, sums row) {
	value := w.YMM()
	w.VBROADCASTSS(x, value)
	for i := range sums {
		w.VFMADD231PS(value, factors[i], sums[i])
	}
}
