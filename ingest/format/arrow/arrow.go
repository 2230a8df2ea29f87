// Package arrow reads Arrow files and streams as tables.
package arrow

import (
	"bytes"
	"io"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/stream"
)

// Format is the file and the stream format of Arrow
// (https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc). Feather V2 is the
// file format.
func Format() format.Format {
	return format.Format{
		Name:     "arrow",
		Label:    format.Label,
		Meaning:  "an Arrow file (Feather) or stream",
		Values:   "an Arrow stream or file, with rows of any columns",
		Patterns: []string{"*.arrow", "*.arrows", "*.feather", "*.ipc"},
		Files:    1,
		Table:    open,
		Unframed: true,
		Decoder: func(o format.Options) (format.Decoder, error) {
			wanted := wantedColumns{}
			for _, name := range append(format.Columns(o.Options), o.Rows) {
				wanted[name], wanted[tabular.Path(name)[0]] = true, true
			}
			return format.Decoder{Decode: wanted.decode}, nil
		},
	}
}

// arrowMagic begins a file: a stream follows, then a footer, which is not read.
const arrowMagic = "ARROW1\x00\x00"

func isArrowFile(first []byte) bool { return bytes.HasPrefix(first, []byte(arrowMagic)) }

// Records are the batches of a file, or of a stream.
type Records interface {
	// Schema returns the columns.
	Schema() *arrow.Schema
	// Next returns the next batch, of at most n rows if the reader can choose; io.EOF after the last. Only columns for which read returns
	// true are read, and none that were not read before.
	Next(n int, read func(column int) bool) (arrow.Record, error)
}

// batches are the batches of an Arrow stream.
type batches struct{ *stream.Reader }

// Next implements Records.
func (b batches) Next(_ int, read func(column int) bool) (arrow.Record, error) {
	return b.Reader.Next(read)
}

// source reads record batches one by one, each in one or several blocks.
type source struct {
	records Records
	reserve func(Unpacked) error // nil: without limits
	fields  []tabular.Field
	own     int   // number of columns of the file; nested columns follow
	parents []int // of each nested column: number of the column of the file
	paths   *tabular.Paths

	batch arrow.Record
	rows  *stream.Values // of the batch
	from  int            // the first row of the batch that is not in a block yet
}

// open opens a file or a stream.
func open(c *input.Content, o layout.Options, _ *layout.Features) (format.Table, error) {
	if _, err := c.Peek(1); err == io.EOF {
		return format.Table{}, input.ErrEmpty
	}
	first, _ := c.Peek(len(arrowMagic))
	file := isArrowFile(first)
	if file { // the next read overwrites first
		c.Discard(len(arrowMagic)) // already peeked
	}
	r, err := stream.NewReader(c, file, memory.DefaultAllocator)
	if err != nil {
		return format.Table{}, err
	}
	return Table(batches{r}, o)
}

// Table returns the table of some records.
func Table(r Records, o layout.Options) (format.Table, error) { return newSource(r, o).table() }

// table returns the table of the source.
func (s *source) table() (format.Table, error) {
	return format.Table{Source: s, HasNames: true}, s.findLengths()
}

// newSource returns a source of records. The options may name nested columns by path.
func newSource(r Records, o layout.Options) *source {
	schema := arrow.StructOf(r.Schema().Fields()...)
	s := &source{records: r, own: schema.NumFields()}
	for _, f := range schema.Fields() {
		s.fields = append(s.fields, fieldOf(f.Name, f.Type))
	}
	var within []string
	for _, name := range o.Named() {
		path := tabular.Path(name)
		if _, own := schema.FieldIdx(name); own || len(path) < 2 || slices.Contains(within, name) {
			continue
		}
		t := TypeAt(schema, path)
		if t == nil {
			continue
		}
		f := fieldOf(name, t)
		if f.Kind == tabular.Pairs {
			f.Kind = tabular.Unread
		}
		parent, _ := schema.FieldIdx(path[0])
		s.fields, within, s.parents = append(s.fields, f), append(within, name), append(s.parents, parent)
	}
	s.paths = tabular.NewPaths(within)
	return s
}

