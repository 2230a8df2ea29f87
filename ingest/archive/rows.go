package archive

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"

	arrowtypes "github.com/apache/arrow/go/v17/arrow"

	"github.com/stagewise/stagewise/ingest/format/arrow"
	"github.com/stagewise/stagewise/ingest/format/parquet"
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/format/typed"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/value"
)

// Rows are adjacent rows of a file, which were messages with consecutive offsets.
type Rows struct {
	File    string
	Changed string // which column has another type than in the first file; "": none that is known
	Offset  int64  // of the first row
	// Copies are further rows with the offset. Then there is only one row.
	Copies []*Rows

	of       *block
	from, to int   // the rows in the block
	number   int64 // of the first row in the file, from 0
}

// Len returns the number of rows, at least 1.
func (r *Rows) Len() int { return r.to - r.from }

// Cut returns the rows [from, to). Copies stay with the first row.
func (r *Rows) Cut(from, to int) *Rows {
	if from == 0 && to == r.Len() {
		return r
	}
	cut := *r
	cut.Offset, cut.number, cut.from, cut.to = r.Offset+int64(from), r.number+int64(from), r.from+from, r.from+to
	return &cut
}

// fail returns an error in the file.
func (r *Rows) fail(format string, arguments ...any) error {
	return input.WholeFile(r.File, fmt.Errorf(format, arguments...))
}

// Time returns the time of a message, in milliseconds since 1970; 0: unknown.
func (r *Rows) Time(row int) int64 { return r.of.messages[r.from+row].time }

// Key returns the key of a message; "": none, or unknown.
func (r *Rows) Key(row int) string { return r.of.messages[r.from+row].key }

// Value returns the value of a message: its bytes if the file has it as a text, and otherwise the decoded value, with its JSON as bytes
// if the file has JSON. Both are nil for a null, which sinks write for a message without a value.
func (r *Rows) Value(row int) (value []byte, decoded *tabular.Cell) {
	of := r.of.cell
	if all := r.of.all; all != nil {
		of = arrow.Nested{Of: all, Row: r.from + row}.Cell()
	}
	if of.Null() {
		return nil, nil
	}
	if text, isText := of.Word(); isText {
		return []byte(text), nil
	}
	return r.of.json, &of
}

// All returns the batch of the file that has the rows, and the index of the first; nil if there is no batch, or some values are
// null.
func (r *Rows) All() (all *stream.Values, from int) {
	if r.of.all == nil || r.of.all.Column.NullN() > 0 {
		return nil, 0
	}
	return r.of.all, r.from
}

// partition returns the partition of the messages; unknown: the rows do not have it.
func (r *Rows) partition() int { return r.of.messages[r.from].partition }

// alike returns the number of leading rows that are of the same partition and have consecutive offsets, or that have neither.
func (r *Rows) alike() int {
	messages := r.of.messages[r.from:r.to]
	for i := 1; i < len(messages); i++ {
		before, m := messages[i-1], messages[i]
		if m.partition != before.partition || m.offset != before.offset+1 && (m.offset != unknown || before.offset != unknown) {
			return i
		}
	}
	return len(messages)
}

// block are rows of a file that are decoded together.
type block struct {
	messages []message
	all      *stream.Values // the values; nil: there is one row
	cell     tabular.Cell   // its value
	json     []byte         // and the JSON of it; nil: it is not JSON
}

// message has the properties of a message other than its value.
type message struct {
	partition int // unknown: the row does not have it
	offset    int64
	time      int64 // 0: unknown
	key       string
}

// unknown is the partition or the offset of a row that does not have it.
const unknown = -1

func messages(n int) []message {
	return slices.Repeat([]message{{partition: unknown, offset: unknown}}, n)
}

