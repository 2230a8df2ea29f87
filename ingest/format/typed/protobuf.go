package typed

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/format/tabular"
)

// Protobuf is Protobuf's binary encoding (https://protobuf.dev/programming-guides/encoding/) in messages, with a schema
// from a registry or a file.
func Protobuf() format.Format {
	return format.Format{
		Name:    "protobuf",
		Meaning: "a message in Protobuf's binary encoding, with the schema of `registry` or of the file `schema`",
		Label:   format.Label,
		Schema:  format.SchemaKind{Type: "PROTOBUF", Ending: ".proto", Named: true},
		Decoder: func(o format.Options) (d format.Decoder, err error) {
			r := &protobufMessages{types: map[*format.Schema][]*messageType{}}
			if d.Decode = r.decode; o.Schema == "" {
				return d, nil
			}
			file, err := compileFile(context.Background(), o.Schema)
			if err != nil {
				return d, fmt.Errorf("examples.schema: %w", err)
			}
			of, err := named(file, o.Message)
			if err != nil {
				return d, err
			}
			r.types[nil] = []*messageType{typeOf(o.Schema, of)}
			d.Blank = tabular.ObjectOf(&protobufValue{value: protoreflect.ValueOfMessage(dynamicpb.NewMessage(of))})
			return d, nil
		},
	}
}

// protobufMessages decodes messages.
type protobufMessages struct {
	types map[*format.Schema][]*messageType // of a schema, as encountered
}

// messageType is a message type of a schema, or the reason why it can't be used.
type messageType struct {
	schema  string             // the name of the schema
	indexes []int              // of the type in the schema
	read    *dynamicpb.Message // message that the next value reuses, since its large field map is expensive to create
	err     error
}

func typeOf(schema string, of protoreflect.MessageDescriptor) *messageType {
	return &messageType{schema: schema, read: dynamicpb.NewMessage(of)}
}

// messageTypeOf returns the message type of a value.
func (r *protobufMessages) messageTypeOf(ctx context.Context, m format.Payload) *messageType {
	of := r.types[m.Schema]
	for _, t := range of {
		if m.Schema == nil || slices.Equal(t.indexes, m.Indexes) {
			return t
		}
	}
	t := &messageType{}
	file, err := compileText(ctx, m.Schema)
	if err == nil {
		var found protoreflect.MessageDescriptor
		if found, err = indexed(file, m.Indexes); err == nil {
			t = typeOf(m.Schema.Name, found)
		}
	}
	if err != nil {
		t.err = fmt.Errorf("%s: %w", m.Schema.Name, err)
	}
	t.indexes = slices.Clone(m.Indexes)
	if ctx.Err() == nil && len(of) < maxTypes {
		r.types[m.Schema] = append(of, t)
	}
	return t
}

// maxTypes limits the message types of a schema that are cached, because untrusted messages may name any.
const maxTypes = 1000

// decode decodes a message.
func (r *protobufMessages) decode(ctx context.Context, m format.Payload) (v tabular.Cell, err error) {
	t := r.messageTypeOf(ctx, m)
	if t.err != nil {
		return v, t.err
	}
	read := t.read
	read.Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		read.Clear(f)
		return true
	})
	if err := unmarshal(m.Value, read); err != nil {
		t.read = dynamicpb.NewMessage(read.Descriptor()) // its state after an error is undefined
		return v, fmt.Errorf("%s: is it written with %s?", strings.ReplaceAll(err.Error(), "\u00a0", " "), t.schema)
	}
	return tabular.ObjectOf(&protobufValue{value: protoreflect.ValueOfMessage(read)}), nil
}

// unmarshal decodes a message. The library panics on some inputs, such as a map entry with a second key of another wire
// type.
func unmarshal(value []byte, into proto.Message) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("proto: cannot parse invalid wire-format data: %v", cause)
		}
	}()
	// An unset required field is a missing value; checking for these takes a third of the time.
	return proto.UnmarshalOptions{Merge: true, AllowPartial: true, DiscardUnknown: true}.Unmarshal(value, into)
}
