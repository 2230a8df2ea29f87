package accumulate

import (
	"math/bits"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Occurring numbers the columns that occur in batches of sparse rows, in ascending order, so that sums over these rows are of those
// columns alone. With ten million columns, the others would be hundreds of megabytes of zeros for each segment. The zero value
// is ready for Begin. It uses its memory again after the next call of Begin, but not that of its sums. It belongs to
// one goroutine.
type Occurring struct {
	of      occurring
	values  []int32         // the number of the column of each value
	batches []kernel.Sparse // with these numbers
	seen    []uint64        // a bit for each column of the block
	before  []int32         // how many columns occur before those of each word of seen
}

// occurring says which columns of a block the sums of its columns are of.
type occurring struct {
	columns []int32 // ascending; the last may be that of ones
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

// Columns returns the columns that occur, ascending, and that of ones if the block has it. The slice must not be changed.
func (o *Occurring) Columns() []int32 { return o.of.columns }

// Sum returns a sum over nothing, whose fields cross, diagonal and bounds are to have a row for each column of the
// batches. They have one for each column of the block once it is merged into another sum, or [Sum.Spread].
func (o *Occurring) Sum() *Sum { return &Sum{occurring: &occurring{o.of.columns, o.of.width}} }

// Table adds a field with a row for each column that occurs, unless none does: the column, and then its values. Values are not kept.
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

// Spread makes s, if it is of the columns that occur, a sum of all columns of the block.
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

// isTable reports whether a field has rows of a place, such as a column, and the values there.
func isTable(name string) bool {
	switch strings.TrimPrefix(name, statistics.PartAverage+"/") {
	case statistics.FieldBlock, statistics.FieldRanking:
		return true
	}
	return statistics.ByColumn(name)
}

// sameTables reports whether two fields can be merged by their places.
func sameTables(a, b wire.Tensor[float64]) bool {
	return isTable(a.Name) && len(a.Shape) == 2 && len(b.Shape) == 2 && a.Shape[1] == b.Shape[1] && a.Shape[1] > 0
}

// mergedTables adds two fields of rows whose places ascend.
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
