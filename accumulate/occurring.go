package accumulate

import (
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
