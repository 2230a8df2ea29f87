package typed

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/message"
)

// Protobuf is Protobuf's binary encoding (https://protobuf.dev/programming-guides/encoding/) in messages, with a schema
// from a registry or a file.
func Protobuf() message.Format {
	return message.Format{
		Name:    "protobuf",
		Meaning: "a message in Protobuf's binary encoding, with the schema of `registry` or of the file `schema`",
		Label:   message.Label,
		Schema:  message.SchemaKind{Type: "PROTOBUF", Ending: ".proto", Named: true},
		Open: func(o message.Options) (message.Reader, error) {
			r := &protobufMessages{types: map[*message.Schema][]*messageType{}}
			r.rows = message.NewRows[protobufValue](o, r.Names)
			if o.Schema == "" {
				return r, nil
			}
			file, err := compileFile(context.Background(), o.Schema)
			if err != nil {
				return nil, fmt.Errorf("examples.schema: %w", err)
			}
			of, err := named(file, o.Message)
			if err != nil {
				return nil, err
			}
			r.last = typeOf(o.Schema, of)
			r.types[nil] = []*messageType{r.last}
			return r, r.rows.Check(func(name string) bool { return fieldOf(of, name) != nil })
		},
	}
}

// protobufMessages decodes messages.
type protobufMessages struct {
	rows  *message.Rows[protobufValue]
	types map[*message.Schema][]*messageType // of a schema, as encountered
	last  *messageType                       // of the last value; nil: none was read
}

// Names implements message.Reader. Fields of nested messages are not listed.
func (r *protobufMessages) Names() (names []string) {
	if r.last == nil {
		return nil
	}
	of := r.last.read.Descriptor().Fields()
	for i := range of.Len() {
		names = append(names, string(of.Get(i).Name()))
	}
	return names
}

// messageType is a message type of a schema, or the reason why it can't be used.
type messageType struct {
	schema  string             // the name of the schema
	indexes []int              // of the type in the schema
	read    *dynamicpb.Message // reusable message, empty between values, since its large field map is expensive to create
	err     error
}

func typeOf(schema string, of protoreflect.MessageDescriptor) *messageType {
	return &messageType{schema: schema, read: dynamicpb.NewMessage(of)}
}

// messageTypeOf returns the message type of a value.
func (r *protobufMessages) messageTypeOf(ctx context.Context, m message.Payload) *messageType {
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

// Read implements message.Reader.
func (r *protobufMessages) Read(ctx context.Context, m message.Payload) ([][]tabular.Cell, error) {
	t := r.messageTypeOf(ctx, m)
	if t.err != nil {
		return nil, t.err
	}
	r.last = t
	read := t.read
	defer read.Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		read.Clear(f)
		return true
	})
	if err := unmarshal(m.Value, read); err != nil {
		t.read = dynamicpb.NewMessage(read.Descriptor()) // its state after an error is undefined
		return nil, fmt.Errorf("%s: is it written with %s?", strings.ReplaceAll(err.Error(), "\u00a0", " "), t.schema)
	}
	return r.rows.Read(protobufValue{value: protoreflect.ValueOfMessage(read)})
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
