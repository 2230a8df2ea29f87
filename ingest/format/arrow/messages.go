package arrow

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/bitutil"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/message"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas/stream"
)

// streams is the name of this format, also for files.
const streams = "arrow"

// Messages is the Arrow stream or file format for messages with arbitrary columns.
func Messages() message.Format {
	return message.Format{
		Name:     streams,
		Meaning:  "an Arrow stream or file, with rows of any columns",
		Label:    message.Label,
		Keys:     message.NamedKeys(),
		Unframed: true,
		Check:    func(o message.Options) []option.Problem { return message.CheckNamed(o) },
		Open: func(o message.Options) (message.Reader, error) {
			return &messages{options: o, wanted: message.Want(o), most: message.MaxRows(o.Options)}, nil
		},
	}
}

// messages reads streams.
type messages struct {
	options message.Options
	wanted  *message.Wanted
	most    int
	rows    [][]tabular.Cell
	names   []string // of the columns of the last stream
}

// Names implements message.Reader.
func (r *messages) Names() []string { return r.names }

// Read implements message.Reader.
func (r *messages) Read(_ context.Context, p message.Payload) (rows [][]tabular.Cell, err error) {
	defer func() {
		if cause := recover(); cause != nil { // the library does not validate streams
			err = fmt.Errorf("the stream is damaged: %v", cause)
		}
	}()
	file := isArrowFile(p.Value)
	s, err := stream.NewReader(bytes.NewBuffer(bytes.TrimPrefix(p.Value, []byte(arrowMagic))), file, memory.DefaultAllocator)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	names := namesOf(s.Schema().Fields())
	r.rows, r.names = r.rows[:0], names
	for {
		batch, err := s.Next(func(column int) bool { return r.reads(names[column]) })
		if err == io.EOF {
			return r.rows, nil
		}
		if err != nil {
			return nil, err
		}
		err = r.add(batch, names)
		batch.Release()
		if err != nil {
			return nil, err
		}
	}
}

// maxItems limits the list items of a column in a batch, because null items take no bytes.
const maxItems = 1 << 18

var errItems = fmt.Errorf("lists with more than %d values", maxItems)

// reads reports whether any part of a batch's column is wanted.
func (r *messages) reads(name string) bool {
	return r.wanted.Root.Below[name] != nil || slices.Contains(r.wanted.Names, name)
}

// add adds the rows of a batch.
func (r *messages) add(batch arrow.Record, names []string) error {
	root := tableOfRecord(batch)
	n := int(batch.NumRows())
	if r.wanted.Rows {
		return r.addWithin(root, n)
	}
	from := len(r.rows)
	if err := r.grow(n); err != nil {
		return err
	}
	for column, name := range r.wanted.Names {
		found, err := root.read(message.Path(name), name, n, func(row int, c tabular.Cell) { r.rows[from+row][column] = c })
		if err != nil {
			return fmt.Errorf("column %s: %w", strconv.Quote(name), err)
		}
		if !found && column < message.Predicted(r.options.Options) {
			return message.NoColumnError(r.options.Options, column, names)
		}
	}
	return nil
}

func (r *messages) grow(n int) error {
	if len(r.rows)+n > r.most {
		return message.TooManyRows(r.most)
	}
	for range n {
		message.NextRow(&r.rows, r.wanted.Columns)
	}
	return nil
}

