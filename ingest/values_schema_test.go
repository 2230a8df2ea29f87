package ingest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/layout"
)

// registered returns a registry with schemas, with IDs from 1.
func registered(t testing.TB, schemas ...sr.Schema) *srfake.Registry {
	t.Helper()
	r := srfake.New()
	t.Cleanup(r.Close)
	for i, s := range schemas {
		r.SeedSchema(fmt.Sprintf("subject%d", i+1), 1, i+1, s)
	}
	return r
}

// framed adds the framing of a registry's serializers to a value.
func framed(id int, value []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(id)), value...)
}

// Schema evolution: fields are added and removed, change types, and are replaced by defaults and aliases of the reader
// schema.
func TestSchemasThatEvolve(t *testing.T) {
	record := func(fields ...string) string {
		return `{"type":"record","name":"Event","namespace":"shop","fields":[` + strings.Join(fields, ",") + `]}`
	}
	kind := `{"name":"kind","type":{"type":"enum","name":"Kind","symbols":["a","b"]}}`
	texts := []string{
		record(kind, `{"name":"length","type":"int"}`, `{"name":"colour","type":"string"}`),
		record(`{"name":"more","type":{"type":"array","items":"string"}}`, kind, `{"name":"length","type":["null","double"]}`, `{"name":"width","type":"float"}`),
		record(`{"name":"kind","type":"string"}`, `{"name":"breadth","type":"long"}`, `{"name":"length","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":1}}`),
	}
	var schemas []sr.Schema
	for _, text := range texts {
		schemas = append(schemas, sr.Schema{Schema: text})
	}
	values := [][]byte{
		framed(1, encoded(t, texts[0], map[string]any{"kind": "b", "length": 3, "colour": "red"})),
		framed(2, encoded(t, texts[1], map[string]any{"more": []string{"x"}, "kind": "a", "length": nil, "width": float32(2.5)})),
		framed(2, encoded(t, texts[1], map[string]any{"more": []string{}, "kind": "a", "length": map[string]any{"double": 0.5}, "width": float32(1)})),
		framed(3, []byte{2, 'c', 20, 4, 0xff, 0x38}), // -200, with one digit after the point
		framed(1, encoded(t, texts[0], map[string]any{"kind": "a", "length": 4, "colour": "blue"})),
	}
	file := filepath.Join(t.TempDir(), "event.avsc")
	ours := record(`{"name":"kind","type":"string"}`, `{"name":"length","type":["null","double"],"default":null}`,
		`{"name":"width","type":"double","default":7.5,"aliases":["breadth"]}`)
	noError(t, os.WriteFile(file, []byte(ours), 0o600))
	for schema, want := range map[string]string{
		"":   `5 × 2 floats [3 NaN NaN 2.5 0.5 1 -20 NaN 4 NaN] words ["b" "a" "a" "c" "a"]`,
		file: `5 × 2 floats [3 7.5 NaN 2.5 0.5 1 -20 10 4 7.5] words ["b" "a" "a" "c" "a"]`,
	} {
		o := ofTopic("avro", func(o *Options) {
			o.Label, o.Columns.Use, o.Missing.Mode = "kind", []string{"length", "width"}, layout.MissingMean
			o.Registry.URL, o.Schema = registered(t, schemas...).URL(), schema
		})
		if got := show(*addAll(t, o, strings.Split(string(slices.Concat(values[0], []byte("|"), values[1], []byte("|"), values[2], []byte("|"),
			values[3], []byte("|"), values[4])), "|")...)); got != want {
			t.Errorf("%s: %s\nexpected %s", schema, got, want)
		}
	}
}

const simple = `{"type":"record","name":"E","fields":[{"name":"label","type":"string"},{"name":"x","type":"int"}]}`