// set sets a property to the value of a column.
func (m *message) set(property int, v tabular.Cell) (err error) {
	switch {
	case v.Null():
		return nil
	case property == atKey:
		m.key, _ = v.Text()
		return nil
	case property == atTimestamp:
		m.time, err = timeOf(&v)
		return err
	}
	n, err := v.Whole()
	switch {
	case err != nil:
		return err
	case n < 0 || property == atPartition && n >= maxPartitions:
		return fmt.Errorf("%d as partition or offset: expected at least 0, and a partition below %d", n, maxPartitions)
	case property == atPartition:
		m.partition = int(n)
	case property == atOffset:
		m.offset = n
	}
	return nil
}

// timeOf returns a time in milliseconds since 1970; 0 if it is missing.
func timeOf(v *tabular.Cell) (int64, error) {
	if seconds, is := v.Seconds(); is {
		return int64(math.Round(seconds * 1000)), nil // a sum of a second and milliseconds is not exact
	}
	if n, err := v.Whole(); err == nil {
		return n, nil
	}
	text, err := v.Text()
	if err != nil || text == "" {
		return 0, err
	}
	t, err := value.Time(text, value.UnitMilliseconds)
	if err != nil {
		return 0, fmt.Errorf("the time of the message: %w; set examples.archive.timestamp to the column that has it", err)
	}
	return t.UnixMilli(), nil
}

// decoder decodes the rows of a file in a format.
type decoder interface {
	// next returns the next rows, at least one; io.EOF after the last. They are valid after the next call too.
	next() (*block, error)
	// typeAt returns the type of the values at a path; Other if the file does not say it.
	typeAt(path []string) stream.Type
	io.Closer
}

// contents are the rows of an open file.
type contents struct {
	decoder
	content *input.Content
}

// Close closes the file.
func (c *contents) Close() error {
	if c.decoder != nil {
		_ = c.decoder.Close() // only read
	}
	return c.content.Close()
}

// open opens a file. wanted reports whether rows need a column; nil: they need all.
func (a *Archive) open(ctx context.Context, of dataFile, wanted func(path string) bool) (_ *contents, err error) {
	file, content, err := a.store.content(ctx, of.Path)
	if err != nil {
		return nil, err
	}
	c := &contents{content: content}
	defer func() {
		if err != nil {
			c.decoder, err = nil, of.fail(err)
			_ = c.Close()
		}
	}()
	content.SkipMark()
	magic, err := content.Peek(4)
	text := bytes.TrimSpace(magic)
	switch {
	case len(magic) == 0 && err == io.EOF:
		return nil, input.ErrEmpty
	case err != nil && err != io.EOF:
		return nil, err
	case string(magic) == "PAR1" && content.Kind == "":
		of.Wanted = wanted
		reader, err := parquet.Open(file, file.Size(), of.Columns)
		c.decoder = &records{Reader: reader, columns: a.columns, value: a.layout.value}
		return c, err
	case of.Names != nil || len(of.Values) > 0:
		return nil, errors.New("a file of a table that is not in Parquet: rewrite the table's files as Parquet")
	case string(magic) == "Obj\x01":
		reader, err := typed.OpenAvro(content)
		c.decoder = &container{reader, newFound(a.columns), a.layout.value}
		return c, err
	case len(text) == 0 || slices.Contains([]byte("{[\""), text[0]):
		c.decoder = &lines{input.LineReader{Content: content}, newFound(a.columns), a.layout.value, a.columns[atOffset]}
		return c, nil
	}
	return nil, errors.New("rows of no format of archives: expected an Avro container file, Parquet, or JSON with a row in each line")
}

// fail adds the file to an error.
func (f *dataFile) fail(err error) error {
	if errors.As(err, new(*input.Error)) {
		return err
	}
	return input.WholeFile(f.Path, err)
}