// addWithin adds the rows in a column of a batch: lists of structs, or structs.
func (r *messages) addWithin(root *table, n int) error {
	if n > r.most {
		return message.TooManyRows(r.most)
	}
	at, ok := root.find(message.Path(r.options.Rows))
	if !ok {
		return message.NoRowsError(r.options.Rows, root.names)
	}
	from, ends := len(r.rows), make([]int, n) // end of the rows of each row of the batch
	var places []int                          // their indices in the child array
	values := at
	if lists, ok := at.(array.ListLike); ok {
		values = lists.ListValues()
	}
	within, ok := values.(*array.Struct)
	if !ok {
		return fmt.Errorf("examples.rows: %s is %s: expected structures, or lists of structures",
			strconv.Quote(r.options.Rows), at.DataType())
	}
	for row := range n {
		switch lists, ok := at.(array.ListLike); {
		case at.IsNull(row):
		case ok:
			first, last := lists.ValueOffsets(row)
			for i := first; i < last; i++ {
				places = append(places, int(i))
			}
		default:
			places = append(places, row)
		}
		if ends[row] = len(places); len(places) > r.most {
			return message.TooManyRows(r.most)
		}
	}
	if err := r.grow(len(places)); err != nil {
		return err
	}
	if within.Len() > maxItems {
		return errItems
	}
	t := tableOf(within)
	for column, name := range r.wanted.Names {
		cells := make([]tabular.Cell, within.Len())
		found, err := t.read(message.Path(name), name, within.Len(), func(row int, c tabular.Cell) { cells[row] = c })
		for i, place := range places {
			r.rows[from+i][column] = cells[place]
		}
		if err == nil && !found {
			cells = make([]tabular.Cell, n)
			found, err = root.read(message.Path(name), name, n, func(row int, c tabular.Cell) { cells[row] = c })
			for row, i := 0, 0; row < n; row++ {
				for ; i < ends[row]; i++ {
					r.rows[from+i][column] = cells[row]
				}
			}
		}
		if err != nil {
			return fmt.Errorf("column %s: %w", strconv.Quote(name), err)
		}
		if !found && column < message.Predicted(r.options.Options) {
			return message.NoColumnError(r.options.Options, column, t.names)
		}
	}
	return nil
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

// read calls put for the cells of n rows at a path. found reports whether the path exists.
func (t *table) read(path []string, whole string, n int, put func(row int, c tabular.Cell)) (found bool, err error) {
	if column, ok := t.column(whole); ok {
		return true, eachCell(column, n, put)
	}
	column, ok := t.column(path[0])
	switch {
	case !ok:
		return false, nil
	case len(path) == 1:
		return true, eachCell(column, n, put)
	}
	switch column := column.(type) {
	case *array.Struct:
		return tableOf(column).read(path[1:], "", n, put)
	case array.ListLike:
		place, err := strconv.Atoi(path[1])
		if err != nil || place < 0 {
			return false, nil
		}
		values := column.ListValues()
		if values.Len() > maxItems {
			return false, errItems
		}
		cells := make([]tabular.Cell, values.Len())
		collect := func(row int, c tabular.Cell) { cells[row] = c }
		if len(path) == 2 {
			found, err = true, eachCell(values, values.Len(), collect)
		} else if s, ok := values.(*array.Struct); ok {
			found, err = tableOf(s).read(path[2:], "", values.Len(), collect)
		}
		if err != nil || !found {
			return found, err
		}
		for row := range n {
			if first, last := column.ValueOffsets(row); !column.IsNull(row) && int64(place) < last-first {
				put(row, cells[int(first)+place])
			}
		}
		return true, nil
	}
	return false, nil
}

// eachCell calls put for the first n cells of a column. Times are in seconds.
func eachCell(column arrow.Array, n int, put func(row int, c tabular.Cell)) error {
	switch column := column.(type) {
	case *array.Struct, *array.Map:
		for row := range n {
			if put(row, tabular.Object()); column.IsNull(row) {
				put(row, tabular.Cell{})
			}
		}
		return nil
	case *array.Null:
		for row := range n {
			put(row, tabular.Cell{})
		}
		return nil
	}
	if cell := timeOf(column); cell != nil {
		for row := range n {
			if column.IsNull(row) {
				put(row, tabular.Cell{})
			} else {
				put(row, cell(row))
			}
		}
		return nil
	}
	if lists, ok := column.(array.ListLike); ok {
		if lists.ListValues().Len() > maxItems {
			return errItems
		}
		values := make([]tabular.Cell, lists.ListValues().Len())
		if err := eachCell(lists.ListValues(), len(values), func(row int, c tabular.Cell) { values[row] = c }); err != nil {
			return err
		}
		for row := range n {
			if lists.IsNull(row) {
				put(row, tabular.Cell{})
				continue
			}
			first, last := lists.ValueOffsets(row)
			put(row, tabular.Items(values[first:last:last]))
		}
		return nil
	}
	cells, err := cellsOf(column)
	if err != nil {
		return err
	}
	for row := range n {
		put(row, cells.cellAt(row))
	}
	return nil
}

// cellAt returns a value.
func (c *arrowCells) cellAt(i int) tabular.Cell {
	switch {
	case c.isNull(i):
		return tabular.Cell{}
	case c.text != nil:
		return tabular.Word(string([]byte(c.text(i)))) // the text is a part of the batch
	case c.boolean:
		return tabular.Truth(c.whole(i) != 0)
	case c.unsigned:
		return tabular.Unsigned(uint64(c.whole(i)))
	case c.whole != nil:
		return tabular.Integer(c.whole(i))
	case c.float != nil:
		return tabular.Float(c.float(i))
	}
	return tabular.Object()
}

// timeOf returns the cells of a time column; nil for another column.
func timeOf(column arrow.Array) func(row int) tabular.Cell {
	const day = 86400
	whole := func(v int64, unit arrow.TimeUnit) float64 {
		per := int64(1)
		for range unit {
			per *= 1000
		}
		return float64(v/per) + float64(v%per)/float64(per)
	}
	switch column := column.(type) {
	case *array.Timestamp:
		unit := column.DataType().(*arrow.TimestampType).Unit
		return func(row int) tabular.Cell { return tabular.Instant(whole(int64(column.Value(row)), unit)) }
	case *array.Duration:
		unit := column.DataType().(*arrow.DurationType).Unit
		return func(row int) tabular.Cell { return tabular.Float(whole(int64(column.Value(row)), unit)) }
	case *array.Time32:
		unit := column.DataType().(*arrow.Time32Type).Unit
		return func(row int) tabular.Cell { return tabular.Float(whole(int64(column.Value(row)), unit)) }
	case *array.Time64:
		unit := column.DataType().(*arrow.Time64Type).Unit
		return func(row int) tabular.Cell { return tabular.Float(whole(int64(column.Value(row)), unit)) }
	case *array.Date32:
		return func(row int) tabular.Cell { return tabular.Instant(float64(column.Value(row)) * day) }
	case *array.Date64:
		return func(row int) tabular.Cell { return tabular.Instant(whole(int64(column.Value(row)), arrow.Millisecond)) }
	case *array.Decimal128:
		scale := column.DataType().(*arrow.Decimal128Type).Scale
		return func(row int) tabular.Cell { return tabular.Float(column.Value(row).ToFloat64(scale)) }
	}
	return nil
}