// An ID may be in a header, as a number or as a GUID, and a schema may have references.
func TestSchemaIDs(t *testing.T) {
	r := registered(t, sr.Schema{Schema: simple})
	guid := "0123456789abcdef"
	r.Intercept(func(w http.ResponseWriter, req *http.Request) bool {
		if !strings.HasPrefix(req.URL.Path, "/schemas/guids/") {
			return false
		}
		if req.URL.Path != "/schemas/guids/30313233-3435-3637-3839-616263646566" {
			t.Errorf("asked for %s", req.URL.Path)
		}
		fmt.Fprintf(w, `{"schema":%q}`, simple)
		return true
	})
	r.SeedSchema("place", 2, 8, sr.Schema{Schema: `{"type":"record","name":"Place","fields":[{"name":"x","type":"int"}]}`})
	r.SeedSchema("where", 1, 9, sr.Schema{Schema: `{"type":"record","name":"Where","fields":[{"name":"place","type":"Place"}]}`,
		References: []sr.SchemaReference{{Name: "Place", Subject: "place", Version: 2}}})
	r.SeedSchema("value", 1, 10, sr.Schema{Schema: `{"type":"record","name":"E","fields":[{"name":"label","type":"string"},{"name":"at","type":"Where"},{"name":"to","type":"Place"}]}`,
		References: []sr.SchemaReference{{Name: "Where", Subject: "where", Version: 1}, {Name: "Place", Subject: "place", Version: 2}}})
	of := func(use string) *Values {
		return valuesOf(t, ofTopic("avro", func(o *Options) { o.Registry.URL, o.Columns.Use = r.URL(), []string{use} }))
	}
	v, value := of("x"), []byte{2, 'a', 14}
	for _, m := range []TopicMessage{{Value: framed(1, value)}, {Value: value, SchemaID: "\x00\x00\x00\x00\x01"}, {Value: value, SchemaID: "\x01" + guid}} {
		if _, err := v.Add(t.Context(), m); err != nil {
			t.Error(err)
		}
	}
	if rows := v.Take(); !slices.Equal(rows.Floats, []float32{7, 7, 7}) {
		t.Errorf("%+v", rows)
	}
	v = of("at.place.x")
	if _, err := v.Add(t.Context(), TopicMessage{Value: framed(10, []byte{2, 'a', 18, 14})}); err != nil {
		t.Error(err)
	}
	if rows := v.Take(); rows == nil || !slices.Equal(rows.Floats, []float32{9}) {
		t.Errorf("%+v", rows)
	}
}

