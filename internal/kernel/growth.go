package kernel

import "fmt"

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
	checkBelow("AddParts", "column", p.Columns, p.Stride)
	checkBelow("AddParts", "part", p.Of, p.Count)
	checkBelow("AddParts", "row", rows, min(len(codes)/max(1, p.Stride), len(values)/width))
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
		parts, rest := p.Of, sums
		for _, column := range p.Columns {
			to := rest[int(parts[of[column]])*width:][:width]
			for i, v := range added {
				to[i] += v
			}
			parts, rest = parts[codesOfColumn:], rest[size:]
		}
	}
}
