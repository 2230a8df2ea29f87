package parquet

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/input"
)

// Datums are the rows of a file in Avro's binary encoding, with nested columns. Memory holds a page of each column.
type Datums struct {
	columns []*node
	schema  string
	values  []byte // of the columns that the file lacks
	left    int64  // number of remaining rows
	row     []byte
}

// node is a column, or a part of one.
type node struct {
	leaves []*leaf // below it
	leaf   *leaf   // nil: it has parts
	parts  []*node // of a list the item, of a map the key and the value
	// present is the definition level from which a value is there, or a list has an item; 0: a value is always there.
	present  int
	repeated int // repetition level of the further items of a list
}

// Columns are the columns of rows, as far as the file does not say them.
type Columns struct {
	// Wanted reports whether rows need a column at a path. Nil means that they need all.
	Wanted func(path string) bool
	// Names are the names of columns, at any depth, by the IDs of fields. A column whose ID has no name is not read. Nil means that the names
	// in the file apply.
	Names map[int]string
	// IDs are the IDs of the fields of a file that has none: by the name in the file, after the path of the column that it is in. Nil means
	// that they are not known, so that such a file is an error if there are Names.
	IDs map[string]int
	// Values are columns that the file may lack.
	Values []input.Partition
}

// OpenDatums opens a file.
func OpenDatums(r io.ReaderAt, size int64, columns Columns) (*Datums, error) {
	file, err := parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, err
	}
	if columns.Wanted == nil {
		columns.Wanted = func(string) bool { return true }
	}
	s := &schemaOf{file: file, types: typesOf(file), columns: columns, hasIDs: hasIDs(file.Root())}
	if columns.Names != nil && columns.IDs == nil && !s.hasIDs {
		return nil, errors.New("columns without IDs, and no names by which the table has them: set its property schema.name-mapping.default")
	}
	d := &Datums{left: file.NumRows()}
	var fields []any
	d.columns, fields = s.fields(file.Root().Columns(), "")
	for _, v := range columns.Values {
		has := func(c *parquet.Column) bool { return s.name(c, "") == v.Column }
		if !columns.Wanted(v.Column) || slices.ContainsFunc(file.Root().Columns(), has) {
			continue
		}
		of := "string"
		if v.IsWhole {
			of = "long"
		}
		fields = append(fields, map[string]any{"name": v.Column, "type": []string{"null", of}})
		switch {
		case v.Null:
			d.values = binary.AppendVarint(d.values, 0)
		case v.IsWhole:
			d.values = binary.AppendVarint(binary.AppendVarint(d.values, 1), v.Whole)
		default:
			d.values = binary.AppendVarint(binary.AppendVarint(d.values, 1), int64(len(v.Text)))
			d.values = append(d.values, v.Text...)
		}
	}
	schema := s.record(fields)
	text, err := json.Marshal(schema)
	d.schema = string(text)
	return d, err
}

// schemaOf converts a schema.
type schemaOf struct {
	file    *parquet.File
	types   types
	columns Columns
	hasIDs  bool // the file has IDs
	records int
}

// name returns the name of a column that is at a path; "": it was dropped.
func (s *schemaOf) name(c *parquet.Column, within string) string {
	switch {
	case s.columns.Names == nil:
		return c.Name()
	case s.hasIDs:
		return s.columns.Names[c.ID()]
	}
	return s.columns.Names[s.columns.IDs[within+c.Name()]]
}

func hasIDs(of *parquet.Column) bool {
	return of.ID() > 0 || slices.ContainsFunc(of.Columns(), hasIDs)
}

// fields returns the columns of a record that are wanted and have a type that can be read, and their Avro schemas.
func (s *schemaOf) fields(columns []*parquet.Column, within string) (nodes []*node, fields []any) {
	for _, c := range columns {
		name := s.name(c, within)
		if path := within + name; name != "" && s.columns.Wanted(path) {
			if n, of := s.node(c, path, c.Repeated()); n != nil {
				nodes, fields = append(nodes, n), append(fields, map[string]any{"name": name, "type": of})
			}
		}
	}
	return nodes, fields
}

// record returns the Avro schema of a record.
func (s *schemaOf) record(fields []any) any {
	s.records++
	if fields == nil {
		fields = []any{}
	}
	return map[string]any{"type": "record", "name": fmt.Sprint("record", s.records), "fields": fields}
}

// node returns a column; nil: its type can't be read. repeated means that it is a list by itself.
func (s *schemaOf) node(c *parquet.Column, path string, repeated bool) (n *node, schema any) {
	n = &node{}
	parts := c.Columns()
	switch {
	case repeated:
		item, of := s.node(c, path, false)
		return s.list(item, of, c)
	case c.Leaf():
		n.leaf = newLeaf(s.file, c, s.types)
		n.leaves = []*leaf{n.leaf}
		schema = n.leaf.avro()
	case len(parts) == 1 && parts[0].Repeated() && isEntry(parts[0]):
		key, _ := s.node(parts[0].Columns()[0], path, false)
		v, of := s.node(parts[0].Columns()[1], path, false)
		if v != nil {
			n.leaves, n.parts = append(slices.Clone(key.leaves), v.leaves...), []*node{key, v}
			n.present, n.repeated = parts[0].MaxDefinitionLevel(), parts[0].MaxRepetitionLevel()
			schema = map[string]any{"type": "map", "values": of}
		}
	case len(parts) == 1 && parts[0].Repeated() && !parts[0].Leaf() && len(parts[0].Columns()) == 1:
		item, of := s.node(parts[0].Columns()[0], path, parts[0].Columns()[0].Repeated())
		n, schema = s.list(item, of, parts[0])
	case len(parts) == 1 && parts[0].Repeated():
		n, schema = s.node(parts[0], path, true)
	default:
		var fields []any
		if n.parts, fields = s.fields(parts, path+"."); len(n.parts) == 0 {
			return nil, nil
		}
		schema = s.record(fields)
		for _, part := range n.parts {
			n.leaves = append(n.leaves, part.leaves...)
		}
	}
	if n == nil || schema == nil || !c.Optional() {
		return unless(schema == nil, n), schema
	}
	return &node{leaves: n.leaves, parts: []*node{n}, present: c.MaxDefinitionLevel()}, []any{"null", schema}
}

