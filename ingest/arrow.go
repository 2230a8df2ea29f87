package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/schemas/stream"
)

// arrowFormat is the file and the stream of Arrow's columnar format
// (https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc). Feather is such a file.
func arrowFormat() format {
	return tableFormat(format{
		name:      "arrow",
		meaning:   "columns as in `parquet`, in a file or a stream of Arrow, as Feather",
		patterns:  []string{"*.arrow", "*.arrows", "*.feather", "*.ipc"},
		recognise: func(first []byte) bool { return isArrowFile(first) || strings.HasPrefix(string(first), arrowStream) },
	}, openArrow)
}

const (
	arrowMagic  = "ARROW1\x00\x00"   // of a file. A stream follows, and then an index of its batches, which is not read
	arrowStream = "\xff\xff\xff\xff" // begins each message of a stream
)

func isArrowFile(first []byte) bool { return bytes.HasPrefix(first, []byte(arrowMagic)) }

// arrowTable reads record batch after record batch. Memory holds one, and the rows of a block.
type arrowTable struct {
	stream  *stream.Reader
	columns []field
	batches []arrow.Record // those of the current rows, and of the next rows
	from    int            // the first current row of the first batch
	rows    int            // current rows
	read    int64          // rows before the current ones
}

func openArrow(c *content, _ Options) (table, error) {
	from, file := c.arrow()
	r, err := stream.NewReader(from, file, memory.DefaultAllocator)
	if err != nil {
		return nil, err
	}
	if c.unpacked > 0 {
		r.LimitUnpacked(c.unpacked)
	}
	t := &arrowTable{stream: r}
	for i, f := range r.Schema().Fields() {
		column := field{name: f.Name, kind: arrowKind(f.Type), typ: f.Type.String()}
		t.columns = append(t.columns, column)
		if column.kind != list {
			continue
		}
		if fixed, ok := f.Type.(*arrow.FixedSizeListType); ok {
			t.columns[i].length = int(fixed.Len())
		} else {
			t.columns[i].length = -1 // known when the first rows are read
		}
	}
	if _, err := t.load(1); err != nil {
		return nil, err
	}
	for i := range t.columns {
		if t.columns[i].length < 0 {
			t.columns[i].length = 0
			if len(t.batches) > 0 {
				from, to := t.batches[0].Column(i).(array.ListLike).ValueOffsets(0)
				t.columns[i].length = int(to - from)
			}
		}
	}
	return t, nil
}

// arrow returns the stream of the content, and whether a file has it.
func (c *content) arrow() (from io.Reader, file bool) {
	if c.value != nil {
		file = isArrowFile(c.value)
		return bytes.NewBuffer(bytes.TrimPrefix(c.value, []byte(arrowMagic))), file
	}
	first, _ := c.Peek(len(arrowMagic))
	if file = isArrowFile(first); file { // the next read overwrites first
		c.Discard(len(arrowMagic)) // it was peeked
	}
	return c, file
}

// arrowKind returns what the values of a type are.
func arrowKind(t arrow.DataType) kind {
	switch t := t.(type) {
	case *arrow.BooleanType, *arrow.Int8Type, *arrow.Int16Type, *arrow.Int32Type, *arrow.Int64Type, *arrow.Uint8Type, *arrow.Uint16Type, *arrow.Uint32Type, *arrow.Uint64Type:
		return whole
	case *arrow.Float32Type, *arrow.Float64Type:
		return numeric
	case *arrow.StringType, *arrow.LargeStringType:
		return text
	case *arrow.DictionaryType:
		return arrowKind(t.ValueType)
	case *arrow.ListType, *arrow.LargeListType, *arrow.FixedSizeListType, *arrow.MapType:
		if arePairs(t) {
			return pairs
		}
		switch arrowKind(t.(arrow.ListLikeType).Elem()) {
		case whole, numeric:
			return list
		case text:
			return textList
		}
	}
	return unread
}

