package protobuf

import (
	"strconv"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/message"
)

// nested is the value of a field, an item of a list, a value of a map, or a message.
type nested struct {
	value protoreflect.Value
	field *field // nil: the whole message
	kind  message.Kind
	of    *fields // of a message
}

// fields are the fields of a message type as they are used, because what a descriptor says of a field takes longer than to
// read its value.
type fields struct {
	of     protoreflect.MessageDescriptor
	byName map[string]*field
}

// field is a field of a message type, or the value of a map.
type field struct {
	protoreflect.FieldDescriptor
	kind     protoreflect.Kind
	part     message.Kind // of an item of a list, or of another value
	list     bool
	entry    *field  // the value of a map; nil: another field
	nullable bool    // unset, it is null
	within   *fields // of a message
}

func fieldsOf(of protoreflect.MessageDescriptor) *fields {
	return &fields{of: of, byName: map[string]*field{}}
}

// named returns the field with a name, or with a name in JSON; nil: none.
func (f *fields) named(name string) *field {
	found, known := f.byName[name]
	if !known {
		d := f.of.Fields().ByName(protoreflect.Name(name))
		if d == nil {
			d = f.of.Fields().ByJSONName(name)
		}
		if d != nil {
			found = newField(d)
		}
		f.byName[name] = found
	}
	return found
}

func newField(d protoreflect.FieldDescriptor) *field {
	f := &field{FieldDescriptor: d, kind: d.Kind(), list: d.IsList(), nullable: d.HasPresence() && !d.HasDefault()}
	switch {
	case d.IsMap():
		f.entry = newField(d.MapValue())
	case d.Message() != nil:
		f.part, f.within = message.Object, fieldsOf(d.Message())
	}
	return f
}

// value returns an item of a list, or the value of a field that is neither a list nor a map.
func (f *field) value(v protoreflect.Value) nested {
	return nested{value: v, field: f, kind: f.part, of: f.within}
}

// in returns the value of a field in a message.
func (f *field) in(m protoreflect.Message) nested {
	switch {
	case f.entry != nil:
		return nested{value: m.Get(f.FieldDescriptor), field: f, kind: message.Object}
	case f.list:
		return nested{value: m.Get(f.FieldDescriptor), field: f, kind: message.List}
	case f.nullable && !m.Has(f.FieldDescriptor):
		return nested{field: f, kind: message.Null}
	}
	return f.value(m.Get(f.FieldDescriptor))
}

// Kind implements message.Nested.
func (n nested) Kind() message.Kind { return n.kind }

// Parts implements message.Nested.
func (n nested) Parts(at *message.Step, put func(at *message.Step, part nested) error) error {
	for _, next := range at.Below {
		if part, ok := n.at(next); ok {
			if err := put(next, part); err != nil {
				return err
			}
		}
	}
	return nil
}

// at returns a part.
func (n nested) at(next *message.Step) (part nested, ok bool) {
	switch {
	case n.of != nil:
		f := n.of.named(next.Name)
		if f == nil {
			return part, false
		}
		return f.in(n.value.Message()), true
	case n.kind == message.List:
		if list := n.value.List(); next.Index >= 0 && next.Index < list.Len() {
			return n.field.value(list.Get(next.Index)), true
		}
	case n.kind == message.Object:
		if key, ok := keyOf(n.field.MapKey(), next.Name); ok && n.value.Map().Has(key) {
			return n.field.entry.value(n.value.Map().Get(key)), true
		}
	}
	return part, false
}

// keyOf parses a map key.
func keyOf(f protoreflect.FieldDescriptor, name string) (key protoreflect.MapKey, ok bool) {
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(name).MapKey(), true
	case protoreflect.BoolKind:
		v, err := strconv.ParseBool(name)
		return protoreflect.ValueOfBool(v).MapKey(), err == nil
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		v, err := strconv.ParseInt(name, 10, 32)
		return protoreflect.ValueOfInt32(int32(v)).MapKey(), err == nil
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		v, err := strconv.ParseInt(name, 10, 64)
		return protoreflect.ValueOfInt64(v).MapKey(), err == nil
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		v, err := strconv.ParseUint(name, 10, 32)
		return protoreflect.ValueOfUint32(uint32(v)).MapKey(), err == nil
	}
	v, err := strconv.ParseUint(name, 10, 64)
	return protoreflect.ValueOfUint64(v).MapKey(), err == nil
}

// Items implements message.Nested.
func (n nested) Items(put func(item nested) error) error {
	list := n.value.List()
	for i := range list.Len() {
		if err := put(n.field.value(list.Get(i))); err != nil {
			return err
		}
	}
	return nil
}

// Cell implements message.Nested. Times are in seconds.
func (n nested) Cell() tabular.Cell {
	switch {
	case n.kind == message.Null:
		return tabular.Cell{}
	case n.kind == message.List:
		items := []tabular.Cell{}
		_ = n.Items(func(item nested) error {
			items = append(items, item.Cell())
			return nil
		})
		return tabular.Items(items)
	case n.of != nil:
		return wellKnown(n.value.Message())
	case n.kind == message.Object:
		return tabular.Object()
	}
	v := n.value
	switch n.field.kind {
	case protoreflect.BoolKind:
		return tabular.Truth(v.Bool())
	case protoreflect.EnumKind:
		if symbol := n.field.Enum().Values().ByNumber(v.Enum()); symbol != nil {
			return tabular.Word(string(symbol.Name()))
		}
		return tabular.Word(strconv.Itoa(int(v.Enum()))) // added in a later schema
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return tabular.Float(v.Float())
	case protoreflect.StringKind:
		return tabular.Word(v.String())
	case protoreflect.BytesKind:
		return tabular.Word(string(v.Bytes()))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return tabular.Unsigned(v.Uint())
	}
	return tabular.Integer(v.Int())
}

// wellKnown returns a message of a well-known type as one value.
func wellKnown(m protoreflect.Message) tabular.Cell {
	get := func(name protoreflect.Name) protoreflect.Value { return m.Get(m.Descriptor().Fields().ByName(name)) }
	seconds := func() float64 { return float64(get("seconds").Int()) + float64(get("nanos").Int())/1e9 }
	switch m.Descriptor().FullName() {
	case "google.protobuf.Timestamp":
		return tabular.Instant(seconds())
	case "google.protobuf.Duration":
		return tabular.Float(seconds())
	case "google.protobuf.DoubleValue", "google.protobuf.FloatValue", "google.protobuf.Int64Value", "google.protobuf.UInt64Value",
		"google.protobuf.Int32Value", "google.protobuf.UInt32Value", "google.protobuf.BoolValue", "google.protobuf.StringValue",
		"google.protobuf.BytesValue":
		return newField(m.Descriptor().Fields().ByName("value")).value(get("value")).Cell()
	case "confluent.type.Decimal":
		return tabular.Decimal(get("value").Bytes(), int(get("scale").Int()))
	}
	return tabular.Object()
}
