package ingest

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// ofTopic returns options for a topic of values.
func ofTopic(format string, change func(*Options)) Options {
	o := Defaults()
	o.FromTopic, o.Format = "clicks", format
	change(&o)
	return o
}

func valuesOf(t *testing.T, o Options) *Values {
	t.Helper()
	return assert.Must(NewValues(o))(t)
}

// A value in CSV has one or more lines; in JSON it is an object or an array of objects. The keys of columns have the same
// meaning as for files.
func TestValues(t *testing.T) {
	nan := float32(math.NaN())
	use := func(names ...string) func(*Options) {
		return func(o *Options) { o.Columns.Use, o.Label, o.Missing.Mode = names, "kind", layout.MissingMean }
	}
	numbers := func(o *Options) { o.Missing.Mode = layout.MissingMean }
	for name, test := range map[string]struct {
		options Options
		values  []string
		want    examples.Rows
	}{
		"lines": {
			ofTopic("csv", numbers), []string{"a,1,2", "\ufeffb,3,\n\nc, NA ,6\n"},
			examples.Rows{Rows: 3, Cols: 2, Floats: []float32{1, 2, 3, nan, nan, 6}, Words: []string{"a", "b", "c"}},
		},
		"lines with columns by number": {
			ofTopic("csv", func(o *Options) { o.Columns.Use, o.Label, o.Weight, o.Delimiter = []string{"3", "1"}, "2", "0", ";" }),
			[]string{"2;10;a;11", "3;20;\"b\";21;more"},
			examples.Rows{Rows: 2, Cols: 2, Floats: []float32{10, 11, 20, 21}, Words: []string{"a", "b"}, Weights: []float32{2, 3}},
		},
		"objects": {
			ofTopic("json", use("length", "width")), []string{"\ufeff" + `{"kind":"a","width":2,"length":1,"more":{}}`,
				`[{"kind":7.0,"width":null,"length":"1e3"},{"kind":true,"width":true}]`, "[]"},
			examples.Rows{
				Rows: 3, Cols: 2, Floats: []float32{1, 2, 1000, nan, nan, 1}, Words: []string{"a", "7", "true"},
				Columns: examples.Columns{{Name: "length"}, {Name: "width"}},
			},
		},
		"messages with keys": {
			ofTopic("csv", numbers), []string{"key:a,1,2", "b,3,4\nc,5,6", "key:d,7,8\ne,9,10"},
			examples.Rows{
				Rows: 5, Cols: 2, Floats: []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, Words: []string{"a", "b", "c", "d", "e"},
				SourceKeys: []string{"key", "", "", "key", "key"},
			},
		},
		"arrays of features": {
			ofTopic("json", func(o *Options) { o.Columns.Use, o.Weight = []string{"features"}, "w" }),
			[]string{`{"label":"a","features":[1,2,3],"w":0.5}`, `{"label":"b","features":[4,5,6],"w":1}`},
			examples.Rows{Rows: 2, Cols: 3, Floats: []float32{1, 2, 3, 4, 5, 6}, Words: []string{"a", "b"}, Weights: []float32{0.5, 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.options.Check(), nil, "")
			v := valuesOf(t, test.options)
			for i, text := range test.values {
				m, before := TopicMessage{Partition: 3, Offset: int64(10 + i)}, v.batch.Len()
				if key, value, ok := strings.Cut(text, ":"); ok && key == "key" {
					m.Key, text = key, value
				}
				m.Value = []byte(text)
				full, err := v.Add(t.Context(), m)
				assert.Need(t, !full && err == nil, "%s: %v, %v", text, full, err)
				if added := v.batch.Len() - before; added > 0 {
					test.want.Origins = test.want.Origins.Append(3, m.Offset, added)
				}
			}
			got := v.Take()
			assert.True(t, fmt.Sprintf("%+v", *got) == fmt.Sprintf("%+v", test.want), "got %+v\nexpected %+v", *got, test.want)
			again := v.Take()
			assert.True(t, again == nil, "the batch was taken, and there is %+v", again)
		})
	}
}

