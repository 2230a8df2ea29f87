package kernel

import (
	"encoding/binary"
	"fmt"
	"slices"
)

const (
	// codesOfColumn is the number of different codes.
	codesOfColumn = 256
	// BoundColumns is the number of columns that the assembly loop bounds at a time. [BoundRows] is fastest for a multiple of it.
	BoundColumns = 16
)

// BoundRows writes the column minima and maxima of the given rows of a matrix of codes into low and high, which have a
// value for each column; the number of columns is a multiple of 8. Without rows these are 255 and 0.
func BoundRows(low, high, codes []uint8, rows []int32) {
	columns := len(low)
	if len(high) != columns || columns%8 != 0 {
		panic(fmt.Sprintf("kernel: BoundRows: %d and %d bounds", columns, len(high)))
	}
	if columns == 0 {
		return
	}
	checkIndices("BoundRows", "row", rows, len(codes)/columns)
	at := 0
	if len(rows) > 0 && hasAVX2() {
		for ; at+BoundColumns <= columns; at += BoundColumns {
			boundRows(&low[at], &high[at], &codes[at], &rows[0], len(rows), columns)
		}
	}
	for ; at+8 <= columns; at += 8 {
		boundEight(low[at:], high[at:], codes[at:], columns, rows)
	}
}

// boundEight bounds eight columns of rows with a stride of so many codes, each in a byte of a word.
func boundEight(low, high, codes []uint8, stride int, rows []int32) {
	lowest, highest := ^uint64(0), uint64(0)
	for _, row := range rows {
		eight := binary.LittleEndian.Uint64(codes[int(row)*stride:])
		below, above := atLeast(lowest, eight), atLeast(eight, highest)
		lowest, highest = eight&below|lowest&^below, eight&above|highest&^above
	}
	binary.LittleEndian.PutUint64(low, lowest)
	binary.LittleEndian.PutUint64(high, highest)
}

// atLeast returns a word with all bits set in each byte in which a ≥ b.
func atLeast(a, b uint64) uint64 {
	const top = 0x8080808080808080
	rest := (a | top) - b&^top // its top bits compare all bits but these
	larger := (a&^b | ^(a^b)&rest) & top
	return larger >> 7 * 0xff
}

// Parts maps the codes of some columns to parts.
type Parts struct {
	// Stride is the number of codes per row, and Columns are the selected columns.
	Stride  int
	Columns []int32
	// Of holds the part of each code of each of these columns (columns × 256), below Count.
	Of    []uint8
	Count int
}

// AddParts adds the given rows of values (n × width, row-major) to the sum of their part in each column (columns ×
// parts × width). codes holds the codes of all rows (n × stride). The width is a multiple of 4. Each sum adds the rows
// in order.
func AddParts(sums []float64, p Parts, codes []uint8, values []float64, width int, rows []int32) {
	columns := len(p.Columns)
	if width < 4 || width%4 != 0 || p.Count < 1 || len(sums) != columns*p.Count*width ||
		len(p.Of) != columns*codesOfColumn {
		panic(fmt.Sprintf("kernel: AddParts: %d sums of %d columns of %d parts and %d values, parts of %d codes", len(sums), columns, p.Count,
			width, len(p.Of)))
	}
	checkIndices("AddParts", "column", p.Columns, p.Stride)
	if !areBelow(p.Of, p.Count) {
		panic(fmt.Sprintf("kernel: AddParts: part %d of %d", slices.Max(p.Of), p.Count))
	}
	checkIndices("AddParts", "row", rows, min(len(codes)/max(1, p.Stride), len(values)/width))
	if len(rows) == 0 || columns == 0 {
		return
	}
	if !hasAVX2() {
		addPartsGo(sums, p, codes, values, width, rows)
		return
	}
	addParts(&sums[0], &p.Of[0], &p.Columns[0], columns, 8*width*p.Count, &codes[0], p.Stride, &values[0], 8*width, &rows[0], len(rows))
}

// addPartsGo is AddParts without vector instructions.
func addPartsGo(sums []float64, p Parts, codes []uint8, values []float64, width int, rows []int32) {
	size := p.Count * width
	for _, row := range rows {
		added, of := values[int(row)*width:][:width], codes[int(row)*p.Stride:][:p.Stride]
		first, parts, rest := (*[4]float64)(added), p.Of, sums
		a, b, c, d := first[0], first[1], first[2], first[3]
		for _, column := range p.Columns {
			at := int(parts[of[column]]) * width
			to := (*[4]float64)(rest[at:])
			to[0], to[1], to[2], to[3] = to[0]+a, to[1]+b, to[2]+c, to[3]+d
			for i := 4; i < len(added); i += 4 {
				to, v := (*[4]float64)(rest[at+i:]), (*[4]float64)(added[i:])
				to[0], to[1], to[2], to[3] = to[0]+v[0], to[1]+v[1], to[2]+v[2], to[3]+v[3]
			}
			parts, rest = parts[codesOfColumn:], rest[size:]
		}
	}
}
