package protobuf

import (
	"strconv"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/stagewise/stagewise/ingest/format/tabular"
)

// cellOf returns a function that reads a field as one cell. An unset field with presence is null, unless its schema has a
// default.
func cellOf(f protoreflect.FieldDescriptor) func(m protoreflect.Message) tabular.Cell {
	switch {
	case f.IsMap():
		return func(protoreflect.Message) tabular.Cell { return tabular.Object() }
	case f.IsList():
		leaf := leafOf(f)
		return func(m protoreflect.Message) tabular.Cell {
			list := m.Get(f).List()
			items := make([]tabular.Cell, list.Len())
			for i := range items {
				items[i] = leaf(list.Get(i))
			}
			return tabular.Items(items)
		}
	}
	leaf := leafOf(f)
	if f.HasPresence() && !f.HasDefault() {
		return func(m protoreflect.Message) tabular.Cell {
			if !m.Has(f) {
				return tabular.Cell{}
			}
			return leaf(m.Get(f))
		}
	}
	return func(m protoreflect.Message) tabular.Cell { return leaf(m.Get(f)) }
}

// leafOf returns a function that reads a value of a field, or an item of a list.
func leafOf(f protoreflect.FieldDescriptor) func(v protoreflect.Value) tabular.Cell {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return func(v protoreflect.Value) tabular.Cell { return tabular.Truth(v.Bool()) }
	case protoreflect.EnumKind:
		values := f.Enum().Values()
		return func(v protoreflect.Value) tabular.Cell {
			if symbol := values.ByNumber(v.Enum()); symbol != nil {
				return tabular.Word(string(symbol.Name()))
			}
			return tabular.Word(strconv.Itoa(int(v.Enum()))) // added in a later schema
		}
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return func(v protoreflect.Value) tabular.Cell { return tabular.Float(v.Float()) }
	case protoreflect.StringKind:
		return func(v protoreflect.Value) tabular.Cell { return tabular.Word(v.String()) }
	case protoreflect.BytesKind:
		return func(v protoreflect.Value) tabular.Cell { return tabular.Word(string(v.Bytes())) }
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return func(v protoreflect.Value) tabular.Cell { return tabular.Unsigned(v.Uint()) }
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return wellKnown(f.Message())
	}
	return func(v protoreflect.Value) tabular.Cell { return tabular.Integer(v.Int()) }
}

// wellKnown returns a function that reads a well-known type as one value: times are in seconds.
func wellKnown(of protoreflect.MessageDescriptor) func(v protoreflect.Value) tabular.Cell {
	field := of.Fields().ByName
	switch of.FullName() {
	case "google.protobuf.Timestamp", "google.protobuf.Duration":
		seconds, nanos := field("seconds"), field("nanos")
		cell := tabular.Instant
		if of.FullName() == "google.protobuf.Duration" {
			cell = tabular.Float
		}
		return func(v protoreflect.Value) tabular.Cell {
			return cell(float64(v.Message().Get(seconds).Int()) + float64(v.Message().Get(nanos).Int())/1e9)
		}
	case "google.protobuf.DoubleValue", "google.protobuf.FloatValue", "google.protobuf.Int64Value", "google.protobuf.UInt64Value",
		"google.protobuf.Int32Value", "google.protobuf.UInt32Value", "google.protobuf.BoolValue", "google.protobuf.StringValue",
		"google.protobuf.BytesValue":
		wrapped := field("value")
		leaf := leafOf(wrapped)
		return func(v protoreflect.Value) tabular.Cell { return leaf(v.Message().Get(wrapped)) }
	case "confluent.type.Decimal":
		digits, scale := field("value"), field("scale")
		return func(v protoreflect.Value) tabular.Cell {
			return tabular.Decimal(v.Message().Get(digits).Bytes(), int(v.Message().Get(scale).Int()))
		}
	}
	return func(protoreflect.Value) tabular.Cell { return tabular.Object() }
}