// An invalid value gives a reason, and changes nothing.
func TestValuesThatCantBeUsed(t *testing.T) {
	for _, test := range []struct{ format, value, reason string }{
		{"csv", "", "an empty value: expected one example a line, without a header"},
		{"csv", "\n", "an empty value: expected one example a line, without a header"},
		{"csv", "a,1", "row 0, counted from 0: 2 columns, expected 3 as in earlier values"},
		{"csv", "a,1,x", `column 2: "x" is not a number: examples.categorical accepts columns of words, examples.columns.drop excludes a column, examples.missing_values lists the words for a missing value`},
		{"csv", "a,1,2\nb,\"1,5\",2", `row 1, counted from 0: column 1: "1,5" is not a number: write decimals with a point`},
		{"csv", "a,1,", "column 2: an empty field: examples.missing: mean uses the mean of the column"},
		{"json", `{"label":"a","x":1,"y":2,"y":3}`, `duplicate member "y"`},
		{"json", "{\"label\":\"\xff\",\"x\":1,\"y\":2}", "byte 10, 0xff, is not UTF-8: set examples.encoding, such as windows-1252, or convert the text"},
		{"json", `{"label":"\udc00","x":1,"y":2}`, `byte 10: \udc00: an unpaired surrogate`},
		{"csv", "\xff,1,2", `column 0: label "\xff" is not UTF-8: set examples.encoding, such as windows-1252, or convert the text`},
		{"csv", "a,\"1,2", `line 1, byte 7: extraneous or missing " in quoted-field`},
		{"json", "", "an empty value: expected an object with a value for each column, or an array of such objects"},
		{"json", "{", "not JSON: it ends too early"},
		{"json", "{]", "not JSON: byte 2: invalid character ']' looking for beginning of object key string"},
		{"json", "{} {}", "not JSON: byte 4: invalid character '{' after top-level value"},
		{"json", "3", "3: expected an object with a value for each column, or an array of such objects"},
		{"json", `[{"label":"a","x":1,"y":2},4]`, "row 1, counted from 0: 4: expected an object with a value for each column, or an array of such objects"},
		{"json", `{"label":"a","x":1}`, `column "y": a missing value: examples.missing: mean uses the mean of the column; the message has "label" and "x"`},
		{"json", `{"label":"a","x":1,"y":1e99}`, `column "y": 1e+99 is not a finite float32`},
		{"json", `{"label":"a","x":1,"y":{}}`, `column "y": an object: expected a number: name one of its members, as in user.age`},
		{"json", `{"x":1,"y":2}`, `no column "label": the message has "x" and "y": examples.label names the label column`},
		{"json", `{}`, `no column "label": the message has no members: examples.label names the label column`},
		{"json", `{"specversion":"1.0","id":"1","data":{"label":"a","x":1,"y":2}}`, `no column "label": the message has "data", "id" and "specversion". The column is in "data": set examples.rows to that path`},
		{"json", `{"schema":{},"payload":{"before":null,"after":{"label":"a","x":1,"y":2}}}`, `no column "label": the message has "payload" and "schema". The column is in "payload.after": set examples.rows to that path`},
		{"json", "\x00\x00\x00\x00\x07{}", "it begins with the prefix of schema registry serializers (a zero byte and the schema ID 7): expected an object with a value for each column, or an array of such objects: set examples.registry.url, or configure the producer without a registry"},
		{"csv", "\x00\x00\x00\x01\x00a,1,2", "it begins with the prefix of schema registry serializers (a zero byte and the schema ID 256): expected one example a line, without a header: set examples.registry.url, or configure the producer without a registry"},
	} {
		o := ofTopic(test.format, func(o *Options) {
			if o.Format == "json" {
				o.Columns.Use = []string{"x", "y"}
			}
		})
		good := map[string]string{"csv": "a,1,2", "json": `{"label":"a","x":1,"y":2}`}[test.format]
		v := valuesOf(t, o)
		for _, c := range [][2]string{{good, "<nil>"}, {test.value, test.reason}, {good, "<nil>"}} {
			full, err := v.Add(t.Context(), TopicMessage{Value: []byte(c[0])})
			assert.True(t, fmt.Sprint(err) == c[1] && !full, "%s: %v, %v, expected %s", c[0], full, err, c[1])
		}
		rows := v.Take()
		assert.True(t, rows.Rows == 2 && slices.Equal(rows.Floats, []float32{1, 2, 1, 2}) && slices.Equal(rows.Words, []string{"a", "a"}),
			"%s: after it, the batch has %+v", test.value, rows)
	}
}

