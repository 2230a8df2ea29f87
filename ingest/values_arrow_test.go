package ingest

import (
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"github.com/stagewise/stagewise/ingest/layout"
)

// nestedEvents are rows in JSON with nested values, and their Arrow types.
const nestedEvents = `[{"kind":"a","w":2,"user":{"age":30,"country":"de","at":"1970-01-01T00:00:01.5Z"},"items":[{"price":1.5,"label":"x"},{"price":9,"label":"y"}],"tags":["p","q"]},
	{"kind":"b","w":1,"user":null,"items":[],"tags":[]},
	{"kind":null,"w":3,"user":{"age":null,"country":"fr","at":null},"items":[{"price":2,"label":"z"}],"tags":null}]`

func nestedFields() []arrow.Field {
	user := arrow.StructOf(nullable("age", arrow.PrimitiveTypes.Int32), nullable("country", arrow.BinaryTypes.String),
		nullable("at", arrow.FixedWidthTypes.Timestamp_us))
	item := arrow.StructOf(nullable("price", arrow.PrimitiveTypes.Float64), nullable("label", arrow.BinaryTypes.String))
	return []arrow.Field{nullable("kind", &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}), nullable("w", arrow.PrimitiveTypes.Uint16), nullable("user", user),
		nullable("items", arrow.ListOf(item)), nullable("tags", arrow.ListOf(arrow.BinaryTypes.String))}
}

func TestArrowMessagesThatCantBeUsed(t *testing.T) {
	content := arrowContent(t, arrowRows(t, nestedEvents, nestedFields()...), 3, false)
	for _, test := range []struct {
		change func(*Options)
		value  []byte
		want   string
	}{
		{func(*Options) {}, content, `no column "label": the message has "kind", "w", "user", "items" and "tags": examples.label names the label column`},
		{func(o *Options) { o.Rows = "events" }, content, `no rows at "events" (examples.rows): the message has "kind", "w", "user", "items" and "tags"`},
		{func(o *Options) { o.Label, o.Rows = "kind", "tags" }, content, `row 0, counted from 0: "p": expected an object with a value for each column`},
		{func(o *Options) { o.Label, o.Columns.Use = "kind", []string{"user", "w"} }, content, `row 0, counted from 0: column "user": an object: expected a number: name one of its members, as in user.age`},
		{func(o *Options) { o.Label = "kind" }, slices.Concat(content, content), "bytes after the end of the stream: expected all batches in one stream"},
		{func(*Options) {}, content[:100], "damaged"},
		{func(*Options) {}, []byte(`{"kind":"a"}`), "JSON: set examples.format: json"},
	} {
		o := ofTopic("arrow", func(o *Options) { o.Columns.Use = []string{"w"}; test.change(o) })
		if _, err := valuesOf(t, o).Add(t.Context(), TopicMessage{Value: test.value}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, expected %s", err, test.want)
		}
	}
	o := ofTopic("arrow", func(o *Options) { o.Columns.Use, o.Registry.URL = []string{"w"}, "http://registry" })
	if got := o.Check(); len(got) != 1 || got[0].Want != "no registry: values in arrow have no schema there" {
		t.Errorf("%v", got)
	}
}

// Any input gives rows or an error.
func FuzzArrowMessages(f *testing.F) {
	f.Add(arrowContent(f, arrowRows(f, nestedEvents, nestedFields()...), 2, false))
	f.Add(arrowContent(f, arrowRows(f, nestedEvents, nestedFields()...), 3, true))
	f.Fuzz(func(t *testing.T, value []byte) {
		for _, rows := range []string{"", "items"} {
			o := ofTopic("arrow", func(o *Options) {
				o.Label, o.Rows, o.Columns.Use, o.Missing.Mode = "kind", rows, []string{"user.age", "items.0.price", "w"}, layout.MissingMean
			})
			v := valuesOf(t, o)
			if _, err := v.Add(t.Context(), TopicMessage{Value: value}); err != nil && v.Take() != nil {
				t.Errorf("rows of a message that can't be used: %v", err)
			}
		}
	})
}
