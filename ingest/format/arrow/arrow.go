package arrow

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/bitutil"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/ingest/message"
	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/value"
)

// Format is the file and the stream format of Arrow
// (https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc). Feather V2 is the
// file format.
func Format() format.Format {
	return format.Tables(format.Format{
		Name:     "arrow",
		Label:    message.Label,
		Meaning:  "an Arrow file (Feather) or stream",
		Patterns: []string{"*.arrow", "*.arrows", "*.feather", "*.ipc"},
	}, func(c *input.Content, o layout.Options, _ *layout.Features) (format.Table, error) {
		t, err := openArrow(c, o)
		return format.Table{Source: tabular.SourceOf(t), HasNames: true}, err
	})
}

// arrowMagic begins a file: a stream follows, then a footer, which is not read.
const arrowMagic = "ARROW1\x00\x00"

func isArrowFile(first []byte) bool { return bytes.HasPrefix(first, []byte(arrowMagic)) }

// arrowTable reads record batches one by one. Memory holds one of them, and the rows of a block.
type arrowTable struct {
	stream  *stream.Reader
	reserve func(input.Unpacked) error // nil: without limits
	columns []tabular.Field
	members [][]string // paths of the columns within structs, which follow the file's own columns
	batches []batch    // of the current rows and the next ones
	from    int        // first current row in the first batch
	rows    int        // number of current rows
	read    int64      // number of rows before the current ones
}

// batch is a record with the columns within its structs that are read.
type batch struct {
	arrow.Record
	members []arrow.Array
}

// Column returns a column of the record, or, after those, within its structs.
func (b *batch) Column(i int) arrow.Array {
	if own := int(b.NumCols()); i >= own {
		return b.members[i-own]
	}
	return b.Record.Column(i)
}

func openArrow(c *input.Content, o layout.Options) (tabular.Table, error) {
	if _, err := c.Peek(1); err == io.EOF && c.Value == nil {
		return nil, input.ErrEmpty
	}
	from, file := arrowStreamOf(c)
	r, err := stream.NewReader(from, file, memory.DefaultAllocator)
	if err != nil {
		return nil, err
	}
	t := &arrowTable{stream: r, reserve: c.Reserve}
	if c.Reserve != nil {
		r.Reserve(func(bytes int) error { return c.Reserve(input.Unpacked{Buffers: bytes}) })
	}
	fields := r.Schema().Fields()
	for _, name := range o.Needs() {
		if len(r.Schema().FieldIndices(name)) > 0 {
			continue
		}
		if path := message.Path(name); len(path) > 1 {
			if within := typeAt(arrow.StructOf(r.Schema().Fields()...), path); within != nil {
				fields, t.members = append(fields, arrow.Field{Name: name, Type: within}), append(t.members, path)
			}
		}
	}
	for i, f := range fields {
		column := tabular.Field{Name: f.Name, Kind: arrowKind(f.Type), Type: f.Type.String(), Advice: arrowAdvice(f.Type)}
		t.columns = append(t.columns, column)
		if column.Kind != tabular.List {
			continue
		}
		if fixed, ok := f.Type.(*arrow.FixedSizeListType); ok {
			t.columns[i].Length = int(fixed.Len())
		} else {
			t.columns[i].Length = -1 // known after the first rows are read
		}
	}
	if _, err := t.load(1); err != nil {
		return nil, err
	}
	for i := range t.columns {
		if t.columns[i].Length < 0 {
			t.columns[i].Length = 0
			if len(t.batches) > 0 {
				from, to := t.batches[0].Column(i).(array.ListLike).ValueOffsets(0)
				t.columns[i].Length = int(to - from)
			}
		}
	}
	return t, nil
}

// typeAt returns the type at a path of structs; nil: there is none.
func typeAt(t arrow.DataType, path []string) arrow.DataType {
	for _, name := range path {
		within, ok := t.(*arrow.StructType)
		if !ok {
			return nil
		}
		f, ok := within.FieldByName(name)
		if !ok {
			return nil
		}
		t = f.Type
	}
	return t
}

// table is named columns: of a batch or of a struct.
type table struct {
	names  []string
	member func(i int) arrow.Array
}

func tableOfRecord(batch arrow.Record) *table {
	return &table{namesOf(batch.Schema().Fields()), batch.Column}
}

func tableOf(s *array.Struct) *table {
	return &table{namesOf(s.DataType().(*arrow.StructType).Fields()), func(i int) arrow.Array { return memberOf(s, i) }}
}

func namesOf(fields []arrow.Field) (names []string) {
	for _, f := range fields {
		names = append(names, f.Name)
	}
	return names
}

