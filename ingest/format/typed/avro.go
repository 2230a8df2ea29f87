package typed

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/twmb/avro"
	"github.com/twmb/avro/ocf"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/value"
)

// binary is the name of this format.
const binary = "avro"

// Avro is Avro's binary encoding (https://avro.apache.org/docs/1.12.0/specification/) in messages: a record, with a
// schema from a registry or a file. With both, the file provides defaults and aliases of fields that the writer schema
// lacks.
func Avro() format.Format {
	return format.Format{
		Name:    binary,
		Meaning: "a record in Avro's binary encoding, with the schema of `registry` or of the file `schema`",
		Label:   format.Label,
		Schema:  format.SchemaKind{Type: "AVRO", Ending: ".avsc", Beside: true},
		Decoder: func(o format.Options) (d format.Decoder, err error) {
			r := &avroMessages{writers: map[*format.Schema]*avroWriter{}}
			r.as = r.empty.conversions()
			if d.Decode = r.decode; o.Schema == "" {
				return d, nil
			}
			text, err := os.ReadFile(o.Schema)
			var schema *avro.Schema
			if err == nil {
				schema, err = r.parse(&format.Schema{Text: string(text)})
			}
			if err == nil {
				r.empty = maxEmpty
				r.ours, err = nodeOf(schema, r.as)
			}
			if err != nil {
				return d, fmt.Errorf("examples.schema: %s: %w", o.Schema, err)
			}
			r.writers[nil] = &avroWriter{Schema: schema, name: o.Schema}
			blank := map[string]any{}
			for _, f := range r.ours.Fields {
				blank[f.Name] = nil
			}
			d.Blank = AvroCell(blank)
			d.Adapt = func(c tabular.Cell) tabular.Cell {
				if v, is := c.Nested().(*avroValue); is {
					return c.With(&avroValue{v.members, v.items, r.ours})
				}
				return c
			}
			return d, nil
		},
	}
}

// avroMessages reads records.
type avroMessages struct {
	ours    *schemaNode // the reader schema; nil: none
	writers map[*format.Schema]*avroWriter
	as      []avro.SchemaOpt
	empty   empty
}

// empty is the number of values without bytes that the current value may still have.
type empty int

// avroWriter is a schema of values, or the reason why it can't be used.
type avroWriter struct {
	*avro.Schema
	name  string
	value any // the last value, whose memory the next one of the schema reuses
	err   error
}

// parse parses a schema with its references.
func (r *avroMessages) parse(s *format.Schema) (schema *avro.Schema, err error) {
	if text := strings.TrimSpace(s.Text); strings.HasPrefix(text, "{") && !json.Valid([]byte(text)) {
		return nil, errors.New("avro: the schema is not JSON")
	}
	parse := func(options ...avro.SchemaOpt) (counted bool, err error) {
		var types avro.SchemaCache
		for _, reference := range s.References {
			if schema, err = types.Parse(reference.Text, options...); err != nil {
				return false, fmt.Errorf("the reference %s: %w", reference.Name, err)
			}
			counted = counted || hasEmptyRecord(schema)
		}
		schema, err = types.Parse(s.Text, options...)
		return err == nil && (counted || hasEmptyRecord(schema)), err
	}
	counted, err := parse(r.as...)
	if counted {
		_, err = parse(append(r.as, r.empty.records())...)
	}
	return schema, err
}

// hasEmptyRecord reports whether a schema has a record without fields. If records are counted, the library allocates a map for each, which
// takes half of the time of a message.
func hasEmptyRecord(schema *avro.Schema) bool {
	return bytes.Contains(schema.Canonical(), []byte(`"fields":[]`))
}

// maxEmpty limits the number of values without bytes in a message, in addition to one for each byte of the message.
const maxEmpty = 1 << 16

