package typed

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/value"
)

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