// memberOf returns the values of a member, which are null where the struct is null.
func memberOf(s *array.Struct, i int) arrow.Array {
	member := s.Field(i)
	if s.NullN() == 0 || member.DataType().ID() == arrow.NULL {
		return member
	}
	data := member.Data().(*array.Data).Copy()
	at, valid := data.Offset(), make([]byte, bitutil.BytesForBits(int64(data.Offset()+data.Len())))
	for row := range data.Len() {
		if s.IsValid(row) && member.IsValid(row) {
			bitutil.SetBit(valid, at+row)
		}
	}
	data.Buffers()[0] = memory.NewBufferBytes(valid)
	data.SetNullN(array.UnknownNullCount)
	return array.MakeFromData(data)
}

// column returns the column with a name.
func (t *table) column(name string) (arrow.Array, bool) {
	if i := slices.Index(t.names, name); i >= 0 {
		return t.member(i), true
	}
	return nil, false
}

// find returns the column at a path of structs.
func (t *table) find(path []string) (arrow.Array, bool) {
	column, ok := t.column(path[0])
	if s, isStruct := column.(*array.Struct); ok && isStruct && len(path) > 1 {
		return tableOf(s).find(path[1:])
	}
	return column, ok && len(path) == 1
}

// arrowStreamOf returns the stream in a content, and whether the content is a file.
func arrowStreamOf(c *input.Content) (from io.Reader, file bool) {
	if c.Value != nil {
		file = isArrowFile(c.Value)
		return bytes.NewBuffer(bytes.TrimPrefix(c.Value, []byte(arrowMagic))), file
	}
	first, _ := c.Peek(len(arrowMagic))
	if file = isArrowFile(first); file { // the next read overwrites first
		c.Discard(len(arrowMagic)) // already peeked
	}
	return c, file
}

// arrowAdvice returns the advice for an unsupported type.
func arrowAdvice(t arrow.DataType) string {
	switch t.ID() {
	case arrow.DURATION:
		return tabular.AdviseSeconds
	case arrow.TIMESTAMP, arrow.DATE32, arrow.DATE64:
		return tabular.AdviseTimes
	}
	return ""
}

// arrowKind returns the kind of a type's values.
func arrowKind(t arrow.DataType) tabular.Kind {
	switch t := t.(type) {
	case *arrow.BooleanType:
		return tabular.Boolean
	case *arrow.Int8Type, *arrow.Int16Type, *arrow.Int32Type, *arrow.Int64Type, *arrow.Uint8Type, *arrow.Uint16Type, *arrow.Uint32Type,
		*arrow.Uint64Type:
		return tabular.Whole
	case *arrow.Float32Type, *arrow.Float64Type:
		return tabular.Numeric
	case *arrow.StringType, *arrow.LargeStringType:
		return tabular.Text
	case *arrow.TimestampType, *arrow.Date32Type, *arrow.Date64Type:
		return tabular.Moment
	case *arrow.DictionaryType:
		return arrowKind(t.ValueType)
	case *arrow.ListType, *arrow.LargeListType, *arrow.FixedSizeListType, *arrow.MapType:
		if arePairs(t) {
			return tabular.Pairs
		}
		switch arrowKind(t.(arrow.ListLikeType).Elem()) {
		case tabular.Whole, tabular.Numeric, tabular.Boolean:
			return tabular.List
		case tabular.Text:
			return tabular.TextList
		}
	}
	return tabular.Unread
}

func (t *arrowTable) Fields() []tabular.Field { return t.columns }

// load reads batches until n rows are available, and returns the number of available rows.
func (t *arrowTable) load(n int) (int, error) {
	rows := -t.from
	for _, b := range t.batches {
		rows += int(b.NumRows())
	}
	for rows < n {
		b, err := t.stream.Next(t.reads)
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
		own := batch{Record: b}
		for _, path := range t.members {
			within, _ := tableOfRecord(b).find(path) // the schema has it
			own.members = append(own.members, within)
		}
		t.batches, rows = append(t.batches, own), rows+int(b.NumRows())
	}
	return min(rows, n), nil
}

// reads reports whether a column of the file is read, or one within it.
func (t *arrowTable) reads(column int) bool {
	return t.columns[column].Kind != tabular.Unread ||
		slices.ContainsFunc(t.members, func(path []string) bool { return path[0] == t.columns[column].Name })
}

func (t *arrowTable) Begin(n int) (rows int, err error) {
	t.read += int64(t.rows)
	t.from += t.rows
	for len(t.batches) > 0 && t.from >= int(t.batches[0].NumRows()) {
		t.from -= int(t.batches[0].NumRows())
		t.batches[0].Release()
		t.batches[0], t.batches = batch{}, t.batches[1:]
	}
	t.rows, err = t.load(n)
	return t.rows, err
}

