package parquet

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/metadata"
	"github.com/apache/arrow/go/v17/parquet/schema"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/ingest/message"
	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/value"
)

// Format is Apache Parquet (https://parquet.apache.org/docs/file-format). It reads columns directly rather than Arrow
// records: the library's pqarrow imports 84 packages of gRPC and protobuf, of which the program has 29 anyway, and would
// increase its size from 39 to 53 MB. To read 4 million rows of 28 columns (snappy, 1,024 rows at a time, with the file's
// SHA-256) takes 160 to 185 MB and 3.0 s of processor time, half of the time to ingest them, compared with 180 to 250 MB
// and 1.0 s with pqarrow.
func Format() format.Format {
	return format.Tables(format.Format{
		Name:     "parquet",
		Label:    message.Label,
		Meaning:  "columns of numbers and words, or one list of numbers or of index and value",
		Patterns: []string{"*.parquet", "*.pq"},
	}, func(c *input.Content, o layout.Options, _ *layout.Features) (format.Table, error) {
		t, err := openParquet(c, o)
		return format.Table{Source: tabular.SourceOf(t), HasNames: true}, err
	})
}

// parquetTable reads all columns in parallel, one page each. So memory holds a page of each column.
type parquetTable struct {
	columns []parquetColumn
	left    int64 // number of remaining rows
	read    int64 // number of rows before the current ones
	rows    int   // number of current rows
}

// parquetColumn is a column of a Parquet file. An unread column has neither a leaf nor pairs.
type parquetColumn struct {
	tabular.Field
	leaf  *parquetLeaf
	pairs *parquetPairs // of sparse rows
}

