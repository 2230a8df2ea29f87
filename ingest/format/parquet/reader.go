package parquet

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"
	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/encoding/thrift"
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

// pages reads the pages of a column chunk for which the library returns wrong values without an error, both in files with data pages v2:
//   - of booleans with the encoding RLE it takes the lengths of runs as multiples of 8;
//   - of int32 with the encoding DELTA_BINARY_PACKED it cuts differences of more than 32 bits, as DuckDB writes them.
type pages struct {
	parquet.Pages // nil: its other methods are not called
	column        *parquet.Column
	from          *bufio.Reader
	headers       *thrift.Decoder
	size          int64 // of the chunk
}

// decodes reports whether the library does not decode a chunk.
func decodes(chunk *format.ColumnMetaData) bool {
	isDelta := slices.Contains(chunk.Encoding, format.DeltaBinaryPacked) && chunk.DictionaryPageOffset == 0
	return chunk.Type == format.Boolean || chunk.Type == format.Int32 && isDelta
}

func newPages(file io.ReaderAt, column *parquet.Column, chunk *format.ColumnMetaData) *pages {
	p := &pages{column: column, size: chunk.TotalCompressedSize}
	p.from = bufio.NewReader(io.NewSectionReader(file, chunk.DataPageOffset, p.size))
	p.headers = thrift.NewDecoder(new(thrift.CompactProtocol).NewReader(p.from))
	return p
}

// Close implements io.Closer.
func (p *pages) Close() error { return nil }

// ReadPage implements parquet.PageReader.
func (p *pages) ReadPage() (parquet.Page, error) {
	var header format.PageHeader
	if err := p.headers.Decode(&header); err != nil {
		return nil, err
	}
	if size := header.CompressedPageSize; size < 0 || int64(size) > p.size {
		return nil, errOtherValues
	}
	content := make([]byte, header.CompressedPageSize)
	if _, err := io.ReadFull(p.from, content); err != nil {
		return nil, err
	}
	if header.CRC != 0 && uint32(header.CRC) != crc32.ChecksumIEEE(content) {
		return nil, fmt.Errorf("a page has another checksum: %w", parquet.ErrCorrupted)
	}
	d := &decoded{column: p.column, kind: p.column.Type().Kind()}
	if header.Type == format.DataPageV2 {
		return d, d.readV2(header.DataPageHeaderV2.V, content)
	}
	return d, d.readV1(header.DataPageHeader.V, content)
}

// decoded has the values of a page.
type decoded struct {
	parquet.Page // nil: its other methods are not called
	column       *parquet.Column
	kind         parquet.Kind
	count        int    // number of values, with nulls
	repetition   []byte // levels of these values; nil: all are 0
	definition   []byte
	values       []int32 // without nulls; booleans are 0 or 1
	read, nulls  int     // number of values that were read, and of nulls among them
}

// readV1 decodes a data page v1: levels with their size before them and values are compressed together.
func (p *decoded) readV1(header format.DataPageHeader, content []byte) (err error) {
	if content, err = p.column.Compression().Decode(nil, content); err != nil {
		return err
	}
	levels := func(most int) (levels []byte) {
		if most == 0 || err != nil {
			return nil
		}
		var size []byte
		if size, content, err = cut(content, 4); err == nil {
			levels, content, err = cut(content, int64(binary.LittleEndian.Uint32(size)))
		}
		return levels
	}
	repetition, definition := levels(p.column.MaxRepetitionLevel()), levels(p.column.MaxDefinitionLevel())
	if err != nil {
		return err
	}
	return p.decode(int(header.NumValues), repetition, definition, content, header.Encoding)
}

// readV2 decodes a data page v2: the values alone are compressed.
func (p *decoded) readV2(header format.DataPageHeaderV2, content []byte) error {
	repetition, content, err := cut(content, int64(header.RepetitionLevelsByteLength))
	if err != nil {
		return err
	}
	definition, content, err := cut(content, int64(header.DefinitionLevelsByteLength))
	if compressed := !header.IsCompressed.Valid || header.IsCompressed.V; err == nil && compressed && len(content) > 0 {
		content, err = p.column.Compression().Decode(nil, content)
	}
	if err != nil {
		return err
	}
	return p.decode(int(header.NumValues), repetition, definition, content, header.Encoding)
}

