package typed

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/assert"
)

// avroReader returns a reader of columns, the first of which is the label.
func avroReader(t *testing.T, rows string, columns ...string) *format.RowReader {
	t.Helper()
	o := format.Options{Options: layout.Defaults(), Settings: format.Settings{Rows: rows}}
	o.Label, o.Columns.Use = layout.Column(columns[0]), columns[1:]
	return assert.Must(Avro().NewReader(o))(t)
}

// texts formats the cells of rows: lists with their items.
func texts(rows [][]tabular.Cell) (all [][]string) {
	for _, row := range rows {
		var line []string
		for i := range row {
			line = append(line, textOf(&row[i]))
		}
		all = append(all, line)
	}
	return all
}

func textOf(c *tabular.Cell) string {
	if c.IsList() {
		items := []string{}
		for _, item := range c.List() {
			items = append(items, textOf(&item))
		}
		return fmt.Sprint(items)
	}
	return c.String()
}

// read encodes a value with the schema, and reads it.
func read(t *testing.T, r *format.RowReader, schema string, value any) ([][]tabular.Cell, error) {
	t.Helper()
	content := assert.Must(avro.MustParse(schema).Encode(value))(t)
	return r.Read(t.Context(), format.Payload{Value: content, Schema: &format.Schema{Name: "schema 1", Type: "AVRO", Text: schema}})
}

const event = `{"type":"record","name":"Event","fields":[
	{"name":"before","type":["null",{"type":"record","name":"Row","fields":[{"name":"v","type":"int"},{"name":"next","type":["null","Row"]}]}]},
	{"name":"kind","type":{"type":"enum","name":"Kind","symbols":["a","b"]}},
	{"name":"n","type":{"type":"long","logicalType":"decimal","precision":4}},{"name":"i","type":["null","int"]},{"name":"f","type":"float"},{"name":"d","type":["double","string"]},
	{"name":"yes","type":"boolean"},{"name":"s","type":{"type":"string","logicalType":"date"}},{"name":"raw","type":"bytes"},
	{"name":"price","type":{"type":"bytes","logicalType":"decimal","precision":20,"scale":2}},
	{"name":"at","type":{"type":"long","logicalType":"timestamp-millis"}},
	{"name":"us","type":{"type":"long","logicalType":"timestamp-micros"}},
	{"name":"ns","type":{"type":"long","logicalType":"timestamp-nanos"}},
	{"name":"day","type":{"type":"int","logicalType":"date"}},
	{"name":"user","type":["null",{"type":"record","name":"User","fields":[{"name":"age","type":"int"},{"name":"tags","type":{"type":"array","items":"string"}}]}]},
	{"name":"items","type":{"type":"array","items":{"type":"record","name":"Item","fields":[{"name":"price","type":"double"},{"name":"row","type":["null","Row"]}]}}},
	{"name":"counts","type":{"type":"map","values":"long"}},
	{"name":"id","type":{"type":"fixed","name":"Id","size":2,"logicalType":"uuid"}},{"name":"uid","type":{"type":"fixed","name":"U","size":16,"logicalType":"uuid"}}]}`

func valueOf() map[string]any {
	row := map[string]any{"v": 1, "next": map[string]any{"Row": map[string]any{"v": 2, "next": nil}}}
	return map[string]any{
		"before": map[string]any{"Row": row}, "kind": "b", "n": int64(-5), "i": nil, "f": float32(0.5), "d": 2.25, "yes": true, "s": "text",
		"raw": []byte("ab"), "price": big.NewRat(-12345, 100), "at": int64(1500), "us": int64(-2_500_000), "ns": int64(3_000_000_001), "day": 2,
		"user":   map[string]any{"User": map[string]any{"age": 30, "tags": []string{"x", "y"}}},
		"items":  []any{map[string]any{"price": 1.5, "row": nil}, map[string]any{"price": 2.5, "row": map[string]any{"Row": row}}},
		"counts": map[string]any{"a": int64(3), "b": int64(4)}, "id": [2]byte{'o', 'k'}, "uid": [16]byte{1, 15: 0xff},
	}
}

