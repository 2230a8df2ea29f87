package archive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"slices"
	"strconv"
	"time"

	"github.com/stagewise/stagewise/ingest/archive/store"
	"github.com/stagewise/stagewise/ingest/archive/table"
	"github.com/stagewise/stagewise/ingest/format/parquet"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/message"
	"github.com/stagewise/stagewise/schemas/value"
)

// Row is a row of an archive as the message that it was.
type Row struct {
	Offset   int64
	Time     int64  // in milliseconds since 1970; 0: unknown
	Key      string // "": none, or unknown
	Value    []byte
	SchemaID string // the [message.Form] of Value; "": Value is the value on the topic
	File     string
	// Missing is the number of offsets before the row that no file has.
	Missing int64

	partition int
	numbered  bool // the row has its offset
}

// same reports whether two rows have the same content.
func (r *Row) same(other *Row) bool {
	return r.Key == other.Key && r.Time == other.Time && bytes.Equal(r.Value, other.Value)
}

// contents are the rows of an open file.
type contents struct {
	name    string
	columns [properties][]string
	file    store.File
	content *input.Content

	lines    *input.LineReader // of JSON; nil: the rows are in Avro
	datums   datums
	fields   *fields
	schemaID string
	row      int64   // number of rows that were read
	deleted  []int64 // numbers of later rows that are deleted
}

// open opens a file. wanted reports whether rows need a column; nil: they need all.
func (a *Archive) open(ctx context.Context, of table.DataFile, wanted func(path string) bool) (c *contents, err error) {
	name := of.Path
	c = &contents{name: name, columns: a.columns, deleted: of.Deleted}
	if c.file, err = a.store.Open(ctx, name); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = c.fail(err)
			_ = c.Close()
		}
	}()
	if c.content, err = input.New(ctx, name, store.Content(c.file)); err != nil {
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
		d, err := parquet.OpenDatums(c.file, c.file.Size(), of.Columns)
		if err != nil {
			return c, err
		}
		c.datums = d
	case of.Names != nil || len(of.Values) > 0:
		return c, errors.New("a file of a table that is not in Parquet: rewrite the table's files as Parquet")
	case string(magic) == "Obj\x01":
		d, err := openContainer(c.content)
		if err != nil {
			return c, err
		}
		c.datums = d
	case len(text) == 0 || slices.Contains([]byte("{[\""), text[0]):
		c.lines = &input.LineReader{Content: c.content}
	default:
		return c, errors.New("rows of no format of archives: expected an Avro container file, Parquet, or JSON with a row in each line")
	}
	if c.datums != nil {
		schema := c.datums.Schema()
		if c.fields, err = newFields(schema, a.columns); err != nil {
			return c, err
		}
		c.schemaID = message.Form{Format: "avro", Within: c.fields.found[atValue], Schema: schema}.ID()
	}
	return c, nil
}

// Close closes the file.
func (c *contents) Close() error {
	if c.datums != nil {
		_ = c.datums.Close()
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
		at := c.row
		if r, err = c.nextRow(); err != nil || len(c.deleted) == 0 || c.deleted[0] != at {
			return r, err
		}
		c.deleted = c.deleted[1:]
	}
}

func (c *contents) nextRow() (r Row, err error) {
	var found [properties]any
	if c.lines != nil {
		found, err = c.nextJSON(&r)
	} else if r.Value, err = c.datums.Next(); err == nil {
		found, err = c.nextAvro(&r)
	} else if err == io.EOF && c.row == 0 {
		return r, io.EOF
	}
	if err != nil {
		if err != io.EOF && c.lines == nil {
			err = fmt.Errorf("row %d, counted from 0: %w", c.row, err)
		}
		return r, c.fail(err)
	}
	r.File, r.partition = c.name, -1
	if v := found[atPartition]; v != nil {
		partition, ok := wholeOf(v)
		if !ok || partition < 0 || partition > math.MaxInt32 {
			return r, c.fail(fmt.Errorf("row %d, counted from 0: the partition is %v", c.row, v))
		}
		r.partition = int(partition)
	}
	if v := found[atOffset]; v != nil {
		if r.Offset, r.numbered = wholeOf(v); !r.numbered || r.Offset < 0 {
			return r, c.fail(fmt.Errorf("row %d, counted from 0: the offset is %v", c.row, v))
		}
	}
	r.Time, r.Key = timeOf(found[atTimestamp]), keyOf(found[atKey])
	c.row++
	return r, nil
}

