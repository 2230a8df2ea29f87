package archive

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

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
	from, to int // the rows in the block
}

// Len returns the number of rows, at least 1.
func (r *Rows) Len() int { return r.to - r.from }

// Cut returns the rows [from, to). Copies stay with the first row.
func (r *Rows) Cut(from, to int) *Rows {
	cut := *r
	cut.Offset, cut.from, cut.to = r.Offset+int64(from), r.from+from, r.from+to
	return &cut
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
	if err != nil {
		return err
	}
	return m.setWhole(property, n)
}

// setWhole is set for a number.
func (m *message) setWhole(property int, n int64) error {
	switch {
	case property == atTimestamp:
		m.time = n
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
	io.Closer
}

// contents are the rows of an open file.
type contents struct {
	name    string
	file    openFile
	content *input.Content
	rows    decoder
	changed string  // see Rows.Changed
	ahead   Rows    // the rows that were decoded
	row     int64   // number of rows that were read
	deleted []int64 // numbers of later rows that are deleted
}

// open opens a file. wanted reports whether rows need a column; nil: they need all.
func (a *Archive) open(ctx context.Context, of dataFile, wanted func(path string) bool) (c *contents, err error) {
	c = &contents{name: of.Path, deleted: of.Deleted}
	if c.file, err = a.store.Open(ctx, of.Path); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.rows, err = nil, c.fail(err)
			_ = c.Close()
		}
	}()
	if c.content, err = input.New(ctx, of.Path, contentOf(c.file)); err != nil {
		return c, err
	}
	c.content.SkipMark()
	magic, err := c.content.Peek(4)
	text := bytes.TrimSpace(magic)
	switch {
	case len(magic) == 0 && err == io.EOF:
		return c, input.ErrEmpty
	case err != nil && err != io.EOF:
		return c, err
	case string(magic) == "PAR1" && c.content.Kind == "":
		of.Wanted = wanted
		reader, err := parquet.Open(c.file, c.file.Size(), of.Columns)
		c.rows = &records{Reader: reader, columns: a.columns, value: a.layout.value}
		return c, err
	case of.Names != nil || len(of.Values) > 0:
		return c, errors.New("a file of a table that is not in Parquet: rewrite the table's files as Parquet")
	case string(magic) == "Obj\x01":
		reader, err := typed.OpenAvro(c.content)
		c.rows = &container{reader, newFound(a.columns), a.layout.value}
		return c, err
	case len(text) == 0 || slices.Contains([]byte("{[\""), text[0]):
		c.rows = &lines{input.LineReader{Content: c.content}, newFound(a.columns), a.layout.value, a.columns[atOffset]}
		return c, nil
	}
	return c, errors.New("rows of no format of archives: expected an Avro container file, Parquet, or JSON with a row in each line")
}

// Close closes the file.
func (c *contents) Close() error {
	if c.rows != nil {
		_ = c.rows.Close() // only read
	}
	if c.content != nil {
		return c.content.Close()
	}
	return c.file.Close()
}

// fail adds the file to an error.
func (c *contents) fail(err error) error {
	if errors.As(err, new(*input.Error)) || err == io.EOF {
		return err
	}
	return input.WholeFile(c.name, err)
}

// next returns the next rows that are not deleted, of one partition; io.EOF after the last. Their Offset is unknown if they do not have it.
func (c *contents) next() (*Rows, error) {
	for {
		if c.ahead.Len() == 0 {
			of, err := c.rows.next()
			if err != nil {
				if !errors.As(err, new(*input.Error)) && err != io.EOF {
					err = fmt.Errorf("row %d, counted from 0: %w", c.row, err)
				}
				return nil, c.fail(err)
			}
			c.ahead = Rows{File: c.name, Changed: c.changed, of: of, to: len(of.messages)}
		}
		n, deleted := c.ahead.alike(), false
		if len(c.deleted) > 0 {
			if deleted = c.deleted[0] == c.row; deleted {
				n, c.deleted = 1, c.deleted[1:]
			} else {
				n = int(min(int64(n), c.deleted[0]-c.row))
			}
		}
		rows := c.ahead.Cut(0, n)
		rows.Offset = rows.of.messages[rows.from].offset
		c.ahead.from += n
		if c.row += int64(n); !deleted {
			return rows, nil
		}
	}
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
		if column == nil {
			continue
		}
		if n, err := setAll(b.messages, property, column); err != nil {
			b.messages, d.failed = b.messages[:n], err
		}
	}
	if len(b.messages) == 0 {
		return nil, d.failed
	}
	return b, nil
}

// setAll sets a property of messages to the values of a column. With an error, n is the number of rows before the invalid one.
func setAll(messages []message, property int, column *stream.Values) (n int, err error) {
	whole := column.Type == stream.Whole && !column.Unsigned() && property != atKey
	for i := range messages {
		switch {
		case column.Null(i):
			continue
		case whole:
			n, _ := column.Whole(i)
			err = messages[i].setWhole(property, n)
		case column.Type == stream.Moment && property == atTimestamp:
			messages[i].time = column.Moment(i).Add(time.Millisecond / 2).UnixMilli() // rounded
		case column.Type == stream.Text && property == atKey:
			messages[i].key = strings.Clone(column.Text(i)) // the text is a part of the batch
		default:
			err = messages[i].set(property, arrow.Nested{Of: column, Row: i}.Cell())
		}
		if err != nil {
			return i, err
		}
	}
	return len(messages), nil
}

// container are the rows of an Avro container file.
type container struct {
	*typed.AvroRows
	found
	value string // as of records
}

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