// A message with a key and without a value is a tombstone, and has no rows.
func TestTombstones(t *testing.T) {
	v := valuesOf(t, ofTopic("csv", func(*Options) {}))
	full, err := v.Add(t.Context(), TopicMessage{Key: "a"})
	assert.True(t, !full && err == nil && v.Take() == nil, "%v, %v", full, err)
}

// The first valid value determines the number of columns.
func TestFirstValues(t *testing.T) {
	v := valuesOf(t, ofTopic("csv", func(*Options) {}))
	for _, test := range []struct {
		value string
		works bool
	}{{"a,b,c,d", false}, {"label,length,width", false}, {"a,1,2", true}, {"a,1,2,3", false}} {
		_, err := v.Add(t.Context(), TopicMessage{Value: []byte(test.value)})
		assert.True(t, (err == nil) == test.works, "%s: %v", test.value, err)
	}
}

// A batch has whole values, as many as fit into a message.
func TestBatchesOfValues(t *testing.T) {
	v := valuesOf(t, ofTopic("csv", func(o *Options) { o.BatchRows = 3 }))
	for i, test := range []struct {
		value      string
		full, over bool // before and after
	}{{"a,1\nb,2", false, false}, {"c,3\nd,4", true, false}, {"c,3", false, true}} {
		full, err := v.Add(t.Context(), TopicMessage{Value: []byte(test.value)})
		assert.True(t, full == test.full && err == nil && v.Full() == test.over, "value %d: full %v, then %v, %v", i, full, v.Full(), err)
	}
	rows := v.Take()
	assert.True(t, slices.Equal(rows.Words, []string{"a", "b", "c"}), "%+v", rows)
	_, err := v.Add(t.Context(), TopicMessage{Value: []byte("a,1\nb,2\nc,3\nd,4")})
	assert.True(t, err == nil && v.Take().Rows == 4, "a value with more rows than a batch: %v", err)
	wide := valuesOf(t, ofTopic("csv", func(*Options) {}))
	_, err = wide.Add(t.Context(), TopicMessage{Value: []byte(strings.Repeat("a"+strings.Repeat(",1", 100_000)+"\n", 3))})
	assert.Equal(t, fmt.Sprint(err), "3 examples do not fit a message of 900000 bytes: send fewer in a value", "a value that does not fit")
	for i := range 3 {
		full, err := wide.Add(t.Context(), TopicMessage{Value: []byte("a" + strings.Repeat(",1", 100_000))})
		assert.True(t, err == nil && full == (i == 2), "wide value %d: %v, %v", i, full, err)
	}
}

// For any input, a batch has complete valid rows, and an invalid value changes nothing.
func FuzzValues(f *testing.F) {
	for _, value := range []string{"a,1,2\nb,NA,4", `{"label":"a","features":[1,null]}`, `[{"label":1,"features":true,"w":2}]`,
		`{"label":"a","features":[]}`, "a,\"1", "\xff,1,2"} {
		f.Add([]byte(value), []byte(value))
	}
	all := []Options{
		ofTopic("csv", func(o *Options) { o.Missing.Mode = layout.MissingMean }),
		ofTopic("csv", func(o *Options) { o.Columns.Use, o.Weight = []string{"2"}, "1" }),
		ofTopic("json", func(o *Options) { o.Columns.Use, o.Missing.Mode = []string{"features"}, layout.MissingMean }),
		ofTopic("json", func(o *Options) { o.Columns.Use, o.Weight = []string{"features", "more"}, "w" }),
		ofTopic("json", func(o *Options) { o.Columns.Use, o.Labels = []string{"features"}, layout.LabelsSeveral }),
		ofTopic("json", func(o *Options) { o.Columns.Use, o.Targets = []string{"features"}, []string{"w", "label"} }),
		ofTopic("json", func(o *Options) { o.Text = "features" }),
		ofTopic("csv", func(o *Options) { o.LabelColumns, o.Labels = []string{"1", "2"}, layout.LabelsSeveral }),
		ofTopic("csv", func(o *Options) { o.Text, o.Weight = "1", "2" }),
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		for _, o := range all {
			o.BatchRows = 2
			v := valuesOf(t, o)
			for _, value := range [][]byte{first, second, second} {
				before := v.batch.Len()
				full, err := v.Add(t.Context(), TopicMessage{Value: value})
				assert.True(t, !full && err == nil || v.batch.Len() == before,
					"%q: full %v, %v: %d rows, before %d", value, full, err, v.batch.Len(), before)
			}
			rows := v.Take()
			if rows == nil {
				continue
			}
			m := assert.Must(schemas.Origin{Source: schemas.TopicSource("clicks"), Attempt: "1"}.TopicMessage([]schemas.TopicPosition{{Next: 1}},
				rows, memory.DefaultAllocator))(t)
			examples, err := examples.Decode(m.Value, memory.DefaultAllocator)
			assert.Need(t, err == nil && examples.Rows == rows.Rows, "%q, %q: %+v, %v", first, second, examples, err)
		}
	})
}

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
		assert.MustFail(valuesOf(t, o).Add(t.Context(), TopicMessage{Value: test.value}))(t, test.want)
	}
	o := ofTopic("arrow", func(o *Options) { o.Columns.Use, o.Registry.URL = []string{"w"}, "http://registry" })
	got := o.Check()
	assert.True(t, len(got) == 1 && got[0].Want == "no registry: values in arrow have no schema there", "%v", got)
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
			_, err := v.Add(t.Context(), TopicMessage{Value: value})
			assert.True(t, err == nil || v.Take() == nil, "rows of a message that can't be used: %v", err)
		}
	})
}