// Errors due to the message include the key; errors due to the registry are not attributed to the message.
func TestFramesAndRegistries(t *testing.T) {
	r := registered(t, sr.Schema{Schema: simple}, sr.Schema{Schema: `syntax = "proto3"; message E {}`, Type: sr.TypeProtobuf})
	refers := func(subject string) string {
		return fmt.Sprintf(`{"schema":%q,"references":[{"name":%q,"subject":%q,"version":1}]}`, simple, strings.ToUpper(subject), subject)
	}
	r.Intercept(func(w http.ResponseWriter, req *http.Request) bool { // the fake can't have broken references
		text := map[string]string{"/schemas/ids/7": refers("b"), "/schemas/ids/9": refers("gone"), "/subjects/a/versions/1": refers("b"),
			"/subjects/b/versions/1": refers("a")}[req.URL.Path]
		if text != "" {
			fmt.Fprint(w, text)
		}
		return text != ""
	})
	file := filepath.Join(t.TempDir(), "e.avsc")
	noError(t, os.WriteFile(file, []byte(simple), 0o600))
	with := func(o *Options) { o.Registry.URL = r.URL() }
	without := func(o *Options) { o.Schema = file }
	value := []byte{2, 'a', 14}
	for name, test := range map[string]struct {
		format string
		change func(*Options)
		m      TopicMessage
		reason string // "": it is valid
	}{
		"a file":                   {"avro", without, TopicMessage{Value: value}, ""},
		"JSON Schema":              {"json", with, TopicMessage{Value: framed(7, []byte(`{"label":"a","x":7}`))}, ""},
		"JSON by its header":       {"json", with, TopicMessage{Value: []byte(`{"label":"a","x":7}`), SchemaID: "\x00\x00\x00\x00\x01"}, ""},
		"no frame":                 {"avro", with, TopicMessage{Value: []byte{2, 'a', 14}}, "no schema ID, neither before the value nor in the header __value_schema_id: configure the producer with the registry, or remove examples.registry, and set examples.schema"},
		"JSON without a frame":     {"json", with, TopicMessage{Value: []byte(`{"label":"a","x":7}`)}, "no schema ID, neither before the value nor in the header __value_schema_id: configure the producer with the registry, or remove examples.registry"},
		"a frame, and no registry": {"avro", without, TopicMessage{Value: framed(1, value)}, "6 bytes behind the value: is it written with " + file + "? It begins with the prefix of schema registry serializers and the schema ID 1: set examples.registry.url"},
		"an unknown ID":            {"avro", with, TopicMessage{Value: framed(77, value)}, "the schema 77 is unknown to " + r.URL() + ": is examples.registry.url the registry of the producer?"},
		"another format":           {"avro", with, TopicMessage{Value: framed(2, value)}, "schema 2 of " + r.URL() + " is PROTOBUF: expected AVRO, because examples.format is avro"},
		"a cycle":                  {"avro", with, TopicMessage{Value: framed(7, value)}, `the schema refers to "B" (version 1 of "b"), which refers to itself`},
		"a lost reference":         {"avro", with, TopicMessage{Value: framed(9, value)}, `the schema "GONE" (version 1 of "gone") is unknown to ` + r.URL() + ": is examples.registry.url the registry of the producer?"},
		"a damaged header":         {"avro", with, TopicMessage{Value: value, SchemaID: "seven"}, `the header __value_schema_id is "seven": expected a 1 and the GUID of a schema`},
	} {
		t.Run(name, func(t *testing.T) {
			o := ofTopic(test.format, func(o *Options) { o.Columns.Use = []string{"x"}; test.change(o) })
			if problems := o.Check(); problems != nil {
				t.Fatal(problems)
			}
			v := valuesOf(t, o)
			for range 2 { // responses of the registry are cached
				_, err := v.Add(t.Context(), test.m)
				if unusable, _ := Unusable(err); (err == nil) != (test.reason == "") || err != nil && (err.Error() != test.reason || !unusable) {
					t.Errorf("%v, expected %q", err, test.reason)
				}
			}
		})
	}
}

// Protobuf messages identify their message type in the schema, before the value or in the header.
func TestMessageIndexes(t *testing.T) {
	r := registered(t, sr.Schema{Type: sr.TypeProtobuf, Schema: `syntax = "proto3"; message First { string label = 1; int32 x = 2; }
		message Second { message Within { int32 x = 1; string label = 2; } }`})
	o := ofTopic("protobuf", func(o *Options) { o.Registry.URL, o.Columns.Use = r.URL(), []string{"x"} })
	if problems := o.Check(); problems != nil {
		t.Fatal(problems)
	}
	v := valuesOf(t, o)
	first, within := []byte{10, 1, 'a', 16, 7}, []byte{8, 9, 18, 1, 'b'}
	header := func(rest ...byte) string { return string(framed(1, rest)) }
	for _, test := range []struct {
		m      TopicMessage
		reason string
	}{
		{TopicMessage{Value: framed(1, append([]byte{0}, first...))}, ""},
		{TopicMessage{Value: framed(1, append([]byte{4, 2, 0}, within...))}, ""},
		{TopicMessage{Value: first, SchemaID: header(0)}, ""},
		{TopicMessage{Value: within, SchemaID: header(4, 2, 0)}, ""},
		{TopicMessage{Value: framed(1, append([]byte{2, 8}, first...))}, "schema 1 of " + r.URL() + ": the schema has no message at index [4], which the value refers to"},
		{TopicMessage{Value: framed(1, []byte{200, 1, 2})}, "the list of message indexes after the schema ID is truncated"},
		{TopicMessage{Value: framed(1, []byte{3})}, "no list of message indexes after the schema ID: was it written by a Protobuf serializer?"},
		{TopicMessage{Value: framed(1, append([]byte{2, 2}, within...))}, `no column "label": the message has no members: examples.label names the label column`},
	} {
		_, err := v.Add(t.Context(), test.m)
		if (err == nil) != (test.reason == "") || err != nil && err.Error() != test.reason {
			t.Errorf("%v: %v, expected %s", test.m, err, test.reason)
		}
	}
	if got, want := show(*v.Take()), `4 × 1 floats [7 9 7 9] words ["a" "b" "a" "b"]`; got != want {
		t.Errorf("%s, expected %s", got, want)
	}
}

