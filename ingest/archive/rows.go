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

	"github.com/stagewise/stagewise/ingest/format/arrow"
	"github.com/stagewise/stagewise/ingest/format/parquet"
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/format/typed"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/schemas/arrowvalue"
	"github.com/stagewise/stagewise/schemas/value"
)

// Row is a row of an archive as the message that it was.
type Row struct {
	Offset  int64
	Time    int64  // in milliseconds since 1970; 0: unknown
	Key     string // "": none, or unknown
	Value   []byte
	Decoded *tabular.Cell // nil: Value is the value on the topic
	File    string
	// Copies are further rows with the offset.
	Copies []*Row

	cell      tabular.Cell
	partition int
	located   bool // the row has its partition
	numbered  bool // the row has its offset
}

// set sets a property that a column has.
func (r *Row) set(property int, v tabular.Cell) error {
	if v.Null() {
		return nil
	}
	switch property {
	case atKey:
		r.Key, _ = v.Text()
		return nil
	case atTimestamp:
		r.Time = timeOf(&v)
		return nil
	}
	n, err := v.Whole()
	switch {
	case err != nil:
		return err
	case n < 0:
		return fmt.Errorf("%d as partition or offset: expected at least 0", n)
	case property == atPartition:
		r.partition, r.located = int(min(n, maxPartitions)), true
	case property == atOffset:
		r.Offset, r.numbered = n, true
	}
	return nil
}

// timeOf returns a time in milliseconds since 1970; 0 if it is none.
func timeOf(v *tabular.Cell) int64 {
	if seconds, is := v.Seconds(); is {
		return int64(math.Round(seconds * 1000)) // a sum of a second and milliseconds is not exact
	}
	if n, err := v.Whole(); err == nil {
		return n
	}
	text, err := v.Text()
	if err != nil {
		return 0
	}
	t, err := value.Time(text, "")
	if err != nil {
		return 0
	}
	return t.UnixMilli()
}

// rows are the rows of a file in a format.
type rows interface {
	// next returns the next rows, at least one; io.EOF after the last. They are valid after the next call too.
	next() ([]Row, error)
	io.Closer
}

// contents are the rows of an open file.
type contents struct {
	name    string
	file    openFile
	content *input.Content
	rows    rows
	ahead   []Row
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

// next returns the next row that is not deleted; io.EOF after the last.
func (c *contents) next() (r *Row, err error) {
	for {
		if len(c.ahead) == 0 {
			if c.ahead, err = c.rows.next(); err != nil {
				if !errors.As(err, new(*input.Error)) && err != io.EOF {
					err = fmt.Errorf("row %d, counted from 0: %w", c.row, err)
				}
				return nil, c.fail(err)
			}
		}
		r, c.ahead = &c.ahead[0], c.ahead[1:]
		r.File = c.name
		c.row++
		if len(c.deleted) == 0 || c.deleted[0] != c.row-1 {
			return r, nil
		}
		c.deleted = c.deleted[1:]
	}
}

// setValue sets the value of the message.
func (r *Row) setValue(v tabular.Cell) {
	if text, isText := v.Word(); isText {
		r.Value = []byte(text)
	} else if !v.Null() {
		r.cell = v
		r.Decoded = &r.cell
	}
}

// found are the columns of a row that have properties.
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

// set sets the properties that columns of a row have.
func (f *found) set(r *Row, row tabular.Cell) error {
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
		if err := r.set(property, f.cells[column]); err != nil {
			return err
		}
	}
	return nil
}

// bytesOf returns the message that a text in JSON has. JSON has no bytes: a sink whose converter hands over bytes writes them in
// base64, which has neither the braces nor the delimiters of a message in text.
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
	failed  error  // of the row after those that were returned
}

// batchRows is the number of rows that are decoded at a time.
const batchRows = 1024

func (d *records) next() ([]Row, error) {
	if d.failed != nil {
		return nil, d.failed
	}
	batch, err := d.Reader.Next(batchRows, nil)
	if err != nil {
		return nil, err
	}
	all := arrow.RowsOf(batch)
	rows := make([]Row, batch.NumRows())
	of := all
	if d.value != "" {
		of = cmp.Or(all.Named(d.value), all)
	}
	for i := range rows {
		rows[i].setValue(arrow.Nested{Of: of, Row: i}.Cell())
	}
	for property, names := range d.columns {
		var column *arrowvalue.Values
		for _, name := range names {
			column = cmp.Or(column, all.Named(name), arrow.At(all, name))
		}
		for i := 0; i < len(rows) && column != nil; i++ {
			if err := rows[i].set(property, arrow.Nested{Of: column, Row: i}.Cell()); err != nil {
				rows, d.failed = rows[:i], err
				break
			}
		}
	}
	if len(rows) == 0 {
		return nil, d.failed
	}
	return rows, nil
}

// container are the rows of an Avro container file.
type container struct {
	*typed.AvroRows
	found
	value string // as of records
}

func (d *container) next() ([]Row, error) {
	members, row, err := d.AvroRows.Next()
	if err != nil {
		return nil, err
	}
	of := row
	if member, has := members[d.value]; has && d.value != "" {
		of = typed.AvroCell(member)
	}
	rows := make([]Row, 1)
	rows[0].setValue(of)
	if err := d.set(&rows[0], row); err != nil {
		return nil, err
	}
	return rows, nil
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

func (d *lines) next() ([]Row, error) {
	line := []byte(nil)
	for text := ""; text == "" || text == "[" || text == "]"; text = string(line) {
		var err error
		if line, err = d.ReadLine(); err != nil {
			return nil, err
		}
		line = bytes.TrimSuffix(bytes.TrimSpace(line), []byte(",")) // of an array with an item in each line
	}
	rows := make([]Row, 1)
	row, of, err := d.parse(bytes.Clone(line))
	if err == nil {
		err = d.set(&rows[0], tabular.JSON(row))
	}
	if err != nil {
		return nil, d.FailLine(err)
	}
	rows[0].setValue(tabular.JSON(of))
	if rows[0].Decoded == nil {
		rows[0].Value = bytesOf(rows[0].Value)
	} else {
		rows[0].Value = of
	}
	return rows, nil
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