func unless(none bool, n *node) *node {
	if none {
		return nil
	}
	return n
}

// list returns a list of items, which a column repeats.
func (s *schemaOf) list(item *node, of any, by *parquet.Column) (*node, any) {
	if item == nil {
		return nil, nil
	}
	return &node{leaves: item.leaves, parts: []*node{item}, present: by.MaxDefinitionLevel(), repeated: by.MaxRepetitionLevel()},
		map[string]any{"type": "array", "items": of}
}

// isEntry reports whether a column is an entry of a map whose keys are texts.
func isEntry(c *parquet.Column) bool {
	parts := c.Columns()
	return (c.Name() == "key_value" || c.Name() == "map") && len(parts) == 2 && parts[0].Leaf() && parts[0].Name() == "key" &&
		!parts[0].Optional() && parts[0].Type().Kind() == parquet.ByteArray
}

// avro returns the Avro type of the values of a leaf; nil: they can't be read.
func (l *leaf) avro() any {
	switch l.kind {
	case tabular.Text:
		return "string"
	case tabular.Boolean:
		return "boolean"
	case tabular.Whole:
		return "long"
	case tabular.Moment:
		return map[string]any{"type": "long", "logicalType": map[time.Duration]string{day: "timestamp-millis",
			time.Millisecond: "timestamp-millis", time.Microsecond: "timestamp-micros", time.Nanosecond: "timestamp-nanos"}[l.unit]}
	case tabular.Numeric:
		switch {
		case l.isSingle():
			return "float"
		case l.decimal && l.scale >= 0:
			return map[string]any{"type": "bytes", "logicalType": "decimal", "precision": max(l.precision, l.scale, 1), "scale": l.scale}
		}
		return "double"
	}
	if kind := l.column.Type().Kind(); kind == parquet.ByteArray || kind == parquet.FixedLenByteArray {
		return "bytes"
	}
	return nil
}

// isSingle reports whether values are float32.
func (l *leaf) isSingle() bool { return l.column.Type().Kind() == parquet.Float }

// Schema returns the Avro schema of the rows.
func (d *Datums) Schema() string { return d.schema }

// Close releases the pages.
func (d *Datums) Close() (err error) {
	for _, c := range d.columns {
		for _, l := range c.leaves {
			if e := l.close(); err == nil {
				err = e
			}
		}
	}
	return err
}

// Next returns the next row; io.EOF after the last.
func (d *Datums) Next() ([]byte, error) {
	if d.left == 0 {
		return nil, io.EOF
	}
	d.left--
	d.row = d.row[:0]
	for _, c := range d.columns {
		var err error
		if d.row, err = c.append(d.row); err != nil {
			return nil, err
		}
	}
	return slices.Concat(d.row, d.values), nil
}

// append appends the next value of a column.
func (n *node) append(row []byte) ([]byte, error) {
	v, err := n.leaves[0].peek()
	if err == nil && v == nil {
		err = errTooFew
	}
	if err != nil {
		return row, err
	}
	if v.DefinitionLevel() < n.present { // a null, or an empty list
		return append(row, 0), n.skip()
	}
	switch {
	case n.leaf != nil:
		n.leaf.at++
		return n.leaf.append(row, v), nil
	case n.repeated == 0:
		if n.present > 0 {
			row = binary.AppendVarint(row, 1) // the second type of a union
		}
		for _, part := range n.parts {
			if row, err = part.append(row); err != nil {
				return row, err
			}
		}
		return row, nil
	}
	for more := true; more; {
		row = binary.AppendVarint(row, 1) // a block with an item
		for _, part := range n.parts {
			if row, err = part.append(row); err != nil {
				return row, err
			}
		}
		if v, err = n.leaves[0].peek(); err != nil {
			return row, err
		}
		more = v != nil && v.RepetitionLevel() == n.repeated
	}
	return append(row, 0), nil
}

// skip skips a value.
func (n *node) skip() error {
	for _, l := range n.leaves {
		v, err := l.peek()
		if err == nil && v == nil {
			err = errTooFew
		}
		if err != nil {
			return err
		}
		l.at++
	}
	return nil
}

// append appends a value that is not null.
func (l *leaf) append(row []byte, v *parquet.Value) []byte {
	switch l.kind {
	case tabular.Boolean:
		return append(row, byte(l.whole(v)))
	case tabular.Whole:
		return binary.AppendVarint(row, l.whole(v))
	case tabular.Moment:
		if l.unit == day {
			return binary.AppendVarint(row, l.whole(v)*day.Milliseconds())
		}
		return binary.AppendVarint(row, l.whole(v))
	case tabular.Numeric:
		if l.isSingle() {
			return binary.LittleEndian.AppendUint32(row, math.Float32bits(v.Float()))
		}
		if l.decimal && l.scale >= 0 {
			break
		}
		return binary.LittleEndian.AppendUint64(row, math.Float64bits(l.number(v)))
	}
	var content []byte
	switch v.Kind() {
	case parquet.Int32, parquet.Int64: // of a decimal
		content = binary.BigEndian.AppendUint64(nil, uint64(l.whole(v)))
	default:
		content = v.ByteArray()
	}
	return append(binary.AppendVarint(row, int64(len(content))), content...)
}