// conversions returns decoders for types that the library does not decode to cells. Times are in seconds, regardless of the
// unit of the schema, so that a change of the unit does not change the training data. Names may be any text.
func (e *empty) conversions() (all []avro.SchemaOpt) {
	add := func(logical string, cell func(v any, of *avro.SchemaNode) any, types ...string) { // other types have no such logical type
		for _, name := range types {
			decode := func(v any, of *avro.SchemaNode) (any, error) { return cell(v, of), nil }
			all = append(all, avro.WithCustomType(avro.CustomType{LogicalType: logical, AvroType: name, Decode: decode}))
		}
	}
	for unit, per := range map[string]int64{"millis": 1e3, "micros": 1e6, "nanos": 1e9} {
		instant := func(v any, _ *avro.SchemaNode) any { return tabular.Instant(seconds(v, per)) }
		add("timestamp-"+unit, instant, "int", "long")
		add("local-timestamp-"+unit, instant, "int", "long")
		add("time-"+unit, func(v any, _ *avro.SchemaNode) any { return tabular.Float(seconds(v, per)) }, "int", "long")
	}
	const day = 86400
	add("date", func(v any, _ *avro.SchemaNode) any { return tabular.Instant(seconds(v, 1) * day) }, "int", "long")
	bytesOf := func(v any) []byte {
		if text, ok := v.([]byte); ok {
			return text
		}
		fixed := reflect.ValueOf(v)
		content := make([]byte, fixed.Len())
		reflect.Copy(reflect.ValueOf(content), fixed)
		return content
	}
	add("decimal", func(v any, of *avro.SchemaNode) any { return tabular.Decimal(bytesOf(v), of.Scale) }, "bytes", "fixed")
	add("", func(v any, of *avro.SchemaNode) any {
		content := bytesOf(v)
		if of.LogicalType == "uuid" && len(content) == 16 {
			return tabular.Word(value.UUID(content))
		}
		return tabular.Word(string(content))
	}, "fixed")
	return append(all, avro.WithCustomType(avro.CustomType{AvroType: "null", Decode: e.count}),
		avro.WithLaxNames(func(string) error { return nil }))
}

// records counts the records without fields.
func (e *empty) records() avro.SchemaOpt {
	return avro.WithCustomType(avro.CustomType{AvroType: "record", Decode: e.count})
}

// count counts the values that may take no bytes: a malicious list may have any number of them.
func (e *empty) count(v any, of *avro.SchemaNode) (any, error) {
	if len(of.Fields) > 0 {
		return v, nil
	}
	if *e--; *e < 0 {
		return nil, errors.New("too many items that take no bytes")
	}
	return v, nil
}

// seconds converts a time in units of 1/per of a second.
func seconds(v any, per int64) float64 {
	units, isLong := v.(int64)
	if !isLong {
		short, _ := v.(int32)
		units = int64(short)
	}
	return float64(units/per) + float64(units%per)/float64(per)
}

// decode decodes a record.
func (r *avroMessages) decode(_ context.Context, m format.Payload) (v tabular.Cell, err error) {
	w, known := r.writers[m.Schema]
	if !known {
		schema, err := r.parse(m.Schema)
		if w = (&avroWriter{Schema: schema, name: m.Schema.Name}); err != nil {
			w.err = fmt.Errorf("%s: %w", w.name, err)
		}
		r.writers[m.Schema] = w
	}
	if w.err != nil {
		return v, w.err
	}
	r.empty = empty(len(m.Value) + maxEmpty)
	rest, err := w.Decode(m.Value, &w.value)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes behind the value", len(rest))
	}
	if err != nil {
		return v, fmt.Errorf("%w: is it written with %s?", err, w.name)
	}
	return avroCell(w.value, r.ours), nil
}

// AvroRows are the rows of an object container file. Memory holds a block.
type AvroRows struct {
	file  *ocf.Reader
	empty empty
}

