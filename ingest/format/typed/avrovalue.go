package typed

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"slices"

	"github.com/twmb/avro"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/schemas/value"
)

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
