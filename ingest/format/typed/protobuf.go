package typed

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/value"
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

// builtIn are files that the serializers for Confluent's registry know without a reference.
func builtIn() map[string]string {
	return map[string]string{
		"confluent/meta.proto": `syntax = "proto3"; package confluent; import "google/protobuf/descriptor.proto";
message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }`,
		"confluent/type/decimal.proto": `syntax = "proto3"; package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }`,
	}
}

// compileFile compiles a file, whose imports are in the same directory.
func compileFile(ctx context.Context, name string) (protoreflect.FileDescriptor, error) {
	folder := filepath.Dir(name)
	return compileSource(ctx, filepath.Base(name), func(path string) (found protocompile.SearchResult, err error) {
		found.Source, err = os.Open(filepath.Join(folder, filepath.FromSlash(path)))
		return found, err
	})
}

// compileText compiles a registry schema, which includes its imports.
func compileText(ctx context.Context, s *format.Schema) (protoreflect.FileDescriptor, error) {
	const own = "schema.proto"
	files := map[string]string{own: s.Text}
	for _, r := range s.References {
		if _, taken := files[r.Name]; !taken {
			files[r.Name] = r.Text
		}
	}
	return compileSource(ctx, own, func(path string) (protocompile.SearchResult, error) {
		text, ok := files[path]
		if !ok {
			return protocompile.SearchResult{}, fmt.Errorf("%s: %w", path, os.ErrNotExist)
		}
		return sourceOf(path, text), nil
	})
}

// sourceOf returns a file of a registry: its text, or its descriptor in Base64, which some serializers register.
func sourceOf(path, text string) protocompile.SearchResult {
	if content, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text)); err == nil && len(content) > 0 {
		file := &descriptorpb.FileDescriptorProto{}
		if proto.Unmarshal(content, file) == nil && file.Name != nil {
			file.Name = &path
			for _, m := range file.MessageType {
				nameJSON(m)
			}
			return protocompile.SearchResult{Proto: file}
		}
	}
	return protocompile.SearchResult{Source: strings.NewReader(text)}
}

// nameJSON sets the default JSON names of a message's fields if its descriptor lacks them, because the compiler expects
// names.
func nameJSON(m *descriptorpb.DescriptorProto) {
	for _, f := range m.Field {
		if f.GetJsonName() == "" {
			var name strings.Builder
			upper := false
			for _, c := range f.GetName() {
				if upper && c >= 'a' && c <= 'z' {
					c += 'A' - 'a'
				}
				if upper = c == '_'; !upper {
					name.WriteRune(c)
				}
			}
			f.JsonName = proto.String(name.String())
		}
	}
	for _, within := range m.NestedType {
		nameJSON(within)
	}
}

// compileSource compiles a file, with find returning its imports by path.
func compileSource(ctx context.Context, name string, find protocompile.ResolverFunc) (protoreflect.FileDescriptor, error) {
	known := builtIn()
	compiler := protocompile.Compiler{MaxParallelism: 1, Resolver: protocompile.WithStandardImports(protocompile.ResolverFunc(
		func(path string) (protocompile.SearchResult, error) {
			found, err := find(path)
			if text, ok := known[path]; err != nil && ok {
				return protocompile.SearchResult{Source: strings.NewReader(text)}, nil
			}
			return found, err
		}))}
	files, err := compiler.Compile(ctx, name)
	if err != nil {
		return nil, err
	}
	// With the compiler's descriptors, finding a field takes longer than reading its value.
	set := &descriptorpb.FileDescriptorSet{}
	addFile(set, files[0])
	all, err := protodesc.NewFiles(set)
	if err != nil {
		return nil, err
	}
	return all.FindFileByPath(name)
}

// addFile adds a file and its imports to a set.
func addFile(set *descriptorpb.FileDescriptorSet, file protoreflect.FileDescriptor) {
	if slices.ContainsFunc(set.File, func(f *descriptorpb.FileDescriptorProto) bool { return f.GetName() == file.Path() }) {
		return
	}
	set.File = append(set.File, protodesc.ToFileDescriptorProto(file))
	for i := range file.Imports().Len() {
		addFile(set, file.Imports().Get(i).FileDescriptor)
	}
}

// named returns the message type of a file by name; the name may be empty if the file has one message type.
func named(file protoreflect.FileDescriptor, name string) (protoreflect.MessageDescriptor, error) {
	all := file.Messages()
	var names []string
	for i := range all.Len() {
		names = append(names, string(all.Get(i).FullName()))
	}
	switch {
	case len(names) == 0:
		return nil, errors.New("examples.schema: the file has no message")
	case name == "" && len(names) == 1:
		return all.Get(0), nil
	case name == "":
		return nil, fmt.Errorf("examples.message: not set, and the file has %s: expected one of them", layout.SomeNames(names))
	}
	within := strings.TrimPrefix(name, string(file.Package())+".")
	var found protoreflect.MessageDescriptor
	for i, part := range strings.Split(within, ".") {
		if i > 0 {
			all = found.Messages()
		}
		if found = all.ByName(protoreflect.Name(part)); found == nil {
			slices.Sort(names)
			return nil, fmt.Errorf("examples.message: no message %s: expected one of %s", value.Quote(name), layout.SomeNames(names))
		}
	}
	return found, nil
}

// indexed returns a message type by index path: in the file, then in the nested types.
func indexed(file protoreflect.FileDescriptor, indexes []int) (found protoreflect.MessageDescriptor, err error) {
	all := file.Messages()
	for _, i := range indexes {
		if i < 0 || i >= all.Len() {
			return nil, fmt.Errorf("the schema has no message at index %v, which the value refers to", indexes)
		}
		found = all.Get(i)
		all = found.Messages()
	}
	if found == nil {
		return nil, errors.New("the value does not identify its message in the schema")
	}
	return found, nil
}

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