func openParquet(c *input.Content, _ layout.Options) (tabular.Table, error) {
	f, ok := c.RandomAccess()
	if !ok {
		return nil, fmt.Errorf("a Parquet file compressed with %s: expected the plain file, whose columns are compressed", c.Kind)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() == 0 && info.Mode().IsRegular() {
		return nil, input.ErrEmpty
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("a pipe: expected a file, because Parquet stores its schema at the end")
	}
	properties := parquet.NewReaderProperties(limited{memory.NewGoAllocator()})
	properties.BufferedStreamEnabled = true // otherwise a column chunk is read as a whole
	// The section has its own position. The digest covers the bytes that content reads.
	r, err := file.NewParquetReader(io.NewSectionReader(f, 0, info.Size()), file.WithReadProps(properties))
	if err != nil {
		return nil, err
	}
	t := &parquetTable{left: r.NumRows()}
	s, written := r.MetaData().Schema, writtenAs(r.MetaData().KeyValueMetadata())
	for i := range s.NumColumns() {
		leaf := &parquetLeaf{file: r, index: i, descriptor: s.Column(i)}
		name := leaf.descriptor.ColumnPath()[0]
		if at := len(t.columns) - 1; s.Root().FieldIndexByField(s.ColumnRoot(i)) == at { // another leaf of the same column
			second := parquetColumn{Field: tabular.Field{Name: name, Type: "struct"}}
			if first := t.columns[at].leaf; first != nil {
				if second.pairs = pairsOf(first, leaf, s.ColumnRoot(i)); second.pairs != nil {
					second.Kind, second.Type = tabular.Pairs, "list of index and value"
				}
			}
			t.columns[at] = second
			continue
		}
		column := parquetColumn{Field: tabular.Field{Name: name, Kind: parquetKind(leaf.descriptor), Type: parquetType(leaf.descriptor)},
			leaf: leaf}
		if column.Kind == tabular.Moment {
			column.Advice, leaf.zone = tabular.AdviseTimes, zoneOf(written[name])
		}
		column.restrict(r, i, written[name])
		if column.Kind == tabular.List {
			if column.Length, err = leaf.length(); err != nil {
				return nil, err
			}
		}
		t.columns = append(t.columns, column)
	}
	return t, nil
}

// restrict marks a column as unread if its numbers have another meaning, or an unsupported encoding. written is the Arrow
// type from which the column was written; nil: unknown.
func (c *parquetColumn) restrict(r *file.Reader, leaf int, written arrow.DataType) {
	if written != nil && written.ID() == arrow.DURATION { // Parquet has no durations: they are written as integers
		c.Kind, c.Type, c.Advice = tabular.Unread, written.String(), tabular.AdviseSeconds
	}
	for group := range r.NumRowGroups() {
		chunk, err := r.MetaData().RowGroup(group).ColumnChunk(leaf)
		if err == nil && slices.ContainsFunc(chunk.Encodings(), func(e parquet.Encoding) bool { return e.String() == byteStreamSplit }) {
			c.Kind, c.Type, c.Advice = tabular.Unread, c.Type+" in the encoding "+byteStreamSplit, tabular.AdviseEncoding
			return
		}
	}
}

// byteStreamSplit is an encoding that the Parquet library lacks.
const byteStreamSplit = "BYTE_STREAM_SPLIT"

// arrowSchema is the metadata key of the Arrow schema of files written from Arrow.
const arrowSchema = "ARROW:schema"

// writtenAs returns the Arrow types from which columns were written, by name, as far as known.
func writtenAs(metadata metadata.KeyValueMetadata) map[string]arrow.DataType {
	types := map[string]arrow.DataType{}
	text := metadata.FindValue(arrowSchema)
	if text == nil {
		return types
	}
	content, err := base64.StdEncoding.DecodeString(*text)
	if err != nil {
		return types
	}
	r, err := stream.NewReader(bytes.NewReader(content), false, memory.DefaultAllocator)
	if err != nil {
		return types // only a hint
	}
	for _, f := range r.Schema().Fields() {
		types[f.Name] = f.Type
	}
	return types
}

// parquetType formats the type of a column for error messages.
func parquetType(c *schema.Column) string {
	if l := c.LogicalType(); l != nil && !l.IsNone() {
		name, _, _ := strings.Cut(l.String(), "(") // without parameters
		return strings.ToLower(name)
	}
	return strings.ToLower(c.PhysicalType().String())
}

// parquetKind returns the kind of a column with one leaf.
func parquetKind(c *schema.Column) tabular.Kind {
	kind := parquetScalar(c)
	switch depth := len(c.ColumnPath()); {
	case c.MaxRepetitionLevel() == 1 && depth <= 3 && tabular.IsNumber(kind):
		return tabular.List
	case depth > 1 || c.MaxRepetitionLevel() > 0:
		return tabular.Unread
	}
	return kind
}

// parquetScalar returns the kind of a leaf, regardless of nesting.
func parquetScalar(c *schema.Column) tabular.Kind {
	logical := c.LogicalType()
	_, isInt := logical.(*schema.IntLogicalType)
	_, isText := logical.(schema.StringLogicalType)
	plain := logical == nil || logical.IsNone()
	switch c.PhysicalType() {
	case parquet.Types.Boolean:
		return tabular.Boolean
	case parquet.Types.Int32, parquet.Types.Int64:
		switch {
		case isInt || plain:
			return tabular.Whole
		case unitOf(logical) != 0:
			return tabular.Moment
		}
	case parquet.Types.Float, parquet.Types.Double:
		return tabular.Numeric
	case parquet.Types.ByteArray:
		if isText {
			return tabular.Text
		}
	}
	return tabular.Unread
}

// day is the unit of dates.
const day = 24 * time.Hour

// unitOf returns the unit of a date or time type; 0: another type.
func unitOf(t schema.LogicalType) time.Duration {
	switch t := t.(type) {
	case schema.DateLogicalType:
		return day
	case *schema.TimestampLogicalType:
		switch t.TimeUnit() {
		case schema.TimeUnitMillis:
			return time.Millisecond
		case schema.TimeUnitMicros:
			return time.Microsecond
		case schema.TimeUnitNanos:
			return time.Nanosecond
		}
	}
	return 0
}

// zoneOf returns the time zone of the Arrow type from which times were written, because Parquet has none. It is UTC if
// unknown.
func zoneOf(written arrow.DataType) *time.Location {
	if t, ok := written.(*arrow.TimestampType); ok {
		if zone, err := t.GetZone(); err == nil && zone != nil {
			return zone
		}
	}
	return time.UTC
}

// timeOf formats a time in a time zone.
func timeOf(whole int64, unit time.Duration, zone *time.Location) string {
	if unit == day {
		return time.Unix(0, 0).UTC().AddDate(0, 0, int(whole)).Format(time.DateOnly)
	}
	per := int64(time.Second / unit)
	return time.Unix(whole/per, whole%per*int64(unit)).In(zone).Format(time.RFC3339Nano)
}

func (t *parquetTable) Fields() (fields []tabular.Field) {
	for _, c := range t.columns {
		fields = append(fields, c.Field)
	}
	return fields
}

func (t *parquetTable) Begin(n int) (int, error) {
	t.read += int64(t.rows)
	t.rows = int(min(int64(n), t.left))
	t.left -= int64(t.rows)
	if t.rows > 0 {
		return t.rows, nil
	}
	for _, c := range t.columns {
		if c.Kind == tabular.List && c.leaf.chunk != nil && c.leaf.chunk.HasNext() {
			return 0, tabular.RaggedAt(t.read-1, c.Length)
		}
	}
	return 0, nil
}

func (t *parquetTable) Numbers(column int, put func(i int, v float64) error) error {
	c := &t.columns[column]
	if c.Kind != tabular.List {
		return c.leaf.each(t.rows, func(i int, v *parquetValue, _, _ int16) error { return put(i, v.float()) })
	}
	present := c.leaf.present()
	return c.leaf.each(t.rows*c.Length, func(i int, v *parquetValue, definition, repetition int16) error {
		row := t.read + int64(i/c.Length)
		switch begins := i%c.Length == 0; {
		case begins && repetition != 0: // a further item of the previous list
			return tabular.RaggedAt(row-1, c.Length)
		case !begins && repetition == 0, definition < present:
			return tabular.RaggedAt(row, c.Length)
		}
		return put(i, v.float())
	})
}

func (t *parquetTable) Wholes(column int, put func(row int, v int64, null bool) error) error {
	return t.columns[column].leaf.each(t.rows, func(i int, v *parquetValue, _, _ int16) error {
		if v.unsigned && v.whole < 0 {
			return fmt.Errorf("%d does not fit int64", uint64(v.whole))
		}
		return put(i, v.whole, v.null)
	})
}

func (t *parquetTable) Texts(column int, put func(row int, v string, null bool) error) error {
	return t.columns[column].leaf.each(t.rows, func(i int, v *parquetValue, _, _ int16) error { return put(i, v.word(), v.null) })
}

// parquetValue is a value of any type.
type parquetValue struct {
	null     bool
	isWhole  bool
	boolean  bool // whole is 1 for true
	unsigned bool // whole has the bits of an uint64
	whole    int64
	isNumber bool // number is set
	number   float64
	text     []byte
	unit     time.Duration // of a time: unit of whole since 1970; 0: not a time
	zone     *time.Location
}

// float returns the value of a number.
func (v parquetValue) float() float64 {
	switch {
	case v.null:
		return math.NaN()
	case v.unsigned:
		return float64(uint64(v.whole))
	case v.isWhole:
		return float64(v.whole)
	}
	return v.number
}

// word returns a text, or the word of a number or a boolean; "" for a null.
func (v parquetValue) word() string {
	switch {
	case v.null:
		return ""
	case v.unit != 0:
		return timeOf(v.whole, v.unit, v.zone)
	case v.boolean:
		return value.WordOfBoolean(v.whole != 0)
	case v.unsigned:
		return strconv.FormatUint(uint64(v.whole), 10)
	case v.isWhole:
		return strconv.FormatInt(v.whole, 10)
	case !v.isNumber:
		return string(v.text)
	case v.number != v.number:
		return "" // NaN, as a null
	}
	return value.WordOf(v.number)
}

// Lists implements tabular.Table.
func (t *parquetTable) Lists(int, func(row int, items []string, null bool) error) error {
	return errors.New("only arrow and jsonl support lists of labels: write one of these, or a text with separators, " +
		"or a column of 0 and 1 for each label")
}

// parquetLeaf reads the values of a column, one row group after the other.
type parquetLeaf struct {
	file       *file.Reader
	index      int
	descriptor *schema.Column
	zone       *time.Location // of times
	group      int            // next row group
	chunk      file.ColumnChunkReader
	levels     [2][]int16 // definition and repetition levels of the last values
}

// length returns the length of the first list.
func (l *parquetLeaf) length() (n int, err error) {
	first := &parquetLeaf{file: l.file, index: l.index, descriptor: l.descriptor}
	if l.file.NumRows() == 0 {
		return 0, nil
	}
	err = first.each(math.MaxInt, func(i int, _ *parquetValue, definition, repetition int16) error {
		if repetition == 0 && i > 0 || definition < l.present() {
			return errEndOfList
		}
		n++
		return nil
	})
	if err == errEndOfList || errors.Is(err, io.ErrUnexpectedEOF) { // end of the list or of the file
		err = nil
	}
	return n, err
}

var errEndOfList = errors.New("the end of a list")

// present returns the definition level of a nullable list's item. An empty or null list has a lower one.
func (l *parquetLeaf) present() int16 {
	level := l.descriptor.MaxDefinitionLevel()
	if l.descriptor.SchemaNode().RepetitionType() == parquet.Repetitions.Optional {
		level--
	}
	return level
}

// maxValues is the number of values read at a time.
const maxValues = 1024

// each calls put for the next n values, including nulls.
func (l *parquetLeaf) each(n int, put func(i int, v *parquetValue, definition, repetition int16) error) error {
	for done := 0; done < n; {
		if l.chunk == nil || !l.chunk.HasNext() {
			if err := l.advance(); err != nil {
				return err
			}
			continue
		}
		read, err := l.some(min(n-done, maxValues), func(i int, v *parquetValue, definition, repetition int16) error {
			return put(done+i, v, definition, repetition)
		})
		if err != nil {
			return err
		}
		if read == 0 {
			return io.ErrUnexpectedEOF
		}
		done += read
	}
	return nil
}

// advance starts the next row group.
func (l *parquetLeaf) advance() (err error) {
	if l.chunk != nil && l.chunk.Err() != nil {
		return l.chunk.Err()
	}
	if l.group == l.file.NumRowGroups() {
		return fmt.Errorf("fewer values than the file announces: %w", io.ErrUnexpectedEOF)
	}
	l.chunk, err = l.file.RowGroup(l.group).Column(l.index)
	l.group++
	if err != nil {
		return fmt.Errorf("%w: expected a column compressed with snappy, zstd, gzip or brotli, or uncompressed", err)
	}
	return nil
}

// some calls put for some of the next n values, and returns their number.
func (l *parquetLeaf) some(n int, put func(i int, v *parquetValue, definition, repetition int16) error) (int, error) {
	signed, unit := true, unitOf(l.descriptor.LogicalType())
	bits := int8(64)
	if t, ok := l.descriptor.LogicalType().(*schema.IntLogicalType); ok {
		signed, bits = t.IsSigned(), t.BitWidth()
	}
	switch chunk := l.chunk.(type) {
	case *file.BooleanColumnChunkReader:
		return values(l, chunk, n, put, func(v bool) parquetValue {
			if v {
				return parquetValue{isWhole: true, boolean: true, whole: 1}
			}
			return parquetValue{isWhole: true, boolean: true}
		})
	case *file.Int32ColumnChunkReader:
		return values(l, chunk, n, put, func(v int32) parquetValue {
			if !signed {
				return parquetValue{isWhole: true, whole: int64(uint32(v))}
			}
			return parquetValue{isWhole: true, unit: unit, zone: l.zone, whole: int64(v)}
		})
	case *file.Int64ColumnChunkReader:
		return values(l, chunk, n, put, func(v int64) parquetValue {
			return parquetValue{isWhole: true, unit: unit, zone: l.zone, unsigned: !signed && bits == 64, whole: v}
		})
	case *file.Float32ColumnChunkReader:
		return values(l, chunk, n, put, func(v float32) parquetValue { return parquetValue{isNumber: true, number: float64(v)} })
	case *file.Float64ColumnChunkReader:
		return values(l, chunk, n, put, func(v float64) parquetValue { return parquetValue{isNumber: true, number: v} })
	case *file.ByteArrayColumnChunkReader:
		// A text is a part of its page, whose memory is reused for the next page. So the pages are read sequentially.
		return values(l, chunk, 1, put, func(v parquet.ByteArray) parquetValue { return parquetValue{text: v} })
	}
	return 0, fmt.Errorf("type %s is not supported", parquetType(l.descriptor))
}

// values calls put for some of the next n values of a chunk, and returns their number.
func values[T any](l *parquetLeaf, chunk interface {
	ReadBatch(n int64, values []T, definitions, repetitions []int16) (int64, int, error)
}, n int, put func(i int, v *parquetValue, definition, repetition int16) error, convert func(T) parquetValue) (int, error) {
	for i := range l.levels {
		if l.levels[i] == nil {
			l.levels[i] = make([]int16, maxValues)
		}
		clear(l.levels[i][:n]) // a column without levels does not set them
	}
	read := make([]T, n)
	var v parquetValue
	total, _, err := chunk.ReadBatch(int64(n), read, l.levels[0][:n], l.levels[1][:n])
	if err != nil {
		return 0, err
	}
	highest := l.descriptor.MaxDefinitionLevel()
	for i := range int(total) {
		definition := l.levels[0][i]
		if definition == highest {
			v, read = convert(read[0]), read[1:]
		} else {
			v = parquetValue{null: true}
		}
		if err := put(i, &v, definition, l.levels[1][i]); err != nil {
			return 0, err
		}
	}
	return int(total), nil
}

// limited is an allocator that panics rather than allocate more than a page of an undamaged file needs.
type limited struct{ memory.Allocator }

const maxPageBytes = 1 << 30

func (a limited) Allocate(size int) []byte {
	if size < 0 || size > maxPageBytes {
		panic(fmt.Sprintf("%d bytes claimed for a page, at most %d expected", size, maxPageBytes))
	}
	return a.Allocator.Allocate(size)
}

func (a limited) Reallocate(size int, b []byte) []byte {
	if size < 0 || size > maxPageBytes {
		panic(fmt.Sprintf("%d bytes claimed for a page, at most %d expected", size, maxPageBytes))
	}
	return a.Allocator.Reallocate(size, b)
}
