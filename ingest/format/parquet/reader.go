package parquet

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	ours "github.com/stagewise/stagewise/ingest/format/arrow"
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/input"
)

// Reader reads the rows of a file. Memory holds a page of each column that is read, and a record.
type Reader struct {
	columns []*node
	schema  *arrow.Schema
	values  []input.Partition // of the columns after those of the file
	left    int64             // number of remaining rows
}

// Columns describes the columns of rows, in addition to what the file states.
type Columns struct {
	// Wanted reports whether rows need a column at a path. Nil means that they need all.
	Wanted func(path string) bool
	// Own means that all columns of the file itself are needed, whose names may have dots too.
	Own bool
	// Names are the names of columns, at any depth, by the IDs of fields. A column whose ID has no name is not read. Nil means that the names
	// in the file apply.
	Names map[int]string
	// IDs are the field IDs for a file without IDs, by the name in the file, which follows the path of the enclosing column. Nil means that
	// the IDs are unknown: then a file without IDs is an error if there are Names.
	IDs map[string]int
	// Values are columns that the file may lack.
	Values []input.Partition
}

// Wanted returns a function that reports whether the values at some paths need a column at a path.
func Wanted(paths []string) func(path string) bool {
	in := func(column, path string) bool { return column == path || strings.HasPrefix(path, column+".") }
	return func(path string) bool {
		return slices.ContainsFunc(paths, func(needed string) bool { return in(needed, path) || in(path, needed) })
	}
}

// Open opens a file.
func Open(r io.ReaderAt, size int64, columns Columns) (_ *Reader, err error) {
	defer ours.Damaged("the file", &err)
	var end [8]byte // the size of the footer, which the library allocates unchecked, and PAR1
	if _, err := r.ReadAt(end[:], size-int64(len(end))); err == nil && int64(binary.LittleEndian.Uint32(end[:])) > size {
		return nil, fmt.Errorf("a damaged Parquet file: write or download it again: a footer of %d bytes in a file of %d",
			binary.LittleEndian.Uint32(end[:]), size)
	}
	file, err := parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("an incomplete or damaged Parquet file: write or download it again: %w", err)
	}
	if columns.Wanted == nil {
		columns.Wanted = func(string) bool { return true }
	}
	s := &schema{file: file, columns: columns, hasIDs: hasIDs(file.Root()), types: typesOf(file)}
	if columns.Names != nil && columns.IDs == nil && !s.hasIDs {
		return nil, errors.New("columns without IDs, and no names by which the table has them: set its property schema.name-mapping.default")
	}
	d := &Reader{left: file.NumRows()}
	nodes, fields := s.fields(file.Root().Columns(), "")
	d.columns = nodes
	for _, v := range columns.Values {
		has := func(c *parquet.Column) bool { return s.name(c, "") == v.Column }
		if !columns.Wanted(v.Column) || slices.ContainsFunc(file.Root().Columns(), has) {
			continue
		}
		f := arrow.Field{Name: v.Column, Type: arrow.BinaryTypes.String, Nullable: true}
		if v.IsWhole {
			f.Type = arrow.PrimitiveTypes.Int64
		}
		fields, d.values = append(fields, f), append(d.values, v)
	}
	d.schema = arrow.NewSchema(fields, nil)
	for i, n := range d.columns {
		n.build(array.NewBuilder(memory.DefaultAllocator, fields[i].Type))
	}
	return d, nil
}

// Schema returns the columns of the records.
func (d *Reader) Schema() *arrow.Schema { return d.schema }

// Rows returns the number of rows that were not read yet.
func (d *Reader) Rows() int64 { return d.left }

// Next returns a record of the next rows, at most n; io.EOF after the last. A column for which read returns false has nulls; nil reads all.
// A column that was not read once must not be read again.
func (d *Reader) Next(n int, read func(column int) bool) (_ arrow.Record, err error) {
	defer ours.Damaged("the file", &err)
	if d.left == 0 {
		return nil, io.EOF
	}
	n = int(min(d.left, int64(n)))
	d.left -= int64(n)
	isLast := d.left == 0
	columns := make([]arrow.Array, len(d.schema.Fields()))
	for i := range columns {
		switch t := d.schema.Field(i).Type; {
		case read != nil && !read(i):
			columns[i] = array.MakeArrayOfNull(memory.DefaultAllocator, t, n)
		case i < len(d.columns):
			err := d.columns[i].append(n)
			if err == nil && isLast {
				err = d.columns[i].end()
			}
			if err != nil {
				return nil, &tabular.ColumnError{Column: i, Err: err}
			}
			columns[i] = d.columns[i].builder.NewArray()
		default:
			columns[i] = repeated(d.values[i-len(d.columns)], n)
		}
	}
	return array.NewRecord(d.schema, columns, int64(n)), nil
}