// Every type can be a cell, at any depth, and unwanted values are skipped. Times are in seconds, whatever their unit.
func TestAvro(t *testing.T) {
	schema := event // without logical types, because the encoder would expect times
	for _, logical := range []string{"timestamp-millis", "timestamp-micros", "timestamp-nanos", "date", "uuid"} {
		schema = strings.ReplaceAll(schema, `,"logicalType":"`+logical+`"`, "")
	}
	content := assert.Must(avro.MustParse(schema).Encode(valueOf()))(t)
	r := avroReader(t, "", "kind", "n", "i", "f", "d", "yes", "s", "raw", "price", "at", "us", "ns", "day", "user.age", "user.tags", "user.tags.1",
		"items.1.price", "items.7.price", "items.1.row.next.v", "counts.b", "id", "uid", "before.next.v", "user", "items", "nowhere.at.all")
	rows := assert.Must(r.Read(t.Context(), format.Payload{Value: content, Schema: &format.Schema{Name: "schema 1", Type: "AVRO", Text: event}}))(t)
	want := `[["b" -5 null 0.5 2.25 true "text" "ab" -123.45 1.5 -2.5 3.000000001 172800 30 ["x" "y"] "y" 2.5 null 2 4 "ok" "01000000-0000-0000-0000-0000000000ff" 2 an object [an object an object] null]]`
	assert.Equal(t, fmt.Sprint(texts(rows)), want, "got")
	for n := range content {
		_, err := r.Read(t.Context(), format.Payload{Value: content[:n], Schema: &format.Schema{Name: "schema 1", Text: event}})
		assert.True(t, err != nil, "the first %d bytes are read", n)
	}
	more := append(content[:len(content):len(content)], 0)
	_, err := r.Read(t.Context(), format.Payload{Value: more, Schema: &format.Schema{Name: "schema 1", Text: event}})
	assert.Equal(t, fmt.Sprint(err), "1 bytes behind the value: is it written with schema 1?", "")
}

// Rows at a path include the values beside them, unless they have their own.
func TestAvroRowsWithin(t *testing.T) {
	const schema = `{"type":"record","name":"M","fields":[
		{"name":"who","type":"string"},{"name":"of","type":["null",{"type":"record","name":"Of","fields":[
			{"name":"rows","type":["null",{"type":"array","items":{"type":"record","name":"R","fields":[
				{"name":"label","type":"string"},{"name":"x","type":["null","int"]}]}}]}]}]},
		{"name":"x","type":"int"},{"name":"op","type":"string"}]}`
	r := avroReader(t, "of.rows", "label", "x", "who", "op")
	row := func(label string, x any) map[string]any { return map[string]any{"label": label, "x": x} }
	for _, test := range []struct {
		of   any
		want string
	}{
		{map[string]any{"Of": map[string]any{"rows": map[string]any{"array": []any{row("a", 1), row("b", nil)}}}},
			`[["a" 1 "me" "c"] ["b" null "me" "c"]]`},
		{map[string]any{"Of": map[string]any{"rows": map[string]any{"array": []any{}}}}, `[]`},
		{map[string]any{"Of": map[string]any{"rows": nil}}, `[]`},
		{nil, `[]`},
	} {
		rows, err := read(t, r, schema, map[string]any{"who": "me", "of": test.of, "x": 9, "op": "c"})
		got := fmt.Sprint(texts(rows))
		assert.True(t, err == nil && got == test.want, "%v: %s, %v, expected %s", test.of, got, err, test.want)
	}
	for schema, want := range map[string]string{
		`{"type":"record","name":"M","fields":[{"name":"who","type":"string"}]}`: `no rows at "of.rows" (examples.rows): the message has "who"`,
	} {
		_, err := read(t, r, schema, map[string]any{"who": "x"})
		assert.Equal(t, fmt.Sprint(err), want, "")
	}
}

// A schema without the columns to predict, or an invalid one, is an error.
func TestAvroSchemasThatCantBeUsed(t *testing.T) {
	for text, want := range map[string]string{
		`{"type":"record","name":"M","fields":[{"name":"who","type":"string"}]}`: `no column "label": the message has "who": examples.label names the label column`,
		`"string"`: `"": expected an object with a value for each column, or an array of such objects`,
		`{"type":"record","name":"M","fields":[{"name":"who","type":"Missing"}]}`: `schema 1: unknown type "Missing"`,
		`{`: `schema 1: avro: the schema is not JSON`,
	} {
		r := avroReader(t, "", "label", "x")
		_, err := r.Read(t.Context(), format.Payload{Value: []byte{0}, Schema: &format.Schema{Name: "schema 1", Text: text}})
		assert.Equal(t, fmt.Sprint(err), want, "%s", text)
	}
}