// nextAvro completes a row with its columns.
func (c *contents) nextAvro(r *Row) (found [properties]any, err error) {
	if found, err = c.fields.read(r.Value); err != nil {
		return found, err
	}
	if r.SchemaID = c.schemaID; c.fields.at[atValue] >= 0 { // the bytes of the message
		r.SchemaID = ""
		switch v := found[atValue].(type) {
		case nil:
			r.Value = nil
		case string:
			r.Value = []byte(v)
		case []byte:
			r.Value = v
		}
	}
	return found, nil
}

// asJSON is the schema ID of values in JSON.
var asJSON = message.Form{Format: "json"}.ID()

// nextJSON reads a line.
func (c *contents) nextJSON(r *Row) (found [properties]any, err error) {
	var line []byte
	for {
		if line, err = c.lines.ReadLine(); err != nil {
			return found, err
		}
		line = bytes.TrimSuffix(bytes.TrimSpace(line), []byte(",")) // of an array with an item in each line
		if text := string(line); text != "" && text != "[" && text != "]" {
			break
		}
	}
	if err := value.CheckJSON(line); err != nil {
		return found, c.lines.FailLine(err)
	}
	row := value.Cell(bytes.Clone(line))
	var members [properties]value.Cell
	payload, others, enveloped := value.Cell(nil), 0, false
	if row[0] == '{' {
		err = row.Each(func(name []byte, member value.Cell) error {
			switch string(name) {
			case "schema":
			case "payload":
				payload = member
			default:
				others++
			}
			for property, names := range c.columns {
				if at := slices.Index(names, string(name)); at >= 0 && (members[property] == nil || at == 0) {
					members[property] = member
				}
			}
			return nil
		})
		if err != nil {
			return found, c.lines.FailLine(err)
		}
	}
	for property, member := range members {
		if property != atValue && !member.Null() {
			found[property] = scalar(member)
		}
	}
	v := row
	if members[atValue] != nil && (members[atOffset] != nil || others == 1) {
		v = members[atValue]
	}
	if payload != nil && others == 0 {
		v, enveloped = payload, true
	}
	switch {
	case v.Null():
		return found, nil
	case v[0] == '"' && !enveloped: // the text of the message
		r.Value = v.Name()
	default:
		r.Value, r.SchemaID = v, asJSON
	}
	return found, nil
}

// scalar returns the value of a text, or of a number.
func scalar(c value.Cell) any {
	if c[0] == '"' {
		return string(c.Name())
	}
	return json.Number(c)
}

// wholeOf returns a value that is a whole number.
func wholeOf(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case int32:
		return int64(v), true
	case float64:
		return int64(v), v == math.Trunc(v) && math.Abs(v) < 1<<53
	case *big.Rat:
		return v.Num().Int64(), v.IsInt() && v.Num().IsInt64()
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		return n, err == nil
	case json.Number:
		n, err := v.Int64()
		return n, err == nil
	}
	return 0, false
}

// timeOf returns a time in milliseconds since 1970; 0 if it is none.
func timeOf(v any) int64 {
	switch v := v.(type) {
	case time.Time:
		return v.UnixMilli()
	case string:
		if t, err := value.Time(v, ""); err == nil {
			return t.UnixMilli()
		}
	}
	milliseconds, _ := wholeOf(v)
	return milliseconds
}

// keyOf returns the key of a message.
func keyOf(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case []byte:
		return string(v)
	case *big.Rat:
		return v.RatString()
	}
	return fmt.Sprint(v)
}