// Close releases the pages.
func (d *Reader) Close() error {
	var errs []error
	for _, c := range d.columns {
		for _, l := range c.leaves {
			errs = append(errs, l.close())
		}
	}
	return errors.Join(errs...)
}

// repeated returns a column with the same value in n rows.
func repeated(v input.Partition, n int) arrow.Array {
	texts, wholes := array.NewStringBuilder(memory.DefaultAllocator), array.NewInt64Builder(memory.DefaultAllocator)
	b := array.Builder(texts)
	if v.IsWhole {
		b = wholes
	}
	for range n {
		switch {
		case v.Null:
			b.AppendNull()
		case v.IsWhole:
			wholes.Append(v.Whole)
		default:
			texts.Append(v.Text)
		}
	}
	return b.NewArray()
}

// node is a column, or a part of one.
type node struct {
	builder array.Builder
	leaves  []*leaf // below it
	leaf    *leaf   // nil: it has parts
	parts   []*node // of a struct its members, of a list the item, of a map the key and the value
	present int     // definition level from which there is a value, which may be an empty list
	item    int     // of a list or a map: definition level from which it has an item; 0: another value
	repeats int     // repetition level of the further items of a list
}

// build sets the builders of the values.
func (n *node) build(b array.Builder) {
	switch n.builder = b; b := b.(type) {
	case *array.StructBuilder:
		for i, part := range n.parts {
			part.build(b.FieldBuilder(i))
		}
	case *array.MapBuilder:
		n.parts[0].build(b.KeyBuilder())
		n.parts[1].build(b.ItemBuilder())
	case *array.ListBuilder:
		n.parts[0].build(b.ValueBuilder())
	}
}