// Schemas may reference others, transitively.
func TestAvroReferences(t *testing.T) {
	s := &format.Schema{Name: "schema 1", Text: `{"type":"record","name":"M","namespace":"shop","fields":[
		{"name":"label","type":"shop.Kind"},{"name":"at","type":"shop.Place"}]}`, References: []format.Reference{
		{Name: "shop.Kind", Text: `{"type":"enum","name":"Kind","namespace":"shop","symbols":["a","b"]}`},
		{Name: "shop.Point", Text: `{"type":"record","name":"Point","namespace":"shop","fields":[{"name":"x","type":"int"}]}`},
		{Name: "shop.Place", Text: `{"type":"record","name":"Place","namespace":"shop","fields":[{"name":"point","type":"Point"}]}`}}}
	rows := assert.Must(avroReader(t, "", "label", "at.point.x").Read(t.Context(), format.Payload{Value: []byte{2, 14}, Schema: s}))(t)
	assert.Equal(t, fmt.Sprint(texts(rows)), `[["b" 7]]`, "")
}

// Items that take no bytes are limited in a value, not in a list.
func TestItemsWithoutBytes(t *testing.T) {
	const record = `{"type":"record","name":"M","fields":[{"name":"kind","type":"string"},{"name":"x","type":%s}]}`
	lists := func(inner string) string {
		return fmt.Sprintf(record, `{"type":"array","items":{"type":"array","items":`+inner+`}}`)
	}
	for _, inner := range []string{`"null"`, `{"type":"record","name":"Empty","fields":[]}`, `{"type":"record","name":"Nulls","fields":[{"name":"n","type":"null"}]}`} {
		value := []byte{2, 'a', 0x80, 0x10} // 1024 lists
		for range 1024 {
			value = append(value, 0x80, 0x10, 0) // of 1024 items
		}
		s := &format.Schema{Name: "schema 1", Text: lists(inner)}
		_, err := avroReader(t, "", "kind", "x").Read(t.Context(), format.Payload{Value: append(value, 0), Schema: s})
		assert.True(t, err != nil && strings.Contains(err.Error(), "too many items that take no bytes"), "%s: %v", inner, err)
		_, err = avroReader(t, "", "kind", "x").Read(t.Context(), format.Payload{Value: []byte{2, 'a', 2, 20, 0, 0}, Schema: s})
		assert.True(t, err == nil, "%s: %v", inner, err)
	}
}

// Any input is read in time and memory proportional to its size, or it is an error.
func FuzzAvro(f *testing.F) {
	f.Add([]byte{2, 2, 0, 2, 10, 0, 0, 0, 0, 0, 0, 0}, uint8(0))
	f.Add([]byte{0, 2, 9, 0, 0, 0, 0, 63, 0, 0, 0, 0, 0, 0, 0, 2, 64, 1, 8, 't', 'e', 'x', 't'}, uint8(0))
	f.Add([]byte{1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1}, uint8(1))
	f.Add([]byte{4, 0, 0, 0}, uint8(1))
	f.Add([]byte{2, 2, 2, 2, 2, 2, 0}, uint8(2))
	schemas := []*format.Schema{{Name: "event", Text: event},
		{Name: "nothing", Text: `{"type":"record","name":"M","fields":[{"name":"kind","type":{"type":"array","items":"null"}},
			{"name":"items","type":{"type":"array","items":{"type":"array","items":"null"}}}]}`},
		{Name: "itself", Text: `{"type":"record","name":"M","fields":[{"name":"kind","type":["null","M"]}]}`}}
	f.Fuzz(func(t *testing.T, value []byte, which uint8) {
		s := schemas[int(which)%len(schemas)]
		for _, r := range []*format.RowReader{avroReader(t, "", "kind", "user.tags", "items.1.price", "price", "before"), avroReader(t, "items", "kind", "price")} {
			rows, err := r.Read(t.Context(), format.Payload{Value: value, Schema: s})
			assert.True(t, err != nil || len(rows) <= 100_000, "%d rows of %d bytes", len(rows), len(value))
		}
	})
}

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
	assert.NoError(t, os.WriteFile(file, []byte(schema), 0o600))
	o := format.Options{Options: layout.Defaults(), Settings: format.Settings{Rows: rows, Schema: file, Message: name}}
	o.Label, o.Columns.Use = layout.Column(columns[0]), columns[1:]
	return Protobuf().NewReader(o)
}

// encoded is a message of the schema, given as JSON.
func encoded(t *testing.T, schema, name, text string) []byte {
	t.Helper()
	of := assert.Must(named(assert.Must(compileText(t.Context(), &format.Schema{Text: schema}))(t), name))(t)
	m := dynamicpb.NewMessage(of)
	assert.NoError(t, protojson.Unmarshal([]byte(text), m))
	return assert.Must(proto.Marshal(m))(t)
}

