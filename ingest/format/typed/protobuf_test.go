package typed

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/arrowtest"
)

const events = `syntax = "proto3"; package shop;
import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto"; import "google/protobuf/wrappers.proto";
import "confluent/type/decimal.proto";
enum Kind { UNKNOWN = 0; TALL = 1; WIDE = 2; }
message Other { int32 x = 1; }
message Event {
	message Item { double price = 1; Event again = 2; string label = 3; }
	string label = 1; Kind kind = 2; int32 i = 3; sint64 s = 4; fixed64 f = 5; uint64 u = 6; float small = 7; bool yes = 8; bytes raw = 9;
	optional int32 maybe = 10; google.protobuf.Timestamp at = 11; google.protobuf.Duration took = 12; google.protobuf.DoubleValue wrapped = 13;
	repeated Item items = 14; map<string, int64> counts = 15; map<int32, Item> byId = 16; repeated string tags = 17;
	oneof which { string left = 18; Item right = 19; } confluent.type.Decimal price = 20; repeated sint32 packed = 21; int32 user_id = 22;
}`

// protobufReader returns a reader of columns, the first of which is the label, with a schema file.
func protobufReader(t *testing.T, schema, name, rows string, columns ...string) (*format.RowReader, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "events.proto")
	arrowtest.NoError(t, os.WriteFile(file, []byte(schema), 0o600))
	o := format.Options{Options: layout.Defaults(), Settings: format.Settings{Rows: rows, Schema: file, Message: name}}
	o.Label, o.Columns.Use = layout.Column(columns[0]), columns[1:]
	return Protobuf().NewReader(o)
}

// encoded is a message of the schema, given as JSON.
func encoded(t *testing.T, schema, name, text string) []byte {
	t.Helper()
	file := arrowtest.Must(compileText(t.Context(), &format.Schema{Text: schema}))(t)
	of := arrowtest.Must(named(file, name))(t)
	m := dynamicpb.NewMessage(of)
	arrowtest.NoError(t, protojson.Unmarshal([]byte(text), m))
	content := arrowtest.Must(proto.Marshal(m))(t)
	return content
}

// Every kind of field can be a cell. An unset field with presence is null.
func TestProtobuf(t *testing.T) {
	r, err := protobufReader(t, events, "shop.Event", "", "kind", "i", "s", "f", "u", "small", "yes", "raw", "maybe", "at", "took", "wrapped", "items.1.price",
		"items.0.again.user_id", "counts.b", "byId.7.price", "tags", "left", "right.price", "price", "packed", "userId", "items", "right", "nowhere.at.all")
	arrowtest.NoError(t, err)
	for text, want := range map[string]string{
		`{}`: `[["UNKNOWN" 0 0 0 0 0 false "" null null null null null null null null [] null null null [] 0 [] null null]]`,
		`{"kind":"WIDE","i":-1,"s":"-2","f":"3","u":"18446744073709551615","small":0.5,"yes":true,"raw":"YWI=","maybe":0,
		"at":"1970-01-01T00:00:01.500Z","took":"-1.5s","wrapped":0,"items":[{"again":{"userId":4}},{"price":2.5}],"counts":{"a":"1","b":"2"},
		"byId":{"7":{"price":7}},"tags":["x","y"],"right":{"price":3},"price":{"value":"//8=","scale":2},"packed":[1,-1],"userId":9}`: `[["WIDE" -1 -2 3 18446744073709551615 0.5 true "ab" 0 1.5 -1.5 0 2.5 4 2 7 ["x" "y"] null 3 -0.01 [1 -1] 9 [an object an object] an object null]]`,
	} {
		rows, err := r.Read(t.Context(), format.Payload{Value: encoded(t, events, "shop.Event", text)})
		if got := fmt.Sprint(texts(rows)); err != nil || got != want {
			t.Errorf("%s: %v\n%s, expected\n%s", text, err, got, want)
		}
	}
}

// Rows at a path include the values beside them, unless their schema has the column.
func TestProtobufRowsWithin(t *testing.T) {
	r := arrowtest.Must(protobufReader(t, events, "Event", "items", "label", "price", "kind"))(t)
	for text, want := range map[string]string{
		`{"label":"no","kind":"TALL","items":[{"price":1,"label":"a"},{"price":2}]}`: `[["a" 1 "TALL"] ["" 2 "TALL"]]`,
		`{"kind":"TALL"}`: `[]`,
	} {
		rows, err := r.Read(t.Context(), format.Payload{Value: encoded(t, events, "Event", text)})
		if got := fmt.Sprint(texts(rows)); err != nil || got != want {
			t.Errorf("%s: %v, %s, expected %s", text, err, got, want)
		}
	}
}

// The error of an unusable schema includes the key and the position.
func TestProtobufSchemasThatCantBeUsed(t *testing.T) {
	for _, test := range []struct{ schema, name, rows, want string }{
		{"syntax = \"proto3\";\nmessage E { int x = 1; }", "", "", `examples.schema: events.proto:2:13: field E.x: unknown type int`},
		{"message {", "", "", "examples.schema: events.proto:1:9: syntax error: unexpected '{'"},
		{`syntax = "proto3"; import "gone.proto"; message E {}`, "", "", "examples.schema: events.proto:1:27: open "},
		{events, "", "", `examples.message: not set, and the file has "shop.Other" and "shop.Event": expected one of them`},
		{events, "shop.Events", "", `examples.message: no message "shop.Events": expected one of "shop.Event" and "shop.Other"`},
		{events, "shop.Event.Item", "items", `no rows at "items" (examples.rows): the message has "price", "again" and "label"`},
		{events, "shop.Other", "", `no column "label": the message has "x": examples.label names the label column`},
		{`syntax = "proto3";`, "", "", "examples.schema: the file has no message"},
	} {
		if _, err := protobufReader(t, test.schema, test.name, test.rows, "label", "x"); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, expected %s", err, test.want)
		}
	}
}