// withWords returns options with the words that values have, if there are columns of words.
func withWords(t *testing.T, o Options, values ...string) Options {
	t.Helper()
	if !o.FindsWords() {
		return o
	}
	words := assert.Must(NewTopicWords(o))(t)
	for _, value := range values {
		assert.NoError(t, words.Add(t.Context(), TopicMessage{Value: []byte(value)}))
	}
	return assert.Must(words.Options())(t)
}

// addAll adds valid values, and returns the batch without the origins of its rows.
func addAll(t *testing.T, o Options, values ...string) *examples.Rows {
	t.Helper()
	assert.Equal(t, o.Check(), nil, "")
	v := valuesOf(t, withWords(t, o, values...))
	for _, value := range values {
		full, err := v.Add(t.Context(), TopicMessage{Value: []byte(value)})
		assert.Need(t, !full && err == nil, "%s: %v, %v", value, full, err)
	}
	rows := v.Take()
	if rows != nil {
		rows.Origins = nil
	}
	return rows
}

// Nested values give the same rows as flat ones, with the path of framed rows configured.
func TestPathsAndRows(t *testing.T) {
	flat := func(o *Options) {
		o.Label, o.Weight, o.Columns.Use, o.Categorical = "kind", "w", []string{"age", "price", "country"}, []string{"country"}
		o.Missing.Mode = layout.MissingMean
	}
	want := addAll(t, ofTopic("json", flat), `{"kind":"a","w":2,"age":30,"price":1.5,"country":"de"}`,
		`{"kind":7.0,"w":1,"age":null,"country":"fr"}`, `{"kind":true,"w":3,"age":"4","price":2,"country":null}`)
	renamed := func(names map[string]string) func(o *Options) {
		return func(o *Options) {
			flat(o)
			rename := func(name string) string {
				if path, ok := names[name]; ok {
					return path
				}
				return name
			}
			o.Label, o.Weight = layout.Column(rename(string(o.Label))), layout.Column(rename(string(o.Weight)))
			for i, name := range o.Columns.Use {
				o.Columns.Use[i] = rename(name)
			}
			o.Categorical = []string{rename("country")}
		}
	}
	rows := func(path string, names map[string]string) func(o *Options) {
		return func(o *Options) { renamed(names)(o); o.Rows = path }
	}
	nested := map[string]string{"age": "user.age", "price": "items.0.price", "country": "user.address.country", "kind": "what.kind"}
	event := []string{`{"kind":"a","w":2,"age":30,"price":1.5,"country":"de"}`, `{"kind":7.0,"w":1,"age":null,"country":"fr"}`,
		`{"kind":true,"w":3,"age":"4","price":2,"country":null}`}
	wrapped := func(before, after string) (values []string) {
		for _, e := range event {
			values = append(values, before+e+after)
		}
		return values
	}
	for name, test := range map[string]struct {
		change func(*Options)
		values []string
	}{
		"paths": {renamed(nested), []string{
			`{"w":2,"what":{"kind":"a"},"user":{"age":30,"address":{"country":"de"}},"items":[{"price":1.5},{"price":9}]}`,
			`{"what":{"kind":7.0},"w":1,"user":{"age":null,"address":{"country":"fr"}},"items":[]}`,
			`{"what":{"kind":true},"w":3,"user":{"age":"4"},"items":[{"price":2}],"user.address":{"country":"it"}}`}},
		"names go before paths": {renamed(nested), []string{
			`[{"what.kind":"a","what":{"kind":"b"},"w":2,"user.age":30,"user":{"age":31,"address":{"country":"de"}},"items.0.price":1.5}]`,
			`{"what":{"kind":"b"},"what.kind":7.0,"w":1,"user":{"age":1},"user.age":null,"user.address.country":"fr"}`,
			`{"what.kind":true,"w":3,"user.age":"4","items":[{"price":2}]}`}},
		"events":                              {rows("events", nil), []string{`{"events":[` + strings.Join(event[:2], ",") + `]}`, `{"events":[]}`, `{"events":` + event[2] + `}`}},
		"a member with the name of a density": {rows("./dense", nil), wrapped(`{"dense":`, `}`)},
		"densities are no paths":              {rows("sparse", nil), event},
		"a CloudEvent":                        {rows("data", nil), wrapped(`{"specversion":"1.0","id":"1","source":"/x","type":"t","data":`, `}`)},
		"Debezium": {rows("payload.after", map[string]string{"w": "payload.w"}), []string{
			`{"schema":{},"payload":{"before":null,"after":{"kind":"a","age":30,"price":1.5,"country":"de"},"op":"c","w":2}}`,
			`{"schema":{},"payload":{"before":{"kind":"a"},"after":null,"op":"d"}}`,
			`{"schema":{},"payload":{"before":null,"after":{"kind":7.0,"age":null,"country":"fr"},"op":"u","w":1}}`,
			`{"schema":{},"payload":{"before":null,"after":{"kind":true,"age":"4","price":2,"country":null},"op":"u","w":3}}`}},
		"what rows share": {rows("order.lines", map[string]string{"country": "user.country"}), []string{
			`{"user":{"country":"de"},"w":2,"order":{"lines":[{"kind":"a","age":30,"price":1.5}]}}`,
			`{"order":{"lines":[{"kind":7.0,"w":1}]},"user":{"country":"fr"},"w":9}`,
			`{"order":{"lines":[{"kind":true,"age":"4","price":2,"user":{"country":null}}]},"w":3,"user":{"country":"it"}}`}},
	} {
		t.Run(name, func(t *testing.T) {
			got := addAll(t, ofTopic("json", test.change), test.values...)
			assert.True(t, show(*got) == show(*want) && fmt.Sprint(got.Weights) == fmt.Sprint(want.Weights),
				"%s %v\nexpected %s %v", show(*got), got.Weights, show(*want), want.Weights)
		})
	}
}