// Every kind of field can be a cell. An unset field with presence is null.
func TestProtobuf(t *testing.T) {
	r, err := protobufReader(t, events, "shop.Event", "", "kind", "i", "s", "f", "u", "small", "yes", "raw", "maybe", "at", "took", "wrapped", "items.1.price",
		"items.0.again.user_id", "counts.b", "byId.7.price", "tags", "left", "right.price", "price", "packed", "userId", "items", "right", "nowhere.at.all")
	assert.NoError(t, err)
	for text, want := range map[string]string{
		`{}`: `[["UNKNOWN" 0 0 0 0 0 false "" null null null null null null null null [] null null null [] 0 [] null null]]`,
		`{"kind":"WIDE","i":-1,"s":"-2","f":"3","u":"18446744073709551615","small":0.5,"yes":true,"raw":"YWI=","maybe":0,
		"at":"1970-01-01T00:00:01.500Z","took":"-1.5s","wrapped":0,"items":[{"again":{"userId":4}},{"price":2.5}],"counts":{"a":"1","b":"2"},
		"byId":{"7":{"price":7}},"tags":["x","y"],"right":{"price":3},"price":{"value":"//8=","scale":2},"packed":[1,-1],"userId":9}`: `[["WIDE" -1 -2 3 18446744073709551615 0.5 true "ab" 0 1.5 -1.5 0 2.5 4 2 7 ["x" "y"] null 3 -0.01 [1 -1] 9 [an object an object] an object null]]`,
	} {
		rows := assert.Must(r.Read(t.Context(), format.Payload{Value: encoded(t, events, "shop.Event", text)}))(t)
		assert.Equal(t, fmt.Sprint(texts(rows)), want, "%s", text)
	}
	const own = `syntax = "proto3"; package google.protobuf; message Timestamp { string x = 1; } message E { string label = 1; Timestamp at = 2; }`
	r = assert.Must(protobufReader(t, own, "E", "", "label", "at", "at.x"))(t)
	rows := assert.Must(r.Read(t.Context(), format.Payload{Value: []byte("\n\x01a\x12\x03\n\x01q")}))(t)
	assert.Equal(t, fmt.Sprint(texts(rows)), `[["a" an object "q"]]`, "a message of another schema with a well-known name")
}

// Rows at a path include the values beside them, unless their schema has the column.
func TestProtobufRowsWithin(t *testing.T) {
	r := assert.Must(protobufReader(t, events, "Event", "items", "label", "price", "kind"))(t)
	for text, want := range map[string]string{
		`{"label":"no","kind":"TALL","items":[{"price":1,"label":"a"},{"price":2}]}`: `[["a" 1 "TALL"] ["" 2 "TALL"]]`,
		`{"kind":"TALL"}`: `[]`,
	} {
		rows := assert.Must(r.Read(t.Context(), format.Payload{Value: encoded(t, events, "Event", text)}))(t)
		assert.Equal(t, fmt.Sprint(texts(rows)), want, "%s", text)
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
		assert.MustFail(protobufReader(t, test.schema, test.name, test.rows, "label", "x"))(t, test.want)
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
	opened := assert.Must(Protobuf().NewReader(o))(t)
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
			assert.Equal(t, fmt.Sprint(texts(rows), err), test.want, "%v", test.indexes)
		}
	}
}

// A registry may have the Base64 descriptor of a file, as registered by the Python serializers, including references.
func TestDescriptors(t *testing.T) {
	descriptor := func(name, text string, imports ...format.Reference) string {
		file := assert.Must(compileText(t.Context(), &format.Schema{Text: text, References: imports}))(t)
		described := protodesc.ToFileDescriptorProto(file)
		described.Name = &name
		for _, m := range described.MessageType {
			for _, f := range m.Field {
				f.JsonName = nil // as in protoc's output for Python
			}
		}
		return base64.StdEncoding.EncodeToString(assert.Must(proto.Marshal(described))(t))
	}
	const size = `syntax = "proto3"; package shop; message Size { optional int32 x = 1; int32 how_many = 2; }`
	const order = `syntax = "proto3"; package shop; import "size.proto"; import "google/protobuf/timestamp.proto";
		message Order { string label = 1; Size size = 2; google.protobuf.Timestamp at = 3; }`
	text := format.Reference{Name: "size.proto", Text: size}
	for _, reference := range []format.Reference{text, {Name: "size.proto", Text: descriptor("size.proto", size)}} {
		o := format.Options{Options: layout.Defaults()}
		o.Columns.Use = []string{"size.x", "at", "size.howMany"}
		r := assert.Must(Protobuf().NewReader(o))(t)
		s := &format.Schema{Name: "schema 1", Text: descriptor("order.proto", order, text), References: []format.Reference{reference}}
		rows, err := r.Read(t.Context(), format.Payload{Value: []byte{10, 1, 'a', 18, 2, 8, 7, 26, 2, 8, 9}, Schema: s, Indexes: []int{0}})
		got := fmt.Sprint(texts(rows))
		assert.True(t, err == nil && got == `[["a" 7 9 0]]`, "%s, %v", got, err)
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
		r := assert.Must(Protobuf().NewReader(o))(f)
		readers = append(readers, r)
	}
	s := &format.Schema{Name: "schema 1", Text: events}
	f.Fuzz(func(t *testing.T, value []byte) {
		for _, r := range readers {
			rows, err := r.Read(t.Context(), format.Payload{Value: value, Schema: s, Indexes: []int{1}})
			assert.True(t, err != nil || len(rows) <= 100_000, "%d rows of %d bytes", len(rows), len(value))
		}
	})
}

