package accumulate

import (
	"math/bits"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Occurring numbers the columns that occur in batches of sparse rows, in ascending order, so that sums over these rows
// contain only those columns. With ten million columns, the others would be hundreds of megabytes of zeros for each
// segment. The zero value is ready for Begin, which reuses the memory of earlier calls, but not that of sums. It is not
// safe for concurrent use.
type Occurring struct {
	of      occurring
	values  []int32         // the number of the column of each value
	batches []kernel.Sparse // with these numbers
	seen    []uint64        // a bit for each column of the block
	before  []int32         // number of columns that occur before those of each word of seen
}

// occurring lists the columns of a block that a sum contains.
type occurring struct {
	columns []int32 // ascending; the last may be the column of ones
	width   int     // of the block
}

// Begin numbers the columns that occur in batches of one block (each n × width).
func (o *Occurring) Begin(batches []kernel.Sparse) {
	o.of, o.values, o.batches = occurring{}, o.values[:0], o.batches[:0]
	cols, ones := 0, false
	for _, b := range batches {
		cols, ones, o.of.width = b.Cols, b.Ones, b.Width()
	}
	words := (cols + 63) / 64
	o.seen, o.before = slices.Grow(o.seen[:0], words)[:words], slices.Grow(o.before[:0], words)[:words]
	clear(o.seen)
	for _, b := range batches {
		for _, column := range b.Columns {
			o.seen[column/64] |= 1 << (column % 64)
		}
	}
	for word, left := range o.seen {
		o.before[word] = int32(len(o.of.columns))
		for ; left != 0; left &= left - 1 {
			o.of.columns = append(o.of.columns, int32(64*word+bits.TrailingZeros64(left)))
		}
	}
	count := len(o.of.columns)
	if ones {
		o.of.columns = append(o.of.columns, int32(cols))
	}
	for _, b := range batches {
		from := len(o.values)
		for _, column := range b.Columns {
			below := o.seen[column/64] & (1<<(column%64) - 1)
			o.values = append(o.values, o.before[column/64]+int32(bits.OnesCount64(below)))
		}
		b.Cols, b.Columns = count, slices.Clip(o.values[from:])
		o.batches = append(o.batches, b)
	}
}

// Batch returns batch i with the numbers of its columns.
func (o *Occurring) Batch(i int) kernel.Sparse { return o.batches[i] }

// Columns returns the columns that occur, ascending, and the column of ones if the block has one. Callers must not change it.
func (o *Occurring) Columns() []int32 { return o.of.columns }

// Sum returns an empty sum, whose fields cross, diagonal and bounds get one row per column of the batches. Merging it
// into another sum, or [Sum.Spread], expands them to one row per column of the block.
func (o *Occurring) Sum() *Sum { return &Sum{occurring: &occurring{o.of.columns, o.of.width}} }

// Table adds a field with one row per column that occurs, if any: the column, then its values. It does not keep values.
func (o *Occurring) Table(sum *Sum, name string, values []float64) {
	if m := len(o.of.columns); m > 0 {
		sum.fields = append(sum.fields, statistics.Occurring{Columns: o.of.columns, Values: values}.Tensor(name, len(values)/m))
	}
}

// byColumn reports whether a field has a row for each column of a block of sparse rows.
func byColumn(field string) bool {
	return field == statistics.FieldCross || field == statistics.FieldDiagonal || field == statistics.FieldBounds
}

// shape is the shape of a field when it has a row for each column of the block.
func (o *occurring) shape(f wire.Tensor[float64]) []int {
	if o == nil || !byColumn(f.Name) {
		return f.Shape
	}
	return append([]int{o.width}, f.Shape[1:]...)
}

// Spread expands a sum over the columns that occur to all columns of the block. It does nothing for other sums.
func (s *Sum) Spread() {
	few, fields := s.occurring, s.fields
	if few == nil {
		return
	}
	s.occurring, s.fields = nil, nil
	for _, f := range fields {
		if byColumn(f.Name) {
			few.addTo(s.Field(f.Name, few.shape(f)...), f)
		} else {
			s.fields = append(s.fields, f)
		}
	}
}

// addTo adds a field of the columns that occur to one of all columns.
func (o *occurring) addTo(all []float64, f wire.Tensor[float64]) {
	k := len(all) / o.width
	for i, column := range o.columns {
		kernel.Add(all[int(column)*k:][:k], f.Data[i*k:][:k])
	}
}

// isTable reports whether each row of a field is an index, such as a column, and its values.
func isTable(name string) bool {
	switch strings.TrimPrefix(name, statistics.PartAverage+"/") {
	case statistics.FieldBlock, statistics.FieldRanking:
		return true
	}
	return statistics.ByColumn(name)
}

// sameTables reports whether two fields can be merged by index.
func sameTables(a, b wire.Tensor[float64]) bool {
	return isTable(a.Name) && len(a.Shape) == 2 && len(b.Shape) == 2 && a.Shape[1] == b.Shape[1] && a.Shape[1] > 0
}

// mergedTables merges two tables with ascending indices, and adds rows with the same index.
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
			kernel.Add(data[len(data)-width+1:], y[1:width])
			x, y = x[width:], y[width:]
		}
	}
	data = append(append(data, x...), y...)
	return wire.Matrix(a.Name, len(data)/width, width, data)
}