// cut returns the first n bytes, and the others.
func cut(content []byte, n int64) (first, others []byte, err error) {
	if n < 0 || n > int64(len(content)) {
		return nil, nil, errOtherValues
	}
	return content[:n], content[n:], nil
}

// decode decodes the levels and the values.
func (p *decoded) decode(count int, repetition, definition, values []byte, of format.Encoding) (err error) {
	p.count = count
	if p.repetition, err = runs(repetition, p.column.MaxRepetitionLevel(), count); err != nil {
		return err
	}
	if p.definition, err = runs(definition, p.column.MaxDefinitionLevel(), count); err != nil {
		return err
	}
	for _, level := range p.definition {
		if int(level) < p.column.MaxDefinitionLevel() {
			count--
		}
	}
	if count > 0 {
		p.values, err = p.numbers(values, of, count)
	}
	return err
}

// numbers decodes values that are not null.
func (p *decoded) numbers(encoded []byte, of format.Encoding, count int) (all []int32, err error) {
	switch {
	case of == format.Plain && p.kind == parquet.Boolean && (count+7)/8 <= len(encoded):
		for i := range count {
			all = append(all, int32(encoded[i/8]>>(i%8)&1))
		}
	case of == format.Plain && p.kind == parquet.Int32 && 4*count <= len(encoded):
		for i := range count {
			all = append(all, int32(binary.LittleEndian.Uint32(encoded[4*i:])))
		}
	case of == format.RLE && p.kind == parquet.Boolean:
		if _, encoded, err = cut(encoded, 4); err == nil { // their size
			encoded, err = runs(encoded, 1, count)
		}
		for _, v := range encoded {
			all = append(all, int32(v))
		}
	case of == format.DeltaBinaryPacked && p.kind == parquet.Int32:
		var wide []int64
		if wide, err = new(delta.BinaryPackedEncoding).DecodeInt64(nil, encoded); err == nil && len(wide) < count {
			err = errOtherValues
		}
		for _, v := range wide {
			all = append(all, int32(v)) // some writers compute differences in 32 bits
		}
	default:
		err = fmt.Errorf("values with the encoding %s: %w", of, errOtherValues)
	}
	return all, err
}

// runs decodes levels or values up to most with the encoding RLE; nil if most is 0.
func runs(encoded []byte, most, count int) ([]byte, error) {
	if most == 0 {
		return nil, nil
	}
	all, err := (&rle.Encoding{BitWidth: bits.Len(uint(most))}).DecodeLevels(nil, encoded)
	if err == nil && (count < 0 || len(all) < count) {
		err = errOtherValues
	}
	if err != nil {
		return nil, err
	}
	return all[:count], nil
}

// NumValues implements parquet.Page.
func (p *decoded) NumValues() int64 { return int64(p.count) }

// DefinitionLevels implements parquet.Page.
func (p *decoded) DefinitionLevels() []byte { return p.definition }

// Data implements parquet.Page.
func (p *decoded) Data() encoding.Values { return encoding.Int32Values(p.values) }

// Dictionary implements parquet.Page.
func (p *decoded) Dictionary() parquet.Dictionary { return nil }

// Values implements parquet.Page.
func (p *decoded) Values() parquet.ValueReader { return p }

// ReadValues implements parquet.ValueReader.
func (p *decoded) ReadValues(to []parquet.Value) (n int, err error) {
	level := func(all []byte, otherwise int) int {
		if all == nil {
			return otherwise
		}
		return int(all[p.read])
	}
	most := p.column.MaxDefinitionLevel()
	for ; n < len(to) && p.read < p.count; n++ {
		v, repetition, definition := parquet.NullValue(), level(p.repetition, 0), level(p.definition, most)
		if definition < most {
			p.nulls++
		} else if v = parquet.Int32Value(p.values[p.read-p.nulls]); p.kind == parquet.Boolean {
			v = parquet.BooleanValue(v.Int32() == 1)
		}
		to[n] = v.Level(repetition, definition, p.column.Index())
		p.read++
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}