// The error of a missing value, or of one that does not suit its column, includes the key.
func TestPathsThatAreNowhere(t *testing.T) {
	for _, test := range []struct {
		change        func(*Options)
		value, reason string
	}{
		{func(o *Options) { o.Rows = "events" }, `{"data":[],"id":1}`, `no rows at "events" (examples.rows): the message has "data" and "id"`},
		{func(o *Options) { o.Rows = "a.0.b" }, `{"a":[{"c":1}]}`, `no rows at "a.0.b" (examples.rows): the message has "a"`},
		{func(o *Options) { o.Rows = "events" }, `[{}]`, `row 0, counted from 0: no rows at "events" (examples.rows): the message has no members`},
		{func(o *Options) { o.Rows = "events" }, `{"events":[{"label":"a","x":1},3]}`, "row 1, counted from 0: 3: expected an object with a value for each column, or an array of such objects"},
		{func(o *Options) { o.Rows = "events" }, `{"events":"no"}`, `"no": expected an object with a value for each column, or an array of such objects`},
		{func(o *Options) { o.Columns.Use = []string{"x", "user"} }, `{"label":"a","x":1,"user":{"age":3}}`, `column "user": an object: expected a number: name one of its members, as in user.age`},
		{func(o *Options) { o.Columns.Use = []string{"x", "items"} }, `{"label":"a","x":1,"items":[3]}`, `column "items": an array of 1: expected a number: name one of its values by index, as in items.0, or list only this column in examples.columns.use`},
		{func(o *Options) { o.Label = "user.kind" }, `{"user":{"sort":"a"},"x":1}`, `no column "user.kind": the message has "user" and "x": examples.label names the label column`},
		{func(o *Options) { o.Label = "tags" }, `{"tags":["a","b"],"x":1}`, `column "tags": an array of 2: expected a number or a text: name one of its values by index, as in items.0; examples.text counts the words of a list`},
		{func(*Options) {}, `{"events":[{"label":"a","x":1}]}`, `no column "label": the message has "events". The column is in "events": set examples.rows to that path`},
		{func(o *Options) { o.Columns.Use = []string{"user.age"} }, `{"label":"a","user":{"age":1,"age":2}}`, `duplicate member "age"`},
	} {
		o := ofTopic("json", func(o *Options) { o.Columns.Use = []string{"x"}; test.change(o) })
		_, err := valuesOf(t, o).Add(t.Context(), TopicMessage{Value: []byte(test.value)})
		assert.Equal(t, fmt.Sprint(err), test.reason, "%s", test.value)
	}
}