// rowsIn iterates over the rows of a file that are not deleted: adjacent ones of one partition. Their Offset is unknown if they do not have
// it.
func (a *Archive) rowsIn(ctx context.Context, of dataFile, wanted func(path string) bool) iter.Seq2[*Rows, error] {
	return func(yield func(*Rows, error) bool) {
		c, err := a.open(ctx, of, wanted)
		if err != nil {
			yield(nil, err)
			return
		}
		defer c.Close() // only read
		rest := Rows{File: of.Path, Changed: a.changed(of.Path, c)}
		for deleted := of.Deleted; ; {
			if rest.Len() == 0 {
				if rest.of, err = c.next(); err == io.EOF {
					return
				} else if err != nil {
					if !errors.As(err, new(*input.Error)) {
						err = fmt.Errorf("row %d, counted from 0: %w", rest.number, err)
					}
					yield(nil, of.fail(err))
					return
				}
				rest.from, rest.to = 0, len(rest.of.messages)
			}
			n, isDeleted := rest.alike(), len(deleted) > 0 && deleted[0] == rest.number
			if isDeleted {
				n, deleted = 1, deleted[1:]
			} else if len(deleted) > 0 {
				n = int(min(int64(n), deleted[0]-rest.number))
			}
			rows := rest
			rows.Offset, rows.to = rest.of.messages[rest.from].offset, rest.from+n
			rest.from, rest.number = rest.from+n, rest.number+int64(n)
			if !isDeleted && !yield(&rows, nil) {
				return
			}
		}
	}
}

// numbersOfFirst returns the name of the first file, and the paths to read at which it has numbers. It returns none if the file can't be
// read: the reader of its rows reports the error.
func (a *Archive) numbersOfFirst(ctx context.Context) (name string, numbers []string) {
	at := slices.IndexFunc(a.partitions, func(files []*file) bool { return len(files) > 0 })
	if at < 0 || len(a.paths) == 0 {
		return "", nil
	}
	of := a.partitions[at][0].dataFile
	c, err := a.open(ctx, of, a.wanted)
	if err != nil {
		return "", nil
	}
	defer c.Close() // only read
	for _, path := range a.paths {
		if t := c.typeAt(tabular.Path(path)); t == stream.Number || t == stream.Whole {
			numbers = append(numbers, path)
		}
	}
	return of.Path, numbers
}

// changed describes the first column to read that has texts in a file but numbers in the first file of the archive; "" if there is none.
func (a *Archive) changed(name string, c *contents) string {
	for _, path := range a.numbers {
		if c.typeAt(tabular.Path(path)) == stream.Text {
			return fmt.Sprintf("%s has text in the column %q, in which %s has numbers", name, path, a.first)
		}
	}
	return ""
}

// found reads the columns of a row that have properties of its message.
type found struct {
	*tabular.Paths
	of    []int // the property of each column
	cells []tabular.Cell
}

func newFound(columns [properties][]string) (f found) {
	var names []string
	for property, all := range columns {
		names, f.of = append(names, all...), append(f.of, slices.Repeat([]int{property}, len(all))...)
	}
	f.Paths, f.cells = tabular.NewPaths(names), make([]tabular.Cell, len(names))
	return f
}

// set sets the properties from the columns of a row.
func (f *found) set(m *message, row tabular.Cell) error {
	if len(f.of) == 0 {
		return nil
	}
	if err := f.Read(row, f.cells); err != nil {
		return err
	}
	before := -1
	for column, property := range f.of {
		if property == before || !f.Has(column) {
			continue
		}
		before = property
		if err := m.set(property, f.cells[column]); err != nil {
			return err
		}
	}
	return nil
}

// bytesOf returns the message in a JSON string. JSON has no bytes: a sink whose converter returns bytes writes them in base64,
// which has neither the braces nor the delimiters of a message in text.
func bytesOf(text []byte) []byte {
	if decoded, err := base64.StdEncoding.Strict().DecodeString(string(text)); err == nil && len(decoded) > 0 {
		return decoded
	}
	return text
}

// records are the rows of a Parquet file.
type records struct {
	*parquet.Reader
	columns [properties][]string
	value   string // name of the column with the value; "": the row is the value
	failed  error  // error of the row after the returned ones
}

