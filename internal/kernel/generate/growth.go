package main

import "github.com/mmcloughlin/avo/operand"

// codesOfColumn is the number of different codes.
const codesOfColumn = 256

// addParts processes all columns of a row before the next row: additions to the same sum form a dependency chain, and
// consecutive rows mostly share their sum in a column, but sums of different columns are independent.
func (w *writer) addParts() {
	w.function("addParts", "func(sums *float64, parts *uint8, named *int32, tried, size int, codes *uint8, stride int, values *float64, "+
		"width int, rows *int32, n int)", "adds n rows of values to the sums of their part in each of the tried named columns. A row has "+
		"width bytes of values, a multiple of 32, and a column size bytes of sums and 256 parts; rows of codes begin stride codes apart; "+
		"tried, n > 0.")
	rows, n, width, size := w.integer("rows"), w.integer("n"), w.integer("width"), w.integer("size")
	to, from, value, sums := w.GP64(), w.GP64(), w.GP64(), w.GP64()
	parts, named, left, i, first, sum := w.GP64(), w.GP64(), w.GP64(), w.GP64(), w.YMM(), w.YMM()

	w.Label("row")
	w.MOVLQSX(operand.Mem{Base: rows}, value)
	w.Load(w.Param("stride"), from)
	w.IMULQ(value, from)
	w.ADDQ(w.argument("codes"), from)
	w.IMULQ(width, value)
	w.ADDQ(w.argument("values"), value)
	w.VMOVUPD(operand.Mem{Base: value}, first)
	w.Load(w.Param("sums"), sums)
	w.Load(w.Param("parts"), parts)
	w.Load(w.Param("named"), named)
	w.Load(w.Param("tried"), left)

	w.Label("column")
	w.MOVLQSX(operand.Mem{Base: named}, to)
	w.MOVBQZX(operand.Mem{Base: from, Index: to, Scale: 1}, to)
	w.MOVBQZX(operand.Mem{Base: parts, Index: to, Scale: 1}, to)
	w.IMULQ(width, to)
	w.ADDQ(sums, to)
	w.VADDPD(operand.Mem{Base: to}, first, sum)
	w.VMOVUPD(sum, operand.Mem{Base: to})
	w.MOVQ(operand.U32(32), i)
	w.CMPQ(i, width)
	w.JGE(operand.LabelRef("added"))
	w.Label("values")
	w.VMOVUPD(operand.Mem{Base: value, Index: i, Scale: 1}, sum)
	w.VADDPD(operand.Mem{Base: to, Index: i, Scale: 1}, sum, sum)
	w.VMOVUPD(sum, operand.Mem{Base: to, Index: i, Scale: 1})
	w.ADDQ(operand.U8(32), i)
	w.CMPQ(i, width)
	w.JLT(operand.LabelRef("values"))
	w.Label("added")
	w.ADDQ(size, sums)
	w.ADDQ(operand.U32(codesOfColumn), parts)
	w.ADDQ(operand.U8(4), named)
	w.DECQ(left)
	w.JNZ(operand.LabelRef("column"))
	w.ADDQ(operand.U8(4), rows)
	w.DECQ(n)
	w.JNZ(operand.LabelRef("row"))
	w.VZEROUPPER()
	w.RET()
}