// A message with more rows than an examples message can hold is rejected before they use memory.
func TestTooManyRows(t *testing.T) {
	value := `[` + strings.TrimSuffix(strings.Repeat(`{"label":1},`, 50_000), ",") + `]`
	var columns []string
	for i := range 200 {
		columns = append(columns, fmt.Sprint("x", i))
	}
	o := ofTopic("json", func(o *Options) { o.Columns.Use, o.Missing.Mode = columns, layout.MissingMean })
	want := "row 1048, counted from 0: more than 1048 rows, which do not fit a message of examples: send fewer in a value"
	_, err := valuesOf(t, o).Add(t.Context(), TopicMessage{Value: []byte(value)})
	assert.Equal(t, fmt.Sprint(err), want, "")
}

// Served predictions are read beside the features, which do not change: columns of the row take precedence over those of the message.
func TestServedIsRead(t *testing.T) {
	answers := ofTopic("json", func(o *Options) {
		o.Rows, o.Columns.Use, o.Missing.Mode = "features", []string{"age", "version"}, layout.MissingMean
		o.Served = layout.ServedColumns{Label: "prediction.label", Version: "answer.version"}
	})
	rows := addAll(t, answers,
		`{"answer":{"version":7},"features":{"age":3,"version":1,"label":"x"},"prediction":{"label":"y","probabilities":{"y":1}}}`,
		`{"answer":{"version":"8"},"features":{"age":4,"version":2,"label":"y"},"prediction":{"label":12}}`,
		`{"features":{"age":5,"version":3,"label":"z"}}`,
		`{"answer":{"version":9},"features":[{"age":6,"label":"a"},{"age":7,"label":"b"}],"prediction":{"label":true}}`)
	want := []examples.Served{{Label: "y", Version: 7}, {Label: "12", Version: 8}, {}, {Label: "true", Version: 9}, {Label: "true", Version: 9}}
	assert.True(t, slices.Equal(rows.Served, want) && slices.Equal(rows.Words, []string{"x", "y", "z", "a", "b"}) && rows.Cols == 2 &&
		reflect.DeepEqual(rows.Floats[:6], []float32{3, 1, 4, 2, 5, 3}), "%+v", rows)
	v := valuesOf(t, answers)
	for _, c := range []struct{ value, want string }{
		{`{"answer":{"version":0},"features":{"age":1,"version":2,"label":"x"}}`, "column \"answer.version\": version \"0\": expected a whole number, from 1"},
		{`{"answer":{"version":1.5},"features":{"age":1,"version":2,"label":"x"}}`, "version \"1.5\""},
		{`{"prediction":{"label":{}},"features":{"age":1,"version":2,"label":"x"}}`, "column \"prediction.label\""},
	} {
		assert.MustFail(v.Add(t.Context(), TopicMessage{Value: []byte(c.value)}))(t, c.want)
	}
}

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