// A registry schema has its references, and the value identifies its message type.
func TestProtobufReferences(t *testing.T) {
	s := &format.Schema{Name: "schema 1", Text: `syntax = "proto3"; import "common/place.proto"; import "confluent/meta.proto";
		message First { int32 x = 1; } message Second { message Third { string label = 1; common.Place at = 2; } }`,
		References: []format.Reference{
			{Name: "common/point.proto", Text: `syntax = "proto3"; package common; message Point { int32 x = 1; }`},
			{Name: "common/place.proto", Text: `syntax = "proto3"; package common; import "common/point.proto"; message Place { Point point = 1; }`}}}
	o := format.Options{Options: layout.Defaults()}
	o.Columns.Use = []string{"at.point.x"}
	opened := arrowtest.Must(Protobuf().NewReader(o))(t)
	value := []byte{10, 1, 'b', 18, 4, 10, 2, 8, 7}
	for _, test := range []struct {
		indexes []int
		want    string
	}{
		{[]int{1, 0}, `[["b" 7]] <nil>`},
		{[]int{0}, `[[null null]] no column "label": the message has "x": examples.label names the label column`},
		{[]int{1, 3}, `[] schema 1: the schema has no message at index [1 3], which the value refers to`},
	} {
		for range 2 {
			rows, err := opened.Read(t.Context(), format.Payload{Value: value, Schema: s, Indexes: test.indexes})
			if got := fmt.Sprint(texts(rows), err); got != test.want {
				t.Errorf("%v: %s, expected %s", test.indexes, got, test.want)
			}
		}
	}
}

// A registry may have the Base64 descriptor of a file, as registered by the Python serializers, including references.
func TestDescriptors(t *testing.T) {
	descriptor := func(name, text string, imports ...format.Reference) string {
		file := arrowtest.Must(compileText(t.Context(), &format.Schema{Text: text, References: imports}))(t)
		described := protodesc.ToFileDescriptorProto(file)
		described.Name = &name
		for _, m := range described.MessageType {
			for _, f := range m.Field {
				f.JsonName = nil // as in protoc's output for Python
			}
		}
		content := arrowtest.Must(proto.Marshal(described))(t)
		return base64.StdEncoding.EncodeToString(content)
	}
	const size = `syntax = "proto3"; package shop; message Size { optional int32 x = 1; int32 how_many = 2; }`
	const order = `syntax = "proto3"; package shop; import "size.proto"; import "google/protobuf/timestamp.proto";
		message Order { string label = 1; Size size = 2; google.protobuf.Timestamp at = 3; }`
	text := format.Reference{Name: "size.proto", Text: size}
	for _, reference := range []format.Reference{text, {Name: "size.proto", Text: descriptor("size.proto", size)}} {
		o := format.Options{Options: layout.Defaults()}
		o.Columns.Use = []string{"size.x", "at", "size.howMany"}
		r := arrowtest.Must(Protobuf().NewReader(o))(t)
		s := &format.Schema{Name: "schema 1", Text: descriptor("order.proto", order, text), References: []format.Reference{reference}}
		rows, err := r.Read(t.Context(), format.Payload{Value: []byte{10, 1, 'a', 18, 2, 8, 7, 26, 2, 8, 9}, Schema: s, Indexes: []int{0}})
		if got := fmt.Sprint(texts(rows)); err != nil || got != `[["a" 7 9 0]]` {
			t.Errorf("%s, %v", got, err)
		}
	}
}

// Any input gives rows or an error.
func FuzzProtobuf(f *testing.F) {
	f.Add([]byte{10, 1, 'b', 16, 2})
	f.Add([]byte{114, 9, 9, 0, 0, 0, 0, 0, 0, 4, 64, 122, 5, 10, 1, 'b', 16, 2})
	f.Add([]byte{162, 1, 8, 10, 2, 255, 255, 24, 128, 128, 64})
	f.Add([]byte{0, 0, 0, 0, 7, 10, 1, 'b'})
	f.Add([]byte("z\x05\n\x010\b0")) // a map entry with two keys, the second of another wire type
	var readers []*format.RowReader
	for _, rows := range []string{"", "items"} {
		o := format.Options{Options: layout.Defaults(), Settings: format.Settings{Rows: rows}}
		o.Columns.Use = []string{"price", "items.0.again.counts.b", "byId.7.price", "tags", "right", "at"}
		r := arrowtest.Must(Protobuf().NewReader(o))(f)
		readers = append(readers, r)
	}
	s := &format.Schema{Name: "schema 1", Text: events}
	f.Fuzz(func(t *testing.T, value []byte) {
		for _, r := range readers {
			rows, err := r.Read(t.Context(), format.Payload{Value: value, Schema: s, Indexes: []int{1}})
			if err == nil && len(rows) > 100_000 {
				t.Errorf("%d rows of %d bytes", len(rows), len(value))
			}
		}
	})
}
