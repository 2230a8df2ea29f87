package accumulate

import (
	"math/bits"
	"slices"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Occurring numbers the columns that occur in batches of sparse rows, so that sums over these rows are of those columns
// alone. With ten million columns, the others would be hundreds of megabytes of zeros for each segment. The zero value
// is ready for Begin. It uses its memory again after the next call of Begin, but not that of its sums. It belongs to
// one goroutine.
type Occurring struct {
	numbering numbering
	values    []int32         // the number of the column of each value, from 0
	batches   []kernel.Sparse // with these numbers
	order     []int32         // in which columns ascend; empty: not known
	seen      []uint64        // a bit for each column
	of        occurring
}

// occurring says which columns of a block the sums of its columns are of.
type occurring struct {
	columns []int32 // in the order in which they were first seen
	width   int     // of the block
	ones    bool    // the last sum is that of the block's ones
}

// Begin numbers the columns that occur in batches of one block (each n × width).
func (o *Occurring) Begin(batches []kernel.Sparse) {
	o.values, o.batches, o.order, o.of = o.values[:0], o.batches[:0], o.order[:0], occurring{}
	all, cols := 0, 0
	for _, b := range batches {
		all, cols = all+len(b.Columns), max(cols, b.Cols)
	}
	o.numbering.begin(cols, all)
	o.values = slices.Grow(o.values, all)
	for _, b := range batches {
		o.of.width, o.of.ones = b.Width(), b.Ones
		for _, column := range b.Columns {
			at := o.numbering.of(column)
			if *at == 0 {
				o.of.columns = append(o.of.columns, column)
				*at = int32(len(o.of.columns))
			}
			o.values = append(o.values, *at-1)
		}
	}
	o.numbering.end(o.of.columns)
	values := o.values
	for _, b := range batches {
		n := len(b.Columns)
		b.Cols, b.Columns, values = len(o.of.columns), values[:n:n], values[n:]
		o.batches = append(o.batches, b)
	}
}

// Batch returns batch i with the numbers of its columns, which do not ascend in a row.
func (o *Occurring) Batch(i int) kernel.Sparse { return o.batches[i] }

// Width returns the number of columns of each batch, that of ones included.
func (o *Occurring) Width() int {
	if o.of.ones {
		return len(o.of.columns) + 1
	}
	return len(o.of.columns)
}

// Sum returns a sum over nothing, whose fields cross, diagonal and bounds are to have a row for each column of the
// batches. They have one for each column of the block once it is merged into another sum, or [Sum.Spread].
func (o *Occurring) Sum() *Sum {
	return &Sum{occurring: &occurring{o.of.columns, o.of.width, o.of.ones}}
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

// Spread makes s, if it is of the columns that occur, a sum of all columns of the block. The cross moment is in memory of the pool.
func (s *Sum) Spread(crosses *CrossPool) {
	few := s.occurring
	if few == nil {
		return
	}
	s.occurring = nil
	fields := s.fields
	s.fields = slices.DeleteFunc(slices.Clone(fields), func(f wire.Tensor[float64]) bool { return byColumn(f.Name) })
	for _, f := range fields {
		if !byColumn(f.Name) {
			continue
		}
		if f.Name == statistics.FieldCross {
			crosses.Cross(s, few.width, f.Shape[1])
		}
		few.addTo(s.Field(f.Name, few.shape(f)...), f)
	}
}

// addTo adds a field of the columns that occur to one of all columns.
func (o *occurring) addTo(all []float64, f wire.Tensor[float64]) {
	k := len(all) / o.width
	for i, column := range o.columns {
		add(all[int(column)*k:][:k], f.Data[i*k:][:k])
	}
	if o.ones {
		add(all[(o.width-1)*k:], f.Data[len(o.columns)*k:])
	}
}

// add adds x to dst.
func add(dst, x []float64) { kernel.Add(dst, x[:len(dst)]) }

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

// numbering has a number for each column that occurs: by its place if there are few columns, otherwise in a hash table. By place, ten
// million columns would take 40 MB for each goroutine that sums. The zero value is ready for begin.
type numbering struct {
	byPlace []int32
	table   []numbered // open addressing; the length is a power of two, and at most half of it is taken
	hashed  bool
	columns int // of which some may have a number
}

// numbered is the number of a column.
type numbered struct {
	column int32 // plus 1; 0: free
	number int32
}

// numberedByPlace is how many columns have a number by their place: 4 MB.
const numberedByPlace = 1 << 20

// begin makes room for the numbers of at most so many of the columns. All are 0.
func (n *numbering) begin(columns, occurring int) {
	n.columns = columns
	if n.hashed = columns > max(numberedByPlace, 4*occurring); !n.hashed {
		if len(n.byPlace) < columns {
			n.byPlace = make([]int32, columns)
		}
		return
	}
	if size := 1 << bits.Len(uint(2*occurring)); len(n.table) < size {
		n.table = make([]numbered, size)
	}
}

// of returns where the number of a column is, until the next call.
func (n *numbering) of(column int32) *int32 {
	if !n.hashed {
		return &n.byPlace[column]
	}
	mask := uint32(len(n.table) - 1)
	for i := uint32(column) * 2654435769 >> 7 & mask; ; i = (i + 1) & mask { // Knuth's multiplicative hash
		switch at := &n.table[i]; at.column {
		case 0:
			at.column = column + 1
			return &at.number
		case column + 1:
			return &at.number
		}
	}
}

// end makes the numbers of these columns 0, which are all that have one.
func (n *numbering) end(columns []int32) {
	if n.hashed {
		clear(n.table)
		return
	}
	for _, column := range columns {
		n.byPlace[column] = 0
	}
}