// A registry without a response, or with a server error, is unavailable; one that denies access ends ingest.
func TestRegistriesThatAreAway(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		away   bool
		want   string
	}{
		"overloaded": {http.StatusServiceUnavailable, true, "answers 503"},
		"busy":       {http.StatusTooManyRequests, true, "answers 429"},
		"no login":   {http.StatusUnauthorized, false, "answers 401: examples.registry.user and examples.registry.password_file"},
		"forbidden":  {http.StatusForbidden, false, "the user of examples.registry.user may not read it"},
		"a web page": {http.StatusNotFound, false, "set examples.registry.url to the URL of a schema registry"},
	} {
		t.Run(name, func(t *testing.T) {
			r := registered(t, sr.Schema{Schema: simple})
			r.Intercept(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(test.status); return true })
			v := valuesOf(t, ofTopic("avro", func(o *Options) { o.Registry.URL, o.Columns.Use = r.URL(), []string{"x"} }))
			m := TopicMessage{Value: framed(1, []byte{2, 'a', 14})}
			_, err := v.Add(t.Context(), m)
			if unusable, away := Unusable(err); err == nil || unusable || away != test.away || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v: unusable %v, away %v", err, unusable, away)
			}
			r.ClearInterceptors()
			if _, err := v.Add(t.Context(), m); err != nil {
				t.Errorf("when it is back: %v", err)
			}
			r.Close()
			_, err = v.Add(t.Context(), TopicMessage{Value: framed(2, []byte{2, 'a', 14})})
			if _, away := Unusable(err); !away {
				t.Errorf("when it is gone: %v", err)
			}
			if _, err := v.Add(t.Context(), m); err != nil {
				t.Errorf("a schema that is known, when it is gone: %v", err)
			}
		})
	}
}

// Users authenticate with the password in a file.
func TestRegistryWithUser(t *testing.T) {
	r := srfake.New(srfake.WithAuth("Basic bWU6c2VjcmV0"))
	t.Cleanup(r.Close)
	r.SeedSchema("e", 1, 1, sr.Schema{Schema: simple})
	password := filepath.Join(t.TempDir(), "password")
	o := ofTopic("avro", func(o *Options) {
		o.Registry.URL, o.Registry.User, o.Registry.PasswordFile, o.Columns.Use = r.URL(), "me", password, []string{"x"}
	})
	if _, err := NewValues(o); err == nil || !strings.HasPrefix(err.Error(), "examples.registry.password_file: ") {
		t.Error(err)
	}
	for text, works := range map[string]bool{"secret\n": true, "wrong": false} {
		noError(t, os.WriteFile(password, []byte(text), 0o600))
		_, err := valuesOf(t, o).Add(t.Context(), TopicMessage{Value: framed(1, []byte{2, 'a', 14})})
		secret := err != nil && strings.Contains(err.Error(), "wrong")
		if of, is := errors.AsType[*format.RegistryError](err); (err == nil) != works || is && of.Away || is == works || secret {
			t.Errorf("%q: %v", text, err)
		}
	}
}
