package archive

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
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
	Copies []Row

	partition int  // -1: unknown
	numbered  bool // the row has its offset
}

// set sets a property that a column has.
func (r *Row) set(property int, v tabular.Cell) error {
	if v.Null() {
		return nil
	}
	if property == atKey {
		r.Key, _ = v.Text()
		return nil
	}
	n, err := v.Whole()
	if err != nil && property == atTimestamp {
		n, err = timeOf(&v), nil
	}
	if err == nil {
		err = r.setWhole(property, n)
	}
	return err
}

// setWhole sets a property to a whole number.
func (r *Row) setWhole(property int, n int64) error {
	switch {
	case property == atTimestamp:
		r.Time = n
	case n < 0:
		return fmt.Errorf("%d as partition or offset: expected at least 0", n)
	case property == atPartition:
		r.partition = int(min(n, maxPartitions))
	case property == atOffset:
		r.Offset, r.numbered = n, true
	}
	return nil
}

// timeOf returns a time in milliseconds since 1970; 0 if it is none.
func timeOf(v *tabular.Cell) int64 {
	text, err := v.Time()
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
	// next sets the value and the properties of a row; io.EOF after the last.
	next(r *Row) error
	io.Closer
}

// contents are the rows of an open file.
type contents struct {
	name    string
	file    openFile
	content *input.Content
	rows    rows
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
		c.rows = &records{Reader: reader, columns: a.columns}
		return c, err
	case of.Names != nil || len(of.Values) > 0:
		return c, errors.New("a file of a table that is not in Parquet: rewrite the table's files as Parquet")
	case string(magic) == "Obj\x01":
		reader, err := typed.OpenAvro(c.content)
		c.rows = &container{reader, a.columns}
		return c, err
	case len(text) == 0 || slices.Contains([]byte("{[\""), text[0]):
		c.rows = &lines{input.LineReader{Content: c.content}, a.columns}
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
func (c *contents) next() (r Row, err error) {
	for {
		r = Row{File: c.name, partition: -1}
		if err = c.rows.next(&r); err != nil {
			if !errors.As(err, new(*input.Error)) && err != io.EOF {
				err = fmt.Errorf("row %d, counted from 0: %w", c.row, err)
			}
			return r, c.fail(err)
		}
		c.row++
		if len(c.deleted) == 0 || c.deleted[0] != c.row-1 {
			return r, nil
		}
		c.deleted = c.deleted[1:]
	}
}

// records are the rows of a Parquet file.
type records struct {
	*parquet.Reader
	columns [properties][]string

	rows  arrow.Nested                   // the next row of the batch
	left  int                            // number of rows in the batch that were not read
	as    []tabular.Cell                 // the rows of the batch
	found [properties]*arrowvalue.Values // of the batch
}

// batchRows is the number of rows that are decoded at a time.
const batchRows = 1024

func (d *records) next(r *Row) (err error) {
	defer func() {
		if cause := recover(); cause != nil { // the library does not validate files
			err = fmt.Errorf("the file is damaged: %v", cause)
		}
	}()
	if d.left == 0 {
		batch, err := d.Reader.Next(batchRows, nil)
		if err != nil {
			return err
		}
		d.rows, d.left, d.as = arrow.Nested{Of: arrow.RowsOf(batch)}, int(batch.NumRows()), make([]tabular.Cell, batch.NumRows())
		for property, names := range d.columns {
			d.found[property] = nil
			for _, name := range slices.Backward(names) {
				if of := d.rows.Of.Named(name); of != nil {
					d.found[property] = of
				}
			}
		}
	}
	row := d.rows
	d.left, d.rows.Row = d.left-1, row.Row+1
	for property, of := range d.found {
		if of == nil || property == atValue {
			continue
		}
		if of.Type == arrowvalue.Whole && property != atKey && !of.Null(row.Row) {
			n, _ := of.Whole(row.Row)
			err = r.setWhole(property, n)
		} else {
			err = r.set(property, arrow.Nested{Of: of, Row: row.Row}.Cell())
		}
		if err != nil {
			return err
		}
	}
	if of := d.found[atValue]; of != nil {
		row.Of = of
		if cell := row.Cell(); isBytes(r, &cell) {
			return nil
		}
	}
	d.as[row.Row] = row.Cell()
	r.Decoded = &d.as[row.Row]
	return nil
}

// isBytes sets the value of a row to the bytes of the message on the topic, if a cell has those, or none.
func isBytes(r *Row, cell *tabular.Cell) bool {
	text, is := cell.Word()
	if is {
		r.Value = []byte(text)
	}
	return is || cell.Null()
}

// container are the rows of an Avro container file.
type container struct {
	*typed.AvroRows
	columns [properties][]string
}

func (d *container) next(r *Row) error {
	members, row, err := d.AvroRows.Next()
	if err != nil {
		return err
	}
	for property, names := range d.columns {
		for _, name := range names {
			v, found := members[name]
			if !found {
				continue
			}
			cell := typed.AvroCell(v)
			if property != atValue {
				err = r.set(property, cell)
			} else if row = cell; isBytes(r, &cell) {
				return nil
			}
			if err != nil {
				return err
			}
			break
		}
	}
	r.Decoded = &row
	return nil
}

// lines are the rows of a file with JSON in each line.
type lines struct {
	input.LineReader
	columns [properties][]string
}

// Close implements io.Closer. The content is closed by its owner.
func (d *lines) Close() error { return nil }

func (d *lines) next(r *Row) error {
	line := []byte(nil)
	for text := ""; text == "" || text == "[" || text == "]"; text = string(line) {
		var err error
		if line, err = d.ReadLine(); err != nil {
			return err
		}
		line = bytes.TrimSuffix(bytes.TrimSpace(line), []byte(",")) // of an array with an item in each line
	}
	if err := value.CheckJSON(line); err != nil {
		return d.FailLine(err)
	}
	if err := d.read(r, value.Cell(bytes.Clone(line))); err != nil {
		return d.FailLine(err)
	}
	return nil
}

// read reads a row, which may be in an envelope of `schema` and `payload`, or of columns beside its value.
func (d *lines) read(r *Row, row value.Cell) error {
	var members [properties]value.Cell
	payload, others := value.Cell(nil), 0
	if row[0] == '{' {
		err := row.Each(func(name []byte, member value.Cell) error {
			switch string(name) {
			case "schema":
			case "payload":
				payload = member
			default:
				others++
			}
			for property, names := range d.columns {
				if at := slices.Index(names, string(name)); at >= 0 && (members[property] == nil || at == 0) {
					members[property] = member
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for property, member := range members[:atValue] {
		if err := r.set(property, tabular.JSON(member)); err != nil {
			return err
		}
	}
	enveloped := payload != nil && others == 0
	switch {
	case enveloped:
		row = payload
	case members[atValue] != nil && (members[atOffset] != nil || others == 1):
		row = members[atValue]
	}
	switch {
	case row.Null():
	case row[0] == '"' && !enveloped: // the text of the message
		r.Value = bytesOf(row.Name())
	default:
		cell := tabular.JSON(row)
		r.Value, r.Decoded = row, &cell
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
