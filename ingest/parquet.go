package ingest

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/schema"
)

// parquetFormat is Apache Parquet (https://parquet.apache.org/docs/file-format). It is read by its columns, and not by way of
// Arrow records, which would bring gRPC into the program.
func parquetFormat() format {
	return tableFormat(format{
		name:      "parquet",
		meaning:   "columns of numbers and words, or one list of numbers, or sparse rows: lists of index and value, or maps; and a column of labels",
		patterns:  []string{"*.parquet", "*.pq"},
		recognise: func(first []byte) bool { return strings.HasPrefix(string(first), parquetMagic) },
	}, openParquet)
}

const parquetMagic = "PAR1"

// parquetTable reads all columns side by side, a page of each at a time. So memory holds a page of each column.
type parquetTable struct {
	columns []parquetColumn
	left    int64 // rows that are not current yet
	read    int64 // rows before the current ones
	rows    int   // current rows
}

// parquetColumn is a column of a Parquet file. A column of which nothing is read has neither a leaf nor pairs.
type parquetColumn struct {
	field
	leaf  *parquetLeaf
	pairs *parquetPairs // of sparse rows
}

func openParquet(c *content, _ Options) (table, error) {
	f, ok := c.file.ReadCloser.(randomAccess)
	if !ok || c.kind != "" {
		return nil, fmt.Errorf("a Parquet file within %s: expected the file itself, which compresses its columns", c.kind)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("a pipe: expected a file, as the schema of Parquet is at its end")
	}
	properties := parquet.NewReaderProperties(limited{memory.NewGoAllocator()})
	properties.BufferedStreamEnabled = true // otherwise a column of a row group is read whole
	// The section has a position of its own. The digest is of the bytes that content reads.
	r, err := file.NewParquetReader(io.NewSectionReader(f, 0, info.Size()), file.WithReadProps(properties))
	if err != nil {
		return nil, err
	}
	t := &parquetTable{left: r.NumRows()}
	s := r.MetaData().Schema
	for i := range s.NumColumns() {
		leaf := &parquetLeaf{file: r, index: i, descriptor: s.Column(i)}
		name := leaf.descriptor.ColumnPath()[0]
		if at := len(t.columns) - 1; s.Root().FieldIndexByField(s.ColumnRoot(i)) == at { // another leaf of the same column
			second := parquetColumn{field: field{name: name, typ: "struct"}}
			if first := t.columns[at].leaf; first != nil {
				if second.pairs = pairsOf(first, leaf, s.ColumnRoot(i)); second.pairs != nil {
					second.kind, second.typ = pairs, "list of index and value"
				}
			}
			t.columns[at] = second
			continue
		}
		column := parquetColumn{field: field{name: name, kind: parquetKind(leaf.descriptor), typ: parquetType(leaf.descriptor)}, leaf: leaf}
		if column.kind == list {
			if column.length, err = leaf.length(); err != nil {
				return nil, err
			}
		}
		t.columns = append(t.columns, column)
	}
	return t, nil
}

// parquetType names the type of a column for people.
func parquetType(c *schema.Column) string {
	if l := c.LogicalType(); l != nil && !l.IsNone() {
		name, _, _ := strings.Cut(l.String(), "(") // what follows are details that only programs need
		return strings.ToLower(name)
	}
	return strings.ToLower(c.PhysicalType().String())
}

// parquetKind returns what the values of a column with one leaf are.
func parquetKind(c *schema.Column) kind {
	kind := parquetScalar(c)
	switch depth := len(c.ColumnPath()); {
	case c.MaxRepetitionLevel() == 1 && depth <= 3 && isNumber(kind):
		return list
	case depth > 1 || c.MaxRepetitionLevel() > 0:
		return unread
	}
	return kind
}

