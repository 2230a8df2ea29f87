package typed

import (
	"math/big"

	"github.com/twmb/avro"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/message"
)

// AvroValue is a value as the library decodes it to an interface.
type AvroValue struct {
	Value any
	ours  *schemaNode // in the reader schema; nil: it has none
}

// Message returns a row as the decoded value of a message.
func (n AvroValue) Message() message.Row { return message.Row{Format: binary, Of: n.Value} }

// Kind implements message.Nested.
func (n AvroValue) Kind() message.Kind {
	switch n.Value.(type) {
	case nil:
		return message.Null
	case map[string]any:
		return message.Object
	case []any:
		return message.List
	}
	return message.Scalar
}

// Parts implements message.Nested. A field that a record lacks has its alias or its default in the reader schema.
func (n AvroValue) Parts(at *message.Step, put func(at *message.Step, part AvroValue) error) error {
	items, _ := n.Value.([]any)
	members, _ := n.Value.(map[string]any)
	return message.Parts(at, func(next *message.Step) (AvroValue, bool) {
		if next.Index >= 0 && next.Index < len(items) {
			return AvroValue{items[next.Index], n.ours.items()}, true
		}
		return n.resolve(members, next.Name)
	}, put)
}

// resolve returns a field of a record, or an entry of a map, by its name in the reader schema.
func (n AvroValue) resolve(members map[string]any, name string) (part AvroValue, ok bool) {
	if n.ours == nil || members == nil {
		part.Value, ok = members[name]
		return part, ok
	}
	f, of := n.ours.field(name)
	if v, ok := members[name]; ok || f == nil {
		return AvroValue{v, of}, ok
	}
	for _, alias := range f.Aliases {
		if v, ok := members[alias]; ok {
			return AvroValue{v, of}, true
		}
	}
	return AvroValue{f.Default, nil}, f.HasDefault
}

// Items implements message.Nested.
func (n AvroValue) Items(put func(item AvroValue) error) error {
	for _, item := range n.Value.([]any) {
		if err := put(AvroValue{item, n.ours.items()}); err != nil {
			return err
		}
	}
	return nil
}

// Cell implements message.Nested.
func (n AvroValue) Cell() tabular.Cell {
	switch v := n.Value.(type) {
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
		items := make([]tabular.Cell, len(v))
		for i, item := range v {
			items[i] = AvroValue{Value: item}.Cell()
		}
		return tabular.Items(items)
	}
	return tabular.Object()
}

// schemaNode is a node of a schema, with the named types that it may refer to.
type schemaNode struct {
	*avro.SchemaNode
	named map[string]*avro.SchemaNode
}

// nodeOf returns the root of a schema.
func nodeOf(s *avro.Schema) *schemaNode {
	n := &schemaNode{s.Root().ExpandReferences(), map[string]*avro.SchemaNode{}}
	n.collect(n.SchemaNode)
	return n
}

// collect adds the named types that are defined in a node.
func (n *schemaNode) collect(at *avro.SchemaNode) {
	if at == nil {
		return
	}
	if at.Name != "" && len(at.Fields) > 0 {
		n.named[at.Name] = at
		if at.Namespace != "" {
			n.named[at.Namespace+"."+at.Name] = at
		}
	}
	for i := range at.Fields {
		n.collect(&at.Fields[i].Type)
	}
	for i := range at.Branches {
		n.collect(&at.Branches[i])
	}
	n.collect(at.Items)
	n.collect(at.Values)
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