// noLength reports whether a column has lists whose length is not known.
func noLength(f tabular.Field) bool { return f.Kind == tabular.List && f.Length == 0 }

// findLengths sets the lengths of lists to those of the first row.
func (s *source) findLengths() error {
	if !slices.ContainsFunc(s.fields, noLength) {
		return nil
	}
	all := slices.Repeat([]bool{true}, len(s.fields)) // the batch is also that of the first block
	if ok, err := s.load(1, all); err != nil || !ok {
		return err
	}
	cells, err := s.cells(0)
	for i, f := range s.fields {
		if !noLength(f) {
			continue
		}
		if lists := s.column(i); lists != nil {
			from, to := lists.Range(0)
			s.fields[i].Length = to - from
		} else {
			s.fields[i].Length = len(cells[i].List())
		}
	}
	return err
}

// fieldOf describes a column.
func fieldOf(name string, t arrow.DataType) tabular.Field {
	f := tabular.Field{Name: name, Kind: kindOf(t), Type: t.String()}
	if fixed, ok := t.(*arrow.FixedSizeListType); ok && f.Kind == tabular.List {
		f.Length = int(fixed.Len())
	}
	if f.Kind == tabular.Moment {
		f.Advice = tabular.AdviseTimes
	}
	return f
}

// kindOf returns the kind of a type's values.
func kindOf(t arrow.DataType) tabular.Kind {
	switch stream.TypeOf(t) {
	case stream.Boolean:
		return tabular.Boolean
	case stream.Whole:
		return tabular.Whole
	case stream.Number, stream.Null:
		return tabular.Numeric
	case stream.Text:
		return tabular.Text
	case stream.Moment:
		return tabular.Moment
	case stream.List:
		if arePairs(t) {
			return tabular.Pairs
		}
		switch of := kindOf(t.(arrow.ListLikeType).Elem()); {
		case tabular.IsNumber(of):
			return tabular.List
		case of == tabular.Text:
			return tabular.TextList
		}
	}
	return tabular.Unread
}

// arePairs reports whether the values of a type are sparse rows: lists of index and value, as in examples messages, or
// maps.
func arePairs(t arrow.DataType) bool {
	pair, ok := t.(arrow.ListLikeType).Elem().(*arrow.StructType)
	if !ok || pair.NumFields() != 2 || t.ID() == arrow.FIXED_SIZE_LIST {
		return false
	}
	index, value, ok := pairOf(t)
	return ok && kindOf(pair.Field(index).Type) == tabular.Whole && tabular.IsNumber(kindOf(pair.Field(value).Type))
}

// pairOf returns which members of an entry of a sparse row are the index and the value. ok is false if there are none.
func pairOf(t arrow.DataType) (index, value int, ok bool) {
	pair := t.(arrow.ListLikeType).Elem().(*arrow.StructType)
	if t.ID() == arrow.MAP {
		return 0, 1, true
	}
	index, hasIndex := pair.FieldIdx("index")
	if !hasIndex {
		index, hasIndex = pair.FieldIdx("key")
	}
	value, hasValue := pair.FieldIdx("value")
	return index, value, hasIndex && hasValue
}

// readerOf returns a reader of a stream or a file in memory, which is not copied.
func readerOf(value []byte) (*stream.Reader, error) {
	content := bytes.NewBuffer(bytes.TrimPrefix(value, []byte(arrowMagic)))
	return stream.NewReader(content, isArrowFile(value), memory.DefaultAllocator)
}

// Fields implements tabular.Source.
func (s *source) Fields() []tabular.Field { return s.fields }

