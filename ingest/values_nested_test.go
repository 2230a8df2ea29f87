package ingest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
)

// addAll adds valid values, and returns the batch without the origins of its rows.
func addAll(t *testing.T, o Options, values ...string) *examples.Rows {
	t.Helper()
	if problems := o.Check(); problems != nil {
		t.Fatal(problems)
	}
	if o.FindsWords() {
		words, err := NewTopicWords(o)
		noError(t, err)
		for _, value := range values {
			noError(t, words.Add(t.Context(), TopicMessage{Value: []byte(value)}))
		}
		if o, err = words.Options(); err != nil {
			t.Fatal(err)
		}
	}
	v := valuesOf(t, o)
	for _, value := range values {
		if full, err := v.Add(t.Context(), TopicMessage{Value: []byte(value)}); full || err != nil {
			t.Fatalf("%s: %v, %v", value, full, err)
		}
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
			if show(*got) != show(*want) || fmt.Sprint(got.Weights) != fmt.Sprint(want.Weights) {
				t.Errorf("%s %v\nexpected %s %v", show(*got), got.Weights, show(*want), want.Weights)
			}
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
		{func(o *Options) { o.Rows = "events" }, `[{}]`, `no rows at "events" (examples.rows): the message has no members`},
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
		if _, err := valuesOf(t, o).Add(t.Context(), TopicMessage{Value: []byte(test.value)}); err == nil || err.Error() != test.reason {
			t.Errorf("%s: %v, expected %s", test.value, err, test.reason)
		}
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
	if _, err := valuesOf(t, o).Add(t.Context(), TopicMessage{Value: []byte(value)}); err == nil || err.Error() != want {
		t.Errorf("%v, expected %s", err, want)
	}
}