// OpenAvro reads the header of a file.
func OpenAvro(r io.Reader) (rows *AvroRows, err error) {
	rows = &AvroRows{}
	rows.file, err = ocf.NewReader(r, ocf.WithSchemaOpts(append(rows.empty.conversions(), rows.empty.records())...))
	if err != nil {
		err = fmt.Errorf("%w: expected a container file with the codec null, deflate, snappy or zstandard", err)
	}
	return rows, err
}

// Next returns the members of the next row, or nil if it is not a record, and its value; io.EOF after the last.
func (r *AvroRows) Next() (members map[string]any, row tabular.Cell, err error) {
	r.empty = maxEmpty
	var v any
	err = r.file.Decode(&v)
	members, _ = v.(map[string]any)
	return members, AvroCell(v), err
}

// TypeAt returns the type of the values at a path: that of all branches of a union but null; Other if they differ.
func (r *AvroRows) TypeAt(path []string) stream.Type {
	return typeAt(r.file.Schema().Root(), path)
}

func typeAt(of *avro.SchemaNode, path []string) (t stream.Type) {
	switch of.Type {
	case "union":
		for i := range of.Branches {
			branch := typeAt(&of.Branches[i], path)
			switch {
			case of.Branches[i].Type == "null":
			case t != stream.Other && t != branch:
				return stream.Other
			default:
				t = branch
			}
		}
		return t
	case "record":
		for i := range of.Fields {
			if len(path) > 0 && of.Fields[i].Name == path[0] {
				return typeAt(&of.Fields[i].Type, path[1:])
			}
		}
		return stream.Other
	}
	switch numeric := of.Type == "int" || of.Type == "long" || of.Type == "float" || of.Type == "double"; {
	case len(path) > 0 || of.LogicalType != "":
		return stream.Other
	case numeric:
		return stream.Number
	case of.Type == "string", of.Type == "enum":
		return stream.Text
	}
	return stream.Other
}

// Close releases the memory of the decompressor.
func (r *AvroRows) Close() error { return r.file.Close() }

// avroValue has the fields of a record, the entries of a map or the items of a list, as the library decodes them to an interface.
type avroValue struct {
	members map[string]any
	items   []any
	ours    *schemaNode // in the reader schema; nil: it has none
}

// AvroCell converts a value that the library has decoded to an interface.
func AvroCell(v any) tabular.Cell { return avroCell(v, nil) }

func avroCell(v any, ours *schemaNode) tabular.Cell {
	switch v := v.(type) {
	case nil:
		return tabular.Cell{}
	case tabular.Cell:
		return v
	case bool:
		return tabular.Truth(v)
	case int32:
		return tabular.Integer(int64(v))
	case int64:
		return tabular.Integer(v)
	case float32:
		return tabular.Float(float64(v))
	case float64:
		return tabular.Float(v)
	case string:
		return tabular.Word(v)
	case []byte:
		return tabular.Word(string(v))
	case *big.Rat: // of the type big-decimal
		number, _ := v.Float64()
		return tabular.Float(number)
	case []any:
		return tabular.ListOf(&avroValue{items: v, ours: ours})
	case map[string]any:
		return tabular.ObjectOf(&avroValue{members: v, ours: ours})
	}
	return tabular.ObjectOf(nil)
}

// Parts implements tabular.Nested.
func (n *avroValue) Parts(at *tabular.Step, put func(at *tabular.Step, part tabular.Cell) error) error {
	for _, next := range at.Below {
		if v, of, ok := n.part(next); ok {
			if err := put(next, avroCell(v, of)); err != nil {
				return err
			}
		}
	}
	return nil
}

// part returns an item, a field of a record, or an entry of a map, by its name in the reader schema. A field that a record lacks has its
// alias or its default in that schema.
func (n *avroValue) part(at *tabular.Step) (v any, of *schemaNode, ok bool) {
	if at.Index >= 0 && at.Index < len(n.items) {
		return n.items[at.Index], n.ours.items(), true
	}
	v, ok = n.members[at.Name]
	if n.ours == nil || n.members == nil {
		return v, nil, ok
	}
	f, of := n.ours.field(at.Name)
	if ok || f == nil {
		return v, of, ok
	}
	for _, alias := range f.Aliases {
		if v, ok := n.members[alias]; ok {
			return v, of, true
		}
	}
	return f.Default, nil, f.HasDefault
}