// each calls put for each current row of a column, with the batch's values and the index in them.
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

func (t *arrowTable) Numbers(column int, put func(i int, v float64) error) error {
	length := t.columns[column].Length
	if t.columns[column].Kind != tabular.List {
		return t.each(column, func(row int, c arrowCells, at int) error { return put(row, c.floatAt(at)) })
	}
	return t.each(column, func(row int, c arrowCells, at int) error {
		from, to := c.lists.ValueOffsets(at)
		if c.isNull(at) || int(to-from) != length {
			return tabular.RaggedAt(t.read+int64(row), length)
		}
		for j := range length {
			if err := put(row*length+j, c.values.floatAt(int(from)+j)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Lists implements wordLists.
func (t *arrowTable) Lists(column int, put func(row int, items []string, null bool) error) error {
	return t.each(column, func(row int, c arrowCells, at int) error {
		if c.isNull(at) {
			return put(row, nil, true)
		}
		from, to := c.lists.ValueOffsets(at)
		items := make([]string, 0, to-from)
		for i := int(from); i < int(to); i++ {
			items = append(items, c.values.wordAt(i))
		}
		return put(row, items, false)
	})
}

// Singles implements singleLists.
func (t *arrowTable) Singles(column int, put func(row int, values []float32) error) (ok bool, err error) {
	if t.columns[column].Kind != tabular.List {
		return false, nil
	}
	length := t.columns[column].Length
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

func (t *arrowTable) Wholes(column int, put func(row int, v int64, null bool) error) error {
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

func (t *arrowTable) Texts(column int, put func(row int, v string, null bool) error) error {
	if t.reserve != nil {
		var all input.Unpacked
		err := t.each(column, func(_ int, c arrowCells, at int) error {
			if c.text != nil && !c.isNull(at) {
				all.Texts += len(c.text(at))
			}
			return nil
		})
		if err == nil {
			err = t.reserve(all)
		}
		if err != nil {
			return err
		}
	}
	return t.each(column, func(row int, c arrowCells, at int) error {
		return put(row, c.wordAt(at), c.isNull(at))
	})
}

// arrowCells are the values of a column in a batch. One of float, whole, text and lists is set.
type arrowCells struct {
	isNull   func(i int) bool
	float    func(i int) float64
	whole    func(i int) int64
	unsigned bool // whole returns the bits of a uint64
	boolean  bool // whole returns 1 for true
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

// wordAt returns a text, or the word of a number or a boolean; "" for a null.
func (c *arrowCells) wordAt(i int) string {
	switch {
	case c.isNull(i):
		return ""
	case c.text != nil:
		return c.text(i)
	case c.boolean:
		return value.WordOfBoolean(c.whole(i) != 0)
	case c.unsigned:
		return strconv.FormatUint(uint64(c.whole(i)), 10)
	case c.whole != nil:
		return strconv.FormatInt(c.whole(i), 10)
	}
	if v := c.float(i); v == v {
		return value.WordOf(v)
	}
	return "" // NaN, as a null
}

// cellsOf returns the values of a column.
func cellsOf(column arrow.Array) (c arrowCells, err error) {
	c.isNull = column.IsNull
	switch column := column.(type) {
	case *array.Boolean:
		c.boolean = true
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
	case *array.Timestamp:
		toTime, err := column.DataType().(*arrow.TimestampType).GetToTimeFunc()
		if err != nil { // an unknown time zone
			toTime = func(v arrow.Timestamp) time.Time { return v.ToTime(column.DataType().(*arrow.TimestampType).Unit) }
		}
		c.text = func(i int) string { return toTime(column.Value(i)).Format(time.RFC3339Nano) }
	case *array.Date32:
		c.text = func(i int) string { return column.Value(i).ToTime().Format(time.DateOnly) }
	case *array.Date64:
		c.text = func(i int) string { return column.Value(i).ToTime().Format(time.DateOnly) }
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

// wholesOf widens integers.
func wholesOf[T int8 | int16 | int32 | uint8 | uint16 | uint32 | uint64](value func(int) T) func(int) int64 {
	return func(i int) int64 { return int64(value(i)) }
}

// at returns the values of a dictionary-encoded column, whose dictionary is c. They may also be null.
func (c arrowCells) at(column *array.Dictionary) arrowCells {
	index := column.GetValueIndex
	encoded := arrowCells{unsigned: c.unsigned, boolean: c.boolean, isNull: func(i int) bool { return column.IsNull(i) || c.isNull(index(i)) }}
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