func (t *arrowTable) fields() []field { return t.columns }

// load reads batches until n rows follow, and returns how many of them there are.
func (t *arrowTable) load(n int) (int, error) {
	rows := -t.from
	for _, b := range t.batches {
		rows += int(b.NumRows())
	}
	for rows < n {
		b, err := t.stream.Next(func(i int) bool { return t.columns[i].kind != unread })
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, err
		}
		if b.NumRows() == 0 {
			b.Release()
			continue
		}
		t.batches, rows = append(t.batches, b), rows+int(b.NumRows())
	}
	return min(rows, n), nil
}

func (t *arrowTable) begin(n int) (rows int, err error) {
	t.read += int64(t.rows)
	t.from += t.rows
	for len(t.batches) > 0 && t.from >= int(t.batches[0].NumRows()) {
		t.from -= int(t.batches[0].NumRows())
		t.batches[0].Release()
		t.batches[0], t.batches = nil, t.batches[1:]
	}
	t.rows, err = t.load(n)
	return t.rows, err
}

// each calls put for each current row of a column, with its values in the batch of the row.
func (t *arrowTable) each(column int, put func(row int, cells arrowCells, at int) error) error {
	row, at := 0, t.from
	for _, b := range t.batches {
		cells, err := cellsOf(b.Column(column))
		if err != nil {
			return err
		}
		for ; at < int(b.NumRows()) && row < t.rows; row, at = row+1, at+1 {
			if err := put(row, cells, at); err != nil {
				return err
			}
		}
		at = 0
	}
	return nil
}

func (t *arrowTable) numbers(column int, put func(i int, v float64) error) error {
	length := t.columns[column].length
	if t.columns[column].kind != list {
		return t.each(column, func(row int, c arrowCells, at int) error { return put(row, c.floatAt(at)) })
	}
	return t.each(column, func(row int, c arrowCells, at int) error {
		from, to := c.lists.ValueOffsets(at)
		if c.isNull(at) || int(to-from) != length {
			return raggedAt(t.read+int64(row), length)
		}
		for j := range length {
			if err := put(row*length+j, c.values.floatAt(int(from)+j)); err != nil {
				return err
			}
		}
		return nil
	})
}

// lists implements wordLists.
func (t *arrowTable) lists(column int, put func(row int, items []string, null bool) error) error {
	return t.each(column, func(row int, c arrowCells, at int) error {
		if c.isNull(at) {
			return put(row, nil, true)
		}
		from, to := c.lists.ValueOffsets(at)
		items := make([]string, 0, to-from)
		for i := int(from); i < int(to); i++ {
			switch {
			case c.values.isNull(i):
				items = append(items, "")
			case c.values.text != nil:
				items = append(items, c.values.text(i))
			case c.values.whole != nil:
				items = append(items, strconv.FormatInt(c.values.whole(i), 10))
			default:
				return fmt.Errorf("row %d, counted from 0: a list of numbers with fractions: expected labels", t.read+int64(row))
			}
		}
		return put(row, items, false)
	})
}

// singles implements singleLists.
func (t *arrowTable) singles(column int, put func(row int, values []float32) error) (ok bool, err error) {
	if t.columns[column].kind != list {
		return false, nil
	}
	length := t.columns[column].length
	for _, b := range t.batches {
		fixed, ok := b.Column(column).(*array.FixedSizeList)
		if !ok {
			return false, nil
		}
		if values, ok := fixed.ListValues().(*array.Float32); !ok || fixed.NullN() > 0 || values.NullN() > 0 {
			return false, nil
		}
	}
	row, at := 0, t.from
	for _, b := range t.batches {
		fixed := b.Column(column).(*array.FixedSizeList)
		values := fixed.ListValues().(*array.Float32).Float32Values()
		for ; at < int(b.NumRows()) && row < t.rows; row, at = row+1, at+1 {
			from := (fixed.Offset() + at) * length
			if err := put(row, values[from:from+length]); err != nil {
				return true, err
			}
		}
		at = 0
	}
	return true, nil
}