// Items implements tabular.Nested.
func (n *avroValue) Items(put func(item tabular.Cell) error) error {
	ours := n.ours.items()
	for _, item := range n.items {
		if err := put(avroCell(item, ours)); err != nil {
			return err
		}
	}
	return nil
}

// Names implements tabular.Nested. Fields of nested records are not listed.
func (n *avroValue) Names() []string { return slices.Sorted(maps.Keys(n.members)) }

// schemaNode is a node of a schema, with the named types that it may refer to.
type schemaNode struct {
	*avro.SchemaNode
	named map[string]*avro.SchemaNode
}

// nodeOf returns the root of a schema. Defaults of fields are as if they had been decoded with the options.
func nodeOf(s *avro.Schema, as []avro.SchemaOpt) (*schemaNode, error) {
	n := &schemaNode{s.Root().ExpandReferences(), map[string]*avro.SchemaNode{}}
	return n, n.collect(n.SchemaNode, as)
}

// collect adds the named types that are defined in a node, and decodes the defaults of fields.
func (n *schemaNode) collect(at *avro.SchemaNode, as []avro.SchemaOpt) (err error) {
	if at == nil {
		return nil
	}
	if at.Name != "" && len(at.Fields) > 0 {
		n.named[at.Name] = at
		if at.Namespace != "" {
			n.named[at.Namespace+"."+at.Name] = at
		}
	}
	for i := range at.Fields {
		f := &at.Fields[i]
		err = cmp.Or(err, decodeDefault(f, as), n.collect(&f.Type, as))
	}
	for i := range at.Branches {
		err = cmp.Or(err, n.collect(&at.Branches[i], as))
	}
	return cmp.Or(err, n.collect(at.Items, as), n.collect(at.Values, as))
}

// decodeDefault replaces the default of a field by what a message with it has.
func decodeDefault(f *avro.SchemaField, as []avro.SchemaOpt) error {
	if !f.HasDefault {
		return nil
	}
	schema, err := f.Type.Schema(as...)
	var content []byte
	if err == nil {
		content, err = schema.Encode(f.Default)
	}
	if f.Default = nil; err == nil {
		_, err = schema.Decode(content, &f.Default)
	}
	if err != nil {
		return fmt.Errorf("the default of %s: %w", value.Quote(f.Name), err)
	}
	return nil
}

// branches returns the types of a union, or the type itself, without references.
func (n *schemaNode) branches() (all []*schemaNode) {
	if n == nil || n.SchemaNode == nil {
		return nil
	}
	at := n.SchemaNode
	if of := n.named[at.Type]; of != nil {
		at = of
	}
	if len(at.Branches) == 0 {
		return []*schemaNode{{at, n.named}}
	}
	for i := range at.Branches {
		all = append(all, (&schemaNode{&at.Branches[i], n.named}).branches()...)
	}
	return all
}

// items returns the type of the items of a list; nil: none.
func (n *schemaNode) items() *schemaNode {
	for _, b := range n.branches() {
		if b.Items != nil {
			return &schemaNode{b.Items, n.named}
		}
	}
	return nil
}

// field returns the field of a record with a name, and its type, or the type of the values of a map; nil: none.
func (n *schemaNode) field(name string) (*avro.SchemaField, *schemaNode) {
	for _, b := range n.branches() {
		for i := range b.Fields {
			if f := &b.Fields[i]; f.Name == name {
				return f, &schemaNode{&f.Type, n.named}
			}
		}
		if b.Values != nil {
			return nil, &schemaNode{b.Values, n.named}
		}
	}
	return nil, nil
}