// load reads a batch if all rows of the last one are in blocks: at most n rows, if the file has no batches. ok is false at the end.
func (s *source) load(n int, wanted []bool) (ok bool, err error) {
	for s.batch == nil || s.from == int(s.batch.NumRows()) {
		if s.batch != nil {
			s.batch.Release()
			s.batch = nil
		}
		next, err := s.records.Next(n, func(column int) bool {
			if wanted[column] && s.fields[column].Kind != tabular.Unread {
				return true
			}
			for i, parent := range s.parents {
				if parent == column && wanted[s.own+i] {
					return true
				}
			}
			return false
		})
		if err == io.EOF {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		s.batch, s.rows, s.from = next, RowsOf(next), 0
	}
	return true, nil
}

// column returns the values of a column; nil if they must be read as cells, as within lists, maps, and structs with nulls.
func (s *source) column(i int) *stream.Values {
	if i < s.own {
		return s.rows.At(i)
	}
	return at(s.rows, s.fields[i].Name, true)
}

// At returns the values at a path in rows; nil if there are none. A member of a null struct is null, as in Parquet.
func At(rows *stream.Values, path string) *stream.Values { return at(rows, path, false) }

// at is At; with valid set, there are none either if one of the structs is null.
func at(rows *stream.Values, path string, valid bool) *stream.Values {
	for _, name := range tabular.Path(path) {
		if rows == nil || rows.Type != stream.Struct || valid && rows.Column.NullN() > 0 {
			return nil
		}
		rows = rows.Named(name)
	}
	return rows
}

// cells returns the values of the nested columns in a row of the batch, after the columns of the file.
func (s *source) cells(row int) ([]tabular.Cell, error) {
	cells := make([]tabular.Cell, len(s.fields))
	return cells, s.paths.Read(Nested{s.rows, row, true}.Cell(), cells[s.own:])
}

// Read implements tabular.Source.
func (s *source) Read(n int, wanted []bool, b *tabular.Block) error {
	b.Reset(len(s.fields))
	if ok, err := s.load(n, wanted); err != nil || !ok {
		return err
	}
	from := s.from
	s.from = min(from+n, int(s.batch.NumRows()))
	b.Rows = s.from - from
	cells := false
	for i := range s.fields {
		of := s.column(i)
		if cells = cells || of == nil; of == nil || !wanted[i] {
			continue
		}
		b.Columns[i] = column{of, from}
		if s.reserve != nil {
			if err := s.reserve(unpacked(s.fields[i].Kind, of, from, s.from)); err != nil {
				return &tabular.ColumnError{Column: i, Err: err}
			}
		}
	}
	for row := from; cells && row < s.from; row++ {
		cells, err := s.cells(row)
		if err != nil {
			return err
		}
		b.Cells = append(b.Cells, cells)
	}
	return nil
}

// column has the values of a column in the rows of a record, from a row on.
type column struct {
	of   *stream.Values
	from int
}

// Cell implements tabular.Column.
func (c column) Cell(row int) tabular.Cell { return Nested{c.of, c.from + row, true}.Cell() }

// AppendNumbers appends the numbers of some rows.
func (c column) AppendNumbers(to []float64, from, end int) ([]float64, bool) {
	switch c.of.Type {
	case stream.Number, stream.Null, stream.Boolean, stream.Whole:
		return c.of.AppendNumbers(to, c.from+from, c.from+end), true
	}
	return to, false
}

// unpacked returns the size of a column in some rows.
func unpacked(kind tabular.Kind, of *stream.Values, from, to int) (u Unpacked) {
	if of.Type == stream.List {
		first, _ := of.Range(from)
		_, last := of.Range(to - 1)
		if kind == tabular.Pairs {
			return Unpacked{Values: last - first}
		}
		of, from, to = of.Items(), first, last
	}
	for i := from; of.Type == stream.Text && i < to; i++ {
		if !of.Null(i) {
			u.Texts += len(of.Text(i))
		}
	}
	return u
}

// Fill sets a block to the values at some paths in rows. A member of a null struct is null, as in Parquet. ok is false if a path has no
// values, or if they are neither numbers nor texts.
func Fill(b *tabular.Block, rows *stream.Values, paths []string) (ok bool) {
	b.Reset(len(paths))
	b.Rows = rows.Column.Len()
	for i, path := range paths {
		of := At(rows, path)
		if of == nil || !slices.Contains([]stream.Type{stream.Boolean, stream.Whole, stream.Number, stream.Text}, of.Type) {
			return false
		}
		b.Columns[i] = column{of, 0}
	}
	return true
}