// batchRows is the number of rows that are decoded at a time.
const batchRows = 1024

func (d *records) next() (*block, error) {
	if d.failed != nil {
		return nil, d.failed
	}
	batch, err := d.Reader.Next(batchRows, nil)
	if err != nil {
		return nil, err
	}
	rows := arrow.RowsOf(batch)
	b := &block{messages: messages(int(batch.NumRows())), all: rows}
	if d.value != "" {
		b.all = cmp.Or(rows.Named(d.value), rows)
	}
	for property, names := range d.columns {
		var column *stream.Values
		for _, name := range names {
			column = cmp.Or(column, rows.Named(name), arrow.At(rows, name))
		}
		for i := 0; column != nil && i < len(b.messages); i++ {
			if err := b.messages[i].set(property, arrow.Nested{Of: column, Row: i}.Cell()); err != nil {
				b.messages, d.failed = b.messages[:i], err
			}
		}
	}
	if len(b.messages) == 0 {
		return nil, d.failed
	}
	return b, nil
}

func (d *records) typeAt(path []string) stream.Type {
	return stream.TypeOf(arrow.TypeAt(arrowtypes.StructOf(d.Schema().Fields()...), path))
}

// container are the rows of an Avro container file.
type container struct {
	*typed.AvroRows
	found
	value string // as of records
}

func (d *container) typeAt(path []string) stream.Type { return d.TypeAt(path) }

func (d *container) next() (*block, error) {
	members, row, err := d.AvroRows.Next()
	if err != nil {
		return nil, err
	}
	of := row
	if member, has := members[d.value]; has && d.value != "" {
		of = typed.AvroCell(member)
	}
	b := &block{messages: messages(1), cell: of}
	return b, d.set(&b.messages[0], row)
}

// lines are the rows of a file with JSON in each line.
type lines struct {
	input.LineReader
	found
	value  string   // as of records
	offset []string // names of the column with the offset
}

// Close implements io.Closer. The content is closed by its owner.
func (d *lines) Close() error { return nil }

func (*lines) typeAt([]string) stream.Type { return stream.Other }

func (d *lines) next() (*block, error) {
	line := []byte(nil)
	for text := ""; text == "" || text == "[" || text == "]"; text = string(line) {
		var err error
		if line, err = d.ReadLine(); err != nil {
			return nil, err
		}
		line = bytes.TrimSuffix(bytes.TrimSpace(line), []byte(",")) // of an array with an item in each line
	}
	b := &block{messages: messages(1)}
	row, of, err := d.parse(bytes.Clone(line))
	if err == nil {
		err = d.set(&b.messages[0], tabular.JSON(row))
	}
	if err != nil {
		return nil, d.FailLine(err)
	}
	b.cell, b.json = tabular.JSON(of), of
	if text, isText := b.cell.Word(); isText {
		b.cell, b.json = tabular.Word(string(bytesOf([]byte(text)))), nil
	}
	return b, nil
}

// parse returns a row, which may be in an envelope of `schema` and `payload`, and the value of the message, which may be in a column.
func (d *lines) parse(line value.Cell) (row, of value.Cell, err error) {
	if err := value.CheckJSON(line); err != nil {
		return nil, nil, err
	}
	var payload, inColumn value.Cell
	others, hasOffset := 0, false
	if line[0] == '{' {
		err = line.Each(func(name []byte, member value.Cell) error {
			switch name := string(name); {
			case name == "schema":
				return nil
			case name == "payload":
				payload = member
				return nil
			case name == d.value:
				inColumn = member
			case slices.Contains(d.offset, name):
				hasOffset = true
			}
			others++
			return nil
		})
	}
	switch {
	case payload != nil && others == 0:
		return payload, payload, err
	case inColumn != nil && (hasOffset || others == 1):
		return line, inColumn, err
	}
	return line, line, err
}
