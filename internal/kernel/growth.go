package kernel

import (
	"fmt"
	"slices"
)

// codesOfColumn is the number of different codes.
const codesOfColumn = 256

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
