package typed

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/twmb/avro"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/arrowtest"
)

// avroReader returns a reader of columns, the first of which is the label.
func avroReader(t *testing.T, rows string, columns ...string) *format.RowReader {
	t.Helper()
	o := format.Options{Options: layout.Defaults(), Settings: format.Settings{Rows: rows}}
	o.Label, o.Columns.Use = layout.Column(columns[0]), columns[1:]
	r := arrowtest.Must(Avro().NewReader(o))(t)
	return r
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
	content := arrowtest.Must(avro.MustParse(schema).Encode(value))(t)
	return r.Read(t.Context(), format.Payload{Value: content, Schema: &format.Schema{Name: "schema 1", Type: "AVRO", Text: schema}})
}

const event = `{"type":"record","name":"Event","fields":[
	{"name":"before","type":["null",{"type":"record","name":"Row","fields":[{"name":"v","type":"int"},{"name":"next","type":["null","Row"]}]}]},
	{"name":"kind","type":{"type":"enum","name":"Kind","symbols":["a","b"]}},
	{"name":"n","type":"long"},{"name":"i","type":["null","int"]},{"name":"f","type":"float"},{"name":"d","type":["double","string"]},
	{"name":"yes","type":"boolean"},{"name":"s","type":"string"},{"name":"raw","type":"bytes"},
	{"name":"price","type":{"type":"bytes","logicalType":"decimal","precision":20,"scale":2}},
	{"name":"at","type":{"type":"long","logicalType":"timestamp-millis"}},
	{"name":"us","type":{"type":"long","logicalType":"timestamp-micros"}},
	{"name":"ns","type":{"type":"long","logicalType":"timestamp-nanos"}},
	{"name":"day","type":{"type":"int","logicalType":"date"}},
	{"name":"user","type":["null",{"type":"record","name":"User","fields":[{"name":"age","type":"int"},{"name":"tags","type":{"type":"array","items":"string"}}]}]},
	{"name":"items","type":{"type":"array","items":{"type":"record","name":"Item","fields":[{"name":"price","type":"double"},{"name":"row","type":["null","Row"]}]}}},
	{"name":"counts","type":{"type":"map","values":"long"}},
	{"name":"id","type":{"type":"fixed","name":"Id","size":2}}]}`

func valueOf() map[string]any {
	row := map[string]any{"v": 1, "next": map[string]any{"Row": map[string]any{"v": 2, "next": nil}}}
	return map[string]any{
		"before": map[string]any{"Row": row}, "kind": "b", "n": int64(-5), "i": nil, "f": float32(0.5), "d": 2.25, "yes": true, "s": "text",
		"raw": []byte("ab"), "price": big.NewRat(-12345, 100), "at": int64(1500), "us": int64(-2_500_000), "ns": int64(3_000_000_001), "day": 2,
		"user":   map[string]any{"User": map[string]any{"age": 30, "tags": []string{"x", "y"}}},
		"items":  []any{map[string]any{"price": 1.5, "row": nil}, map[string]any{"price": 2.5, "row": map[string]any{"Row": row}}},
		"counts": map[string]any{"a": int64(3), "b": int64(4)}, "id": [2]byte{'o', 'k'},
	}
}

// Every type can be a cell, at any depth, and unwanted values are skipped. Times are in seconds, whatever their unit.
func TestAvro(t *testing.T) {
	schema := event // without logical types, because the encoder would expect times
	for _, logical := range []string{"timestamp-millis", "timestamp-micros", "timestamp-nanos", "date"} {
		schema = strings.ReplaceAll(schema, `,"logicalType":"`+logical+`"`, "")
	}
	content := arrowtest.Must(avro.MustParse(schema).Encode(valueOf()))(t)
	r := avroReader(t, "", "kind", "n", "i", "f", "d", "yes", "s", "raw", "price", "at", "us", "ns", "day", "user.age", "user.tags", "user.tags.1",
		"items.1.price", "items.7.price", "items.1.row.next.v", "counts.b", "id", "before.next.v", "user", "items", "nowhere.at.all")
	rows, err := r.Read(t.Context(), format.Payload{Value: content, Schema: &format.Schema{Name: "schema 1", Type: "AVRO", Text: event}})
	arrowtest.NoError(t, err)
	want := `[["b" -5 null 0.5 2.25 true "text" "ab" -123.45 1.5 -2.5 3.000000001 172800 30 ["x" "y"] "y" 2.5 null 2 4 "ok" 2 an object [an object an object] null]]`
	if got := fmt.Sprint(texts(rows)); got != want {
		t.Errorf("%s\nexpected %s", got, want)
	}
	for n := range content {
		if _, err := r.Read(t.Context(), format.Payload{Value: content[:n], Schema: &format.Schema{Name: "schema 1", Text: event}}); err == nil {
			t.Errorf("the first %d bytes are read", n)
		}
	}
	more := append(content[:len(content):len(content)], 0)
	if _, err := r.Read(t.Context(), format.Payload{Value: more, Schema: &format.Schema{Name: "schema 1", Text: event}}); err == nil ||
		err.Error() != "1 bytes behind the value: is it written with schema 1?" {
		t.Error(err)
	}
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
		if got := fmt.Sprint(texts(rows)); err != nil || got != test.want {
			t.Errorf("%v: %s, %v, expected %s", test.of, got, err, test.want)
		}
	}
	for schema, want := range map[string]string{
		`{"type":"record","name":"M","fields":[{"name":"who","type":"string"}]}`: `no rows at "of.rows" (examples.rows): the message has "who"`,
	} {
		if _, err := read(t, r, schema, map[string]any{"who": "x"}); err == nil || err.Error() != want {
			t.Errorf("%v, expected %s", err, want)
		}
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
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, expected %s", text, err, want)
		}
	}
}

// Schemas may reference others, transitively.
func TestAvroReferences(t *testing.T) {
	s := &format.Schema{Name: "schema 1", Text: `{"type":"record","name":"M","namespace":"shop","fields":[
		{"name":"label","type":"shop.Kind"},{"name":"at","type":"shop.Place"}]}`, References: []format.Reference{
		{Name: "shop.Kind", Text: `{"type":"enum","name":"Kind","namespace":"shop","symbols":["a","b"]}`},
		{Name: "shop.Point", Text: `{"type":"record","name":"Point","namespace":"shop","fields":[{"name":"x","type":"int"}]}`},
		{Name: "shop.Place", Text: `{"type":"record","name":"Place","namespace":"shop","fields":[{"name":"point","type":"Point"}]}`}}}
	rows, err := avroReader(t, "", "label", "at.point.x").Read(t.Context(), format.Payload{Value: []byte{2, 14}, Schema: s})
	if got := fmt.Sprint(texts(rows)); err != nil || got != `[["b" 7]]` {
		t.Errorf("%s, %v", got, err)
	}
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
		if err == nil || !strings.Contains(err.Error(), "too many items that take no bytes") {
			t.Errorf("%s: %v", inner, err)
		}
		if _, err := avroReader(t, "", "kind", "x").Read(t.Context(), format.Payload{Value: []byte{2, 'a', 2, 20, 0, 0}, Schema: s}); err != nil {
			t.Errorf("%s: %v", inner, err)
		}
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
			if err == nil && len(rows) > 100_000 {
				t.Errorf("%d rows of %d bytes", len(rows), len(value))
			}
		}
	})
}