// parquetScalar returns what the values of a leaf are, whatever they are in.
func parquetScalar(c *schema.Column) kind {
	logical := c.LogicalType()
	_, isInt := logical.(*schema.IntLogicalType)
	_, isText := logical.(schema.StringLogicalType)
	plain := logical == nil || logical.IsNone()
	switch c.PhysicalType() {
	case parquet.Types.Boolean:
		return whole
	case parquet.Types.Int32, parquet.Types.Int64:
		if isInt || plain {
			return whole
		}
	case parquet.Types.Float, parquet.Types.Double:
		return numeric
	case parquet.Types.ByteArray:
		if isText {
			return text
		}
	}
	return unread
}

func (t *parquetTable) fields() (fields []field) {
	for _, c := range t.columns {
		fields = append(fields, c.field)
	}
	return fields
}

func (t *parquetTable) begin(n int) (int, error) {
	t.read += int64(t.rows)
	t.rows = int(min(int64(n), t.left))
	t.left -= int64(t.rows)
	if t.rows > 0 {
		return t.rows, nil
	}
	for _, c := range t.columns {
		if c.kind == list && c.leaf.chunk != nil && c.leaf.chunk.HasNext() {
			return 0, raggedAt(t.read-1, c.length)
		}
	}
	return 0, nil
}

func (t *parquetTable) numbers(column int, put func(i int, v float64) error) error {
	c := &t.columns[column]
	if c.kind != list {
		return c.leaf.each(t.rows, func(i int, v parquetValue, _, _ int16) error { return put(i, v.float()) })
	}
	present := c.leaf.present()
	return c.leaf.each(t.rows*c.length, func(i int, v parquetValue, definition, repetition int16) error {
		row := t.read + int64(i/c.length)
		switch begins := i%c.length == 0; {
		case begins && repetition != 0: // a value more of the list before
			return raggedAt(row-1, c.length)
		case !begins && repetition == 0, definition < present:
			return raggedAt(row, c.length)
		}
		return put(i, v.float())
	})
}

func (t *parquetTable) wholes(column int, put func(row int, v int64, null bool) error) error {
	return t.columns[column].leaf.each(t.rows, func(i int, v parquetValue, _, _ int16) error {
		if v.unsigned && v.whole < 0 {
			return fmt.Errorf("%d does not fit int64", uint64(v.whole))
		}
		return put(i, v.whole, v.null)
	})
}

func (t *parquetTable) texts(column int, put func(row int, v string, null bool) error) error {
	return t.columns[column].leaf.each(t.rows, func(i int, v parquetValue, _, _ int16) error { return put(i, string(v.text), v.null) })
}