func (t *arrowTable) wholes(column int, put func(row int, v int64, null bool) error) error {
	return t.each(column, func(row int, c arrowCells, at int) error {
		if c.isNull(at) {
			return put(row, 0, true)
		}
		v := c.whole(at)
		if c.unsigned && v < 0 {
			return fmt.Errorf("row %d, counted from 0: %d does not fit int64", t.read+int64(row), uint64(v))
		}
		return put(row, v, false)
	})
}

func (t *arrowTable) texts(column int, put func(row int, v string, null bool) error) error {
	return t.each(column, func(row int, c arrowCells, at int) error {
		if c.isNull(at) {
			return put(row, "", true)
		}
		return put(row, c.text(at), false)
	})
}

// arrowCells are the values of a column of a batch. One of float, whole, text and lists is set.
type arrowCells struct {
	isNull   func(i int) bool
	float    func(i int) float64
	whole    func(i int) int64
	unsigned bool // whole returns the bits of an uint64
	text     func(i int) string
	lists    array.ListLike
	values   *arrowCells // of all lists
}

// floatAt returns a number, or NaN for a null.
func (c *arrowCells) floatAt(i int) float64 {
	switch {
	case c.isNull(i):
		return math.NaN()
	case c.unsigned:
		return float64(uint64(c.whole(i)))
	case c.whole != nil:
		return float64(c.whole(i))
	}
	return c.float(i)
}

// cellsOf returns the values of a column.
func cellsOf(column arrow.Array) (c arrowCells, err error) {
	c.isNull = column.IsNull
	switch column := column.(type) {
	case *array.Boolean:
		c.whole = func(i int) int64 {
			if column.Value(i) {
				return 1
			}
			return 0
		}
	case *array.Int8:
		c.whole = wholesOf(column.Value)
	case *array.Int16:
		c.whole = wholesOf(column.Value)
	case *array.Int32:
		c.whole = wholesOf(column.Value)
	case *array.Int64:
		c.whole = column.Value
	case *array.Uint8:
		c.whole = wholesOf(column.Value)
	case *array.Uint16:
		c.whole = wholesOf(column.Value)
	case *array.Uint32:
		c.whole = wholesOf(column.Value)
	case *array.Uint64:
		c.whole, c.unsigned = wholesOf(column.Value), true
	case *array.Float32:
		c.float = func(i int) float64 { return float64(column.Value(i)) }
	case *array.Float64:
		c.float = column.Value
	case *array.String:
		c.text = column.Value
	case *array.LargeString:
		c.text = column.Value
	case *array.Dictionary:
		values, err := cellsOf(column.Dictionary())
		if err != nil {
			return c, err
		}
		return values.at(column), nil
	case array.ListLike:
		values, err := cellsOf(column.ListValues())
		if err != nil {
			return c, err
		}
		c.lists, c.values = column, &values
	default:
		return c, errors.New("type " + column.DataType().String() + " is not read")
	}
	return c, nil
}

// wholesOf widens whole numbers.
func wholesOf[T int8 | int16 | int32 | uint8 | uint16 | uint32 | uint64](value func(int) T) func(int) int64 {
	return func(i int) int64 { return int64(value(i)) }
}

// at returns the values of a column that is encoded with a dictionary of these values. They may be null too.
func (c arrowCells) at(column *array.Dictionary) arrowCells {
	index := column.GetValueIndex
	encoded := arrowCells{unsigned: c.unsigned, isNull: func(i int) bool { return column.IsNull(i) || c.isNull(index(i)) }}
	if c.float != nil {
		encoded.float = func(i int) float64 { return c.float(index(i)) }
	}
	if c.whole != nil {
		encoded.whole = func(i int) int64 { return c.whole(index(i)) }
	}
	if c.text != nil {
		encoded.text = func(i int) string { return c.text(index(i)) }
	}
	return encoded
}