// Schema evolution: fields are added and removed, change types, and are replaced by defaults and aliases of the reader schema.
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
		`{"name":"width","type":"double","default":7.5,"aliases":["breadth"]}`, `{"name":"day","type":{"type":"int","logicalType":"date"},"default":2}`)
	assert.NoError(t, os.WriteFile(file, []byte(ours), 0o600))
	for schema, want := range map[string]string{
		"":   `5 × 3 floats [3 NaN NaN NaN 2.5 NaN 0.5 1 NaN -20 NaN NaN 4 NaN NaN] words ["b" "a" "a" "c" "a"]`,
		file: `5 × 3 floats [3 7.5 172800 NaN 2.5 172800 0.5 1 172800 -20 10 172800 4 7.5 172800] words ["b" "a" "a" "c" "a"]`,
	} {
		o := ofTopic("avro", func(o *Options) {
			o.Label, o.Columns.Use, o.Missing.Mode = "kind", []string{"length", "width", "day"}, layout.MissingMean
			o.Registry.URL, o.Schema = registered(t, schemas...).URL(), schema
		})
		got := show(*addAll(t, o, strings.Split(string(slices.Concat(values[0], []byte("|"), values[1], []byte("|"), values[2], []byte("|"),
			values[3], []byte("|"), values[4])), "|")...))
		assert.True(t, got == want, "%s: %s\nexpected %s", schema, got, want)
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
		assert.Equal(t, req.URL.Path, "/schemas/guids/30313233-3435-3637-3839-616263646566", "asked for")
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
		_, err := v.Add(t.Context(), m)
		assert.True(t, err == nil, "%v", err)
	}
	rows := v.Take()
	assert.True(t, slices.Equal(rows.Floats, []float32{7, 7, 7}), "%+v", rows)
	v = of("at.place.x")
	_, err := v.Add(t.Context(), TopicMessage{Value: framed(10, []byte{2, 'a', 18, 14})})
	assert.True(t, err == nil, "%v", err)
	rows = v.Take()
	assert.True(t, rows != nil && slices.Equal(rows.Floats, []float32{9}), "%+v", rows)
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
	assert.NoError(t, os.WriteFile(file, []byte(simple), 0o600))
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
			assert.Equal(t, o.Check(), nil, "")
			v := valuesOf(t, o)
			for range 2 { // responses of the registry are cached
				_, err := v.Add(t.Context(), test.m)
				unusable, _ := Unusable(err)
				assert.True(t, fmt.Sprint(err) == cmp.Or(test.reason, "<nil>") && (err == nil || unusable), "%v, expected %q", err, test.reason)
			}
		})
	}
}

// Protobuf messages identify their message type in the schema, before the value or in the header.
func TestMessageIndexes(t *testing.T) {
	r := registered(t, sr.Schema{Type: sr.TypeProtobuf, Schema: `syntax = "proto3"; message First { string label = 1; int32 x = 2; }
		message Second { message Within { int32 x = 1; string label = 2; } }`})
	o := ofTopic("protobuf", func(o *Options) { o.Registry.URL, o.Columns.Use = r.URL(), []string{"x"} })
	assert.Equal(t, o.Check(), nil, "")
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
		assert.True(t, (err == nil) == (test.reason == "") && (err == nil || err.Error() == test.reason),
			"%v: %v, expected %s", test.m, err, test.reason)
	}
	assert.Equal(t, show(*v.Take()), `4 × 1 floats [7 9 7 9] words ["a" "b" "a" "b"]`, "")
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
			unusable, away := Unusable(err)
			assert.True(t, err != nil && !unusable && away == test.away && strings.Contains(err.Error(), test.want),
				"%v: unusable %v, away %v", err, unusable, away)
			r.ClearInterceptors()
			_, err = v.Add(t.Context(), m)
			assert.True(t, err == nil, "when it is back: %v", err)
			r.Close()
			_, err = v.Add(t.Context(), TopicMessage{Value: framed(2, []byte{2, 'a', 14})})
			_, away = Unusable(err)
			assert.True(t, away, "when it is gone: %v", err)
			_, err = v.Add(t.Context(), m)
			assert.True(t, err == nil, "a schema that is known, when it is gone: %v", err)
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
	_, err := NewValues(o)
	assert.True(t, err != nil && strings.HasPrefix(err.Error(), "examples.registry.password_file: "), "%v", err)
	for text, works := range map[string]bool{"secret\n": true, "wrong": false} {
		assert.NoError(t, os.WriteFile(password, []byte(text), 0o600))
		_, err := valuesOf(t, o).Add(t.Context(), TopicMessage{Value: framed(1, []byte{2, 'a', 14})})
		secret := err != nil && strings.Contains(err.Error(), "wrong")
		of, is := errors.AsType[*format.RegistryError](err)
		assert.True(t, (err == nil) == works && (!is || !of.Away) && is != works && !secret, "%q: %v", text, err)
	}
}

// wide are rows of 20 numbers, words and flags, like typical events, in each format.
type wide struct {
	json, avro, protobuf []byte
}

