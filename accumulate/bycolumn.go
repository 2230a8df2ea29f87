package accumulate

import (
	"math/bits"
	"slices"

	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Table adds a field with a row for each column that occurs in the batches, ascending: the column, and then its values of each part,
// which have a row for each column in the order of [Occurring.Batch]. Parts are not kept.
func (o *Occurring) Table(sum *Sum, name string, parts ...[]float64) {
	m, width := o.Width(), 1
	if m == 0 {
		return
	}
	for _, part := range parts {
		width += len(part) / m
	}
	columns := o.of.columns
	data := make([]float64, 0, m*width)
	for _, i := range o.ascending() {
		column := o.of.width - 1 // of ones
		if int(i) < len(columns) {
			column = int(columns[i])
		}
		data = append(data, float64(column))
		for _, part := range parts {
			n := len(part) / m
			data = append(data, part[int(i)*n:][:n]...)
		}
	}
	sum.fields = append(sum.fields, wire.Matrix(name, m, width, data))
}

// ascending returns the order in which columns ascend, that of ones last. All fields of the batches have it.
func (o *Occurring) ascending() []int32 {
	if m := o.Width(); len(o.order) != m {
		columns := o.of.columns
		o.order = slices.Grow(o.order[:0], m)[:m]
		for i := range o.order {
			o.order[i] = int32(i)
		}
		slices.SortFunc(o.order[:len(columns)], func(a, b int32) int { return int(columns[a]) - int(columns[b]) })
	}
	return o.order
}

// Ascend numbers the columns again, in ascending order.
func (o *Occurring) Ascend() {
	columns, numbers := make([]int32, 0, len(o.of.columns)), make([]int32, len(o.of.columns))
	if o.numbering.hashed {
		for number, i := range o.ascending()[:len(numbers)] {
			columns, numbers[i] = append(columns, o.of.columns[i]), int32(number)
		}
	} else { // a bit for each column is read faster than the columns are sorted
		o.seen = append(o.seen[:0], make([]uint64, (o.numbering.columns+63)/64)...)
		for _, column := range o.of.columns {
			o.seen[column/64] |= 1 << (column % 64)
		}
		for word, left := range o.seen {
			for ; left != 0; left &= left - 1 {
				column := int32(64*word + bits.TrailingZeros64(left))
				*o.numbering.of(column) = int32(len(columns))
				columns = append(columns, column)
			}
		}
		for i, column := range o.of.columns {
			numbers[i] = *o.numbering.of(column)
		}
		o.numbering.end(columns)
	}
	for i, number := range o.values { // those of the batches
		o.values[i] = numbers[number]
	}
	o.of.columns = columns
	o.order = slices.Grow(o.order[:0], o.Width())[:o.Width()]
	for i := range o.order {
		o.order[i] = int32(i)
	}
}

// Columns returns the columns of the block that occur, in the order of [Occurring.Batch]. The column of ones is not among them. The slice
// must not be changed.
func (o *Occurring) Columns() []int32 { return o.of.columns }

// sameTables reports whether two fields can be merged by their columns.
func sameTables(a, b wire.Tensor[float64]) bool {
	return statistics.ByColumn(a.Name) && len(a.Shape) == 2 && len(b.Shape) == 2 && a.Shape[1] == b.Shape[1] && a.Shape[1] > 0
}

// mergedTables adds two fields with a row for each column that occurs.
func mergedTables(a, b wire.Tensor[float64]) wire.Tensor[float64] {
	width := a.Shape[1]
	x, y := a.Data, b.Data
	data := make([]float64, 0, len(x)+len(y))
	for len(x) > 0 && len(y) > 0 {
		switch {
		case x[0] < y[0]:
			data, x = append(data, x[:width]...), x[width:]
		case y[0] < x[0]:
			data, y = append(data, y[:width]...), y[width:]
		default:
			data = append(data, x[:width]...)
			add(data[len(data)-width+1:], y[1:width])
			x, y = x[width:], y[width:]
		}
	}
	data = append(append(data, x...), y...)
	return wire.Matrix(a.Name, len(data)/width, width, data)
}