// parquetValue is a value of any type.
type parquetValue struct {
	null     bool
	isWhole  bool
	unsigned bool // whole has the bits of an uint64
	whole    int64
	number   float64
	text     []byte
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

// parquetLeaf reads the values of a column, row group after row group.
type parquetLeaf struct {
	file       *file.Reader
	index      int
	descriptor *schema.Column
	group      int // the next row group
	chunk      file.ColumnChunkReader
	levels     [2][]int16 // definition and repetition of the values read last
}

// length returns how many values the first list has.
func (l *parquetLeaf) length() (n int, err error) {
	first := &parquetLeaf{file: l.file, index: l.index, descriptor: l.descriptor}
	if l.file.NumRows() == 0 {
		return 0, nil
	}
	err = first.each(math.MaxInt, func(i int, _ parquetValue, definition, repetition int16) error {
		if repetition == 0 && i > 0 || definition < l.present() {
			return errEndOfList
		}
		n++
		return nil
	})
	if err == errEndOfList || errors.Is(err, io.ErrUnexpectedEOF) { // the end of the list, or of the file
		err = nil
	}
	return n, err
}

var errEndOfList = errors.New("the end of a list")

// present returns the definition level of a value of a list that may be null. A list that is empty or null has a lower one.
func (l *parquetLeaf) present() int16 {
	level := l.descriptor.MaxDefinitionLevel()
	if l.descriptor.SchemaNode().RepetitionType() == parquet.Repetitions.Optional {
		level--
	}
	return level
}

// maxValues is how many values are read at a time.
const maxValues = 1024

// each calls put for the next n values, nulls among them.
func (l *parquetLeaf) each(n int, put func(i int, v parquetValue, definition, repetition int16) error) error {
	for done := 0; done < n; {
		if l.chunk == nil || !l.chunk.HasNext() {
			if err := l.advance(); err != nil {
				return err
			}
			continue
		}
		read, err := l.some(min(n-done, maxValues), func(i int, v parquetValue, definition, repetition int16) error {
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

// advance begins the next row group.
func (l *parquetLeaf) advance() (err error) {
	if l.chunk != nil && l.chunk.Err() != nil {
		return l.chunk.Err()
	}
	if l.group == l.file.NumRowGroups() {
		return fmt.Errorf("fewer values than the file says: %w", io.ErrUnexpectedEOF)
	}
	l.chunk, err = l.file.RowGroup(l.group).Column(l.index)
	l.group++
	if err != nil {
		return fmt.Errorf("%w: expected a column that is compressed with snappy, zstd, gzip or brotli, or not at all", err)
	}
	return nil
}

// some calls put for some of the next n values, and returns for how many.
func (l *parquetLeaf) some(n int, put func(i int, v parquetValue, definition, repetition int16) error) (int, error) {
	signed := true
	bits := int8(64)
	if t, ok := l.descriptor.LogicalType().(*schema.IntLogicalType); ok {
		signed, bits = t.IsSigned(), t.BitWidth()
	}
	switch chunk := l.chunk.(type) {
	case *file.BooleanColumnChunkReader:
		return values(l, chunk, n, put, func(v bool) parquetValue {
			if v {
				return parquetValue{isWhole: true, whole: 1}
			}
			return parquetValue{isWhole: true}
		})
	case *file.Int32ColumnChunkReader:
		return values(l, chunk, n, put, func(v int32) parquetValue {
			if !signed {
				return parquetValue{isWhole: true, whole: int64(uint32(v))}
			}
			return parquetValue{isWhole: true, whole: int64(v)}
		})
	case *file.Int64ColumnChunkReader:
		return values(l, chunk, n, put, func(v int64) parquetValue {
			return parquetValue{isWhole: true, unsigned: !signed && bits == 64, whole: v}
		})
	case *file.Float32ColumnChunkReader:
		return values(l, chunk, n, put, func(v float32) parquetValue { return parquetValue{number: float64(v)} })
	case *file.Float64ColumnChunkReader:
		return values(l, chunk, n, put, func(v float64) parquetValue { return parquetValue{number: v} })
	case *file.ByteArrayColumnChunkReader:
		// A text lies in its page, whose memory the next page takes. So no two pages are read at once.
		return values(l, chunk, 1, put, func(v parquet.ByteArray) parquetValue { return parquetValue{text: v} })
	}
	return 0, fmt.Errorf("type %s is not read", parquetType(l.descriptor))
}

// values calls put for some of the next n values of a chunk, and returns for how many.
func values[T any](l *parquetLeaf, chunk interface {
	ReadBatch(n int64, values []T, definitions, repetitions []int16) (int64, int, error)
}, n int, put func(i int, v parquetValue, definition, repetition int16) error, convert func(T) parquetValue) (int, error) {
	for i := range l.levels {
		if l.levels[i] == nil {
			l.levels[i] = make([]int16, maxValues)
		}
		clear(l.levels[i][:n]) // a column without levels leaves them as they are
	}
	read := make([]T, n)
	total, _, err := chunk.ReadBatch(int64(n), read, l.levels[0][:n], l.levels[1][:n])
	if err != nil {
		return 0, err
	}
	highest := l.descriptor.MaxDefinitionLevel()
	for i := range int(total) {
		v, definition := parquetValue{null: true}, l.levels[0][i]
		if definition == highest {
			v, read = convert(read[0]), read[1:]
		}
		if err := put(i, v, definition, l.levels[1][i]); err != nil {
			return 0, err
		}
	}
	return int(total), nil
}

// limited is an allocator that panics instead of allocating more than a page of a file that is not damaged needs.
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