const wideFields = 20

func wideSchemas() (avsc, proto string, columns []string) {
	var a, p strings.Builder
	a.WriteString(`{"type":"record","name":"Event","fields":[{"name":"kind","type":"string"}`)
	p.WriteString("syntax = \"proto3\"; message Event { string kind = 1;")
	for i := 1; i < wideFields; i++ {
		name := "field" + strconv.Itoa(i)
		columns = append(columns, name)
		a.WriteString(`,{"name":"` + name + `","type":` + []string{`"double"`, `["null","long"]`, `"boolean"`, `"float"`}[i%4] + `}`)
		fmt.Fprintf(&p, " %s %s = %d;", []string{"double", "optional int64", "bool", "float"}[i%4], name, i+1)
	}
	return a.String() + "]}", p.String() + " }", columns
}

func wideRows(b *testing.B, n int) (rows []wide) {
	avsc, _, columns := wideSchemas()
	schema, random := avro.MustParse(avsc), rand.New(rand.NewPCG(1, 2))
	for range n {
		kind := []string{"tall", "wide", "deep"}[random.IntN(3)]
		value, text := map[string]any{"kind": kind}, strings.Builder{}
		fmt.Fprintf(&text, `{"kind":%q`, kind)
		proto := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), kind)
		for i, name := range columns {
			var v any
			switch field := protowire.Number(i + 2); (i + 1) % 4 {
			case 0:
				x := random.NormFloat64()
				v, proto = x, protowire.AppendFixed64(protowire.AppendTag(proto, field, protowire.Fixed64Type), math.Float64bits(x))
			case 1:
				n := random.Int64N(100_000)
				v, proto = n, protowire.AppendVarint(protowire.AppendTag(proto, field, protowire.VarintType), uint64(n))
			case 2:
				is := random.IntN(2) == 0
				v, proto = is, protowire.AppendVarint(protowire.AppendTag(proto, field, protowire.VarintType), protowire.EncodeBool(is))
			case 3:
				x := float32(random.NormFloat64())
				v, proto = x, protowire.AppendFixed32(protowire.AppendTag(proto, field, protowire.Fixed32Type), math.Float32bits(x))
			}
			value[name] = v
			fmt.Fprintf(&text, `,%q:%v`, name, v)
		}
		content := assert.Must(schema.Encode(value))(b)
		rows = append(rows, wide{[]byte(text.String() + "}"), framed(1, content), framed(2, append([]byte{0}, proto...))})
	}
	return rows
}

// cpuSeconds returns the CPU time of the process.
func cpuSeconds(b *testing.B) float64 {
	var used syscall.Rusage
	assert.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
}

// BenchmarkValues converts messages with one row of 20 fields to examples messages: rows per second of CPU time, which
// does not depend on other load.
func BenchmarkValues(b *testing.B) {
	avsc, proto, columns := wideSchemas()
	rows := wideRows(b, 4096)
	for name, value := range map[string]func(wide) []byte{
		"json": func(w wide) []byte { return w.json }, "avro": func(w wide) []byte { return w.avro }, "protobuf": func(w wide) []byte { return w.protobuf },
	} {
		b.Run(name, func(b *testing.B) {
			registry := registered(b, sr.Schema{Schema: avsc}, sr.Schema{Schema: proto, Type: sr.TypeProtobuf})
			v, err := NewValues(ofTopic(name, func(o *Options) {
				o.Label, o.Columns.Use, o.Missing.Mode = "kind", columns, layout.MissingMean
				if name != "json" {
					o.Registry.URL = registry.URL()
				}
			}))
			assert.NoError(b, err)
			b.ReportAllocs()
			began := cpuSeconds(b)
			for i := 0; b.Loop(); i++ {
				_, err := v.Add(b.Context(), TopicMessage{Offset: int64(i), Value: value(rows[i%len(rows)])})
				assert.Need(b, err == nil, "%v", err)
				if v.Full() {
					origin := schemas.Origin{Source: schemas.TopicSource("clicks"), Attempt: "1"}
					_, err := origin.TopicMessage([]schemas.TopicPosition{{Next: 1}}, v.Take(), memory.DefaultAllocator)
					assert.Need(b, err == nil, "%v", err)
				}
			}
			b.ReportMetric(float64(b.N)/(cpuSeconds(b)-began), "rows/cpu-s")
		})
	}
}