// append appends the values of the next rows.
func (n *node) append(rows int) (err error) {
	n.builder.Reserve(rows)
	for added := 0; rows > 0; rows -= added {
		if added = 0; n.leaf != nil {
			added, err = n.leaf.appendStored(n.builder, rows, n.present)
		}
		if added == 0 && err == nil {
			added, err = 1, n.appendRow()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// appendRow appends the values of the next row.
func (n *node) appendRow() error {
	for _, l := range n.leaves {
		if v, err := l.need(); err != nil {
			return err
		} else if v.RepetitionLevel() != 0 {
			return errOtherValues
		}
	}
	return n.next()
}

// end returns an error if there are values after the last row.
func (n *node) end() error {
	for _, l := range n.leaves {
		if v, err := l.peek(); err != nil || v != nil {
			return cmp.Or(err, errOtherValues)
		}
	}
	return nil
}

// next appends the next value.
func (n *node) next() error {
	v, err := n.leaves[0].need()
	if err != nil {
		return err
	}
	level := v.DefinitionLevel()
	switch {
	case level < n.present:
		n.builder.AppendNull()
		return n.skip()
	case n.leaf != nil:
		n.leaf.at++
		return put(n.builder, v)
	case n.item == 0:
		n.builder.(*array.StructBuilder).Append(true)
		for _, part := range n.parts {
			if err := part.next(); err != nil {
				return err
			}
		}
		return nil
	}
	n.builder.(interface{ Append(bool) }).Append(true)
	if level < n.item {
		return n.skip()
	}
	for more := true; more; more = v != nil && v.RepetitionLevel() == n.repeats {
		for _, part := range n.parts {
			if err := part.next(); err != nil {
				return err
			}
		}
		if v, err = n.leaves[0].peek(); err != nil {
			return err
		}
	}
	return nil
}

// skip skips a null, or an empty list.
func (n *node) skip() error {
	for _, l := range n.leaves {
		if _, err := l.need(); err != nil {
			return err
		}
		l.at++
	}
	return nil
}

// leaf reads the values of a column without nested columns, one row group after the other.
type leaf struct {
	file   *parquet.File
	column *parquet.Column
	group  int                 // next row group
	pages  parquet.Pages       // of the row group before; nil: all were read
	page   parquet.Page        // nil: all of its values were read
	values parquet.ValueReader // of the page
	stored int                 // number of rows of the page that were appended as they are stored; -1: the others are read one by one
	nulls  int                 // number of nulls in these rows
	ahead  []parquet.Value
	at     int // of the next value in ahead
}

// errOtherValues means that a column ends before the last row or after it, or has parts of other rows.
var errOtherValues = fmt.Errorf("not the values that the file announces: %w", io.ErrUnexpectedEOF)

// maxValues is the number of values read at a time.
const maxValues = 1024

// open opens the next page, unless the current one has further values. ok is false after the last page.
func (l *leaf) open() (ok bool, err error) {
	for l.page == nil {
		if l.pages == nil {
			if l.group == len(l.file.RowGroups()) {
				return false, nil
			}
			chunk := &l.file.Metadata().RowGroups[l.group].Columns[l.column.Index()].MetaData
			if err := checkCodec(chunk.Codec); err != nil {
				return false, err
			}
			if decodes(chunk) {
				l.pages = newPages(l.file, l.column, chunk)
			} else {
				l.pages = l.file.RowGroups()[l.group].ColumnChunks()[l.column.Index()].Pages()
			}
			l.group++
		}
		page, err := l.pages.ReadPage()
		switch {
		case err == io.EOF:
			err = l.close()
		case err == nil:
			l.page, l.values, l.stored, l.nulls = page, page.Values(), 0, 0
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// peek returns the next value; nil after the last. It is valid until the next call.
func (l *leaf) peek() (*parquet.Value, error) {
	for l.at == len(l.ahead) {
		if ok, err := l.open(); !ok {
			return nil, err
		}
		l.ahead = slices.Grow(l.ahead[:0], maxValues)[:maxValues]
		n, err := l.values.ReadValues(l.ahead)
		l.ahead, l.at, l.stored = l.ahead[:n], 0, -1
		switch {
		case n > 0: // the next call returns the error
		case err == io.EOF:
			l.release()
		default:
			return nil, cmp.Or(err, io.ErrNoProgress)
		}
	}
	return &l.ahead[l.at], nil
}

// appendStored appends numbers of a page in their stored form, for at most n rows, and returns the number of rows; 0 if there are none.
// present is the definition level from which there is a value.
func (l *leaf) appendStored(to array.Builder, n, present int) (rows int, err error) {
	if l.at < len(l.ahead) {
		return 0, nil
	}
	if ok, err := l.open(); !ok || l.stored < 0 {
		return 0, err
	}
	data, from := l.page.Data(), l.stored-l.nulls
	n = min(n, int(l.page.NumValues())-l.stored)
	p := part{rows: n}
	if levels := l.page.DefinitionLevels(); len(levels) > 0 {
		for i, level := range levels[l.stored : l.stored+n] {
			if int(level) >= present {
				continue
			}
			if p.valid == nil {
				p.valid = slices.Repeat([]bool{true}, n)
			}
			p.valid[i] = false
			l.nulls++
		}
	}
	l.stored += n
	p.from, p.to = from, l.stored-l.nulls
	if words := l.page.Dictionary(); words != nil {
		p.indexes, data = data.Int32(), words.Page().Data()
	}
	switch to := to.(type) {
	case *array.BooleanBuilder: // of a decoded page
		truths := make([]bool, n)
		for i, v := range of(p, data.Int32()) {
			truths[i] = v == 1
		}
		to.AppendValues(truths, p.valid)
	case *array.Int32Builder:
		to.AppendValues(of(p, data.Int32()), p.valid)
	case *array.Int64Builder:
		to.AppendValues(of(p, data.Int64()), p.valid)
	case *array.Float32Builder:
		to.AppendValues(of(p, data.Float()), p.valid)
	case *array.Float64Builder:
		to.AppendValues(of(p, data.Double()), p.valid)
	default:
		l.stored = -1
		return 0, nil
	}
	if l.stored == int(l.page.NumValues()) {
		l.release()
	}
	return n, nil
}

// part are rows of a page.
type part struct {
	rows     int
	valid    []bool  // by row: it is not null; nil: no row is null
	from, to int     // their values in the page
	indexes  []int32 // of all values in the dictionary of the column; nil: the page has the values
}

// of returns the values of rows. values are those of the page, or of the dictionary of the column.
func of[T any](p part, values []T) []T {
	if p.indexes == nil && p.valid == nil {
		return values[p.from:p.to]
	}
	all, at := make([]T, p.rows), p.from
	for row := range all {
		switch {
		case p.valid != nil && !p.valid[row]:
			continue
		case p.indexes == nil:
			all[row] = values[at]
		default:
			all[row] = values[p.indexes[at]]
		}
		at++
	}
	return all
}

// release releases the page.
func (l *leaf) release() {
	parquet.Release(l.page)
	l.page, l.values = nil, nil
}

// need is peek, but returns an error after the last value.
func (l *leaf) need() (*parquet.Value, error) {
	v, err := l.peek()
	if v == nil && err == nil {
		err = errOtherValues
	}
	return v, err
}

// close releases the pages of a row group.
func (l *leaf) close() (err error) {
	if l.page != nil {
		l.release()
	}
	if l.pages != nil {
		err = l.pages.Close()
		l.pages = nil
	}
	return err
}

// checkCodec returns an error for a compression that can't be read: for LZ4_RAW, parquet-go returns wrong values without an error.
func checkCodec(codec format.CompressionCodec) error {
	switch codec {
	case format.Uncompressed, format.Snappy, format.Zstd, format.Gzip, format.Brotli:
		return nil
	}
	return fmt.Errorf("compressed with %s: expected a column compressed with snappy, zstd, gzip or brotli, or uncompressed", codec)
}
