package typed

import (
	"strconv"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/stagewise/stagewise/ingest/format/tabular"
)

// protobufValue is a message, a list or a map.
type protobufValue struct {
	value protoreflect.Value
	field protoreflect.FieldDescriptor // nil: the whole message
}

// fieldOf returns the field with a name, or with a name in JSON; nil: none.
func fieldOf(of protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	if f := of.Fields().ByName(protoreflect.Name(name)); f != nil {
		return f
	}
	return of.Fields().ByJSONName(name)
}

// Parts implements tabular.Nested.
func (n *protobufValue) Parts(at *tabular.Step, put func(at *tabular.Step, part tabular.Cell) error) (err error) {
	entries, isMap := n.value.Interface().(protoreflect.Map)
	if !isMap {
		return tabular.Parts(at, n.at, put)
	}
	entries.Range(func(key protoreflect.MapKey, v protoreflect.Value) bool {
		if next := at.Named([]byte(key.String())); next != nil {
			err = put(next, protobufCell(v, n.field.MapValue()))
		}
		return err == nil
	})
	return err
}

// at returns a field of a message, or an item of a list.
func (n *protobufValue) at(next *tabular.Step) (part tabular.Cell, ok bool) {
	switch v := n.value.Interface().(type) {
	case protoreflect.Message:
		f := fieldOf(v.Descriptor(), next.Name)
		if f == nil {
			return part, false
		}
		if !v.Has(f) && f.HasPresence() && !f.HasDefault() {
			return part, true
		}
		return protobufCell(v.Get(f), f), true
	case protoreflect.List:
		if next.Index >= 0 && next.Index < v.Len() {
			return protobufCell(v.Get(next.Index), n.field), true
		}
	}
	return part, false
}

// Items implements tabular.Nested.
func (n *protobufValue) Items(put func(item tabular.Cell) error) error {
	list := n.value.List()
	for i := range list.Len() {
		if err := put(protobufCell(list.Get(i), n.field)); err != nil {
			return err
		}
	}
	return nil
}

// Names implements tabular.Nested. Fields of nested messages are not listed.
func (n *protobufValue) Names() (names []string) {
	if m, is := n.value.Interface().(protoreflect.Message); is {
		for i := range m.Descriptor().Fields().Len() {
			names = append(names, string(m.Descriptor().Fields().Get(i).Name()))
		}
	}
	return names
}

// protobufCell returns the value of a field, an item of a list, or a value of a map. Times are in seconds.
func protobufCell(of protoreflect.Value, field protoreflect.FieldDescriptor) tabular.Cell {
	switch v := of.Interface().(type) {
	case nil:
		return tabular.Cell{}
	case protoreflect.List:
		return tabular.ListOf(&protobufValue{of, field})
	case protoreflect.Map:
		return tabular.ObjectOf(&protobufValue{of, field})
	case protoreflect.Message:
		return wellKnown(v).With(&protobufValue{of, field})
	case bool:
		return tabular.Truth(v)
	case protoreflect.EnumNumber:
		if symbol := field.Enum().Values().ByNumber(v); symbol != nil {
			return tabular.Word(string(symbol.Name()))
		}
		return tabular.Word(strconv.Itoa(int(v))) // added in a later schema
	case float32, float64:
		return tabular.Float(of.Float())
	case string:
		return tabular.Word(v)
	case []byte:
		return tabular.Word(string(v))
	case uint32, uint64:
		return tabular.Unsigned(of.Uint())
	case int32, int64:
		return tabular.Integer(of.Int())
	}
	return tabular.ObjectOf(nil)
}

// wellKnown returns a message of a well-known type as one value. A schema may have other messages with these names.
func wellKnown(m protoreflect.Message) tabular.Cell {
	fields := m.Descriptor().Fields()
	has := func(name protoreflect.Name, kind protoreflect.Kind) bool {
		f := fields.ByName(name)
		return f != nil && f.Cardinality() != protoreflect.Repeated && f.Kind() == kind
	}
	get := func(name protoreflect.Name) protoreflect.Value { return m.Get(fields.ByName(name)) }
	isTime := has("seconds", protoreflect.Int64Kind) && has("nanos", protoreflect.Int32Kind)
	seconds := func() float64 { return float64(get("seconds").Int()) + float64(get("nanos").Int())/1e9 }
	switch m.Descriptor().FullName() {
	case "google.protobuf.Timestamp":
		if isTime {
			return tabular.Instant(seconds())
		}
	case "google.protobuf.Duration":
		if isTime {
			return tabular.Float(seconds())
		}
	case "google.protobuf.DoubleValue", "google.protobuf.FloatValue", "google.protobuf.Int64Value", "google.protobuf.UInt64Value",
		"google.protobuf.Int32Value", "google.protobuf.UInt32Value", "google.protobuf.BoolValue", "google.protobuf.StringValue",
		"google.protobuf.BytesValue":
		if f := fields.ByName("value"); f != nil && f.Cardinality() != protoreflect.Repeated && f.Message() == nil && f.Enum() == nil {
			return protobufCell(get("value"), nil)
		}
	case "confluent.type.Decimal":
		if has("value", protoreflect.BytesKind) && has("scale", protoreflect.Int32Kind) {
			return tabular.Decimal(get("value").Bytes(), int(get("scale").Int()))
		}
	}
	return tabular.ObjectOf(nil)
}