// certificate writes a self-signed certificate and its key, and returns the files.
func certificate(t *testing.T, name string) (cert, key string, parsed *x509.Certificate) {
	t.Helper()
	private := assert.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, DNSNames: []string{"localhost"}}
	content := assert.Must(x509.CreateCertificate(rand.Reader, template, template, private.Public(), private))(t)
	secret := assert.Must(x509.MarshalPKCS8PrivateKey(private))(t)
	folder := t.TempDir()
	cert, key = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	assert.NoError(t, errors.Join(os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: content}), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600)))
	parsed = assert.Must(x509.ParseCertificate(content))(t)
	return cert, key, parsed
}

// A TLS registry is trusted through its CA file, and may require a client certificate. Otherwise the error includes the key.
func TestTLS(t *testing.T) {
	fake := srfake.New()
	defer fake.Close()
	fake.SeedSchema("e", 1, 1, sr.Schema{Schema: `"int"`})
	ca, caKey, _ := certificate(t, "registry")
	own, key, parsed := certificate(t, "client")
	pair := assert.Must(tls.LoadX509KeyPair(ca, caKey))(t)
	trusted := x509.NewCertPool()
	trusted.AddCert(parsed)
	server := httptest.NewUnstartedServer(fake.Handler())
	server.Config.ErrorLog = nil
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: trusted, ClientAuth: tls.RequireAndVerifyClientCert}
	server.StartTLS()
	defer server.Close()
	url := strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	for name, test := range map[string]struct {
		options Registry
		want    string // "": it works
	}{
		"all":            {Registry{URL: url, CA: ca, Cert: own, Key: key}, ""},
		"no CA":          {Registry{URL: url, Cert: own, Key: key}, "examples.registry.ca must be a file with its CA certificate"},
		"no certificate": {Registry{URL: url, CA: ca}, "get the schema 1"},
		"a lost CA":      {Registry{URL: url, CA: "gone.pem"}, "examples.registry.ca: open gone.pem"},
		"no PEM":         {Registry{URL: url, CA: key}, "examples.registry.ca: expected a PEM file with a certificate"},
		"another key":    {Registry{URL: url, CA: ca, Cert: own, Key: caKey}, "examples.registry.cert: "},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Open(test.options)
			var s *format.Schema
			if err == nil {
				s, err = c.Schema(t.Context(), format.SchemaID{Number: 1})
			}
			assert.Fails(t, err, test.want)
			assert.True(t, test.want != "" || err == nil && s.Text == `"int"` && s.Type == "AVRO", "%+v", s)
		})
	}
}

// A schema is fetched once. A missing one is requested again after a thousand messages.
func TestSchemasAreFetchedOnce(t *testing.T) {
	fake := srfake.New()
	defer fake.Close()
	fake.SeedSchema("e", 1, 1, sr.Schema{Schema: `"int"`})
	requests := 0
	fake.Intercept(func(http.ResponseWriter, *http.Request) bool { requests++; return false })
	c := assert.Must(Open(Registry{URL: fake.URL()}))(t)
	for range 10 {
		assert.Must(c.Schema(t.Context(), format.SchemaID{Number: 1}))(t)
		_, err := c.Schema(t.Context(), format.SchemaID{Number: 2})
		assert.Need(t, err != nil, "a schema that is not there")
	}
	assert.True(t, requests == 2, "%d requests, expected one for each ID", requests)
	fake.SeedSchema("f", 1, 2, sr.Schema{Schema: `"int"`})
	asked := 0
	for ; asked < 2*askAgain; asked++ {
		if _, e := c.Schema(t.Context(), format.SchemaID{Number: 2}); e == nil {
			break
		}
	}
	assert.True(t, asked < askAgain, "%d messages were in vain after the schema was there", asked)
}
