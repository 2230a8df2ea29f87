package ingest

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/schemas"
)

// ofTopic returns options for a topic of values.
func ofTopic(format string, change func(*Options)) Options {
	o := Defaults()
	o.FromTopic, o.Format = "clicks", format
	change(&o)
	return o
}

// A value in CSV is some lines; in JSON it is an object or an array of them. The keys of columns mean what they mean for files.
func TestValues(t *testing.T) {
	nan := float32(math.NaN())
	use := func(names ...string) func(*Options) {
		return func(o *Options) { o.Columns.Use, o.Label, o.Missing = names, "kind", MissingMean }
	}
	numbers := func(o *Options) { o.Missing = MissingMean }
	for name, test := range map[string]struct {
		options Options
		values  []string
		want    schemas.ExampleRows
	}{
		"lines": {
			ofTopic("csv", numbers), []string{"a,1,2", "b,3,\n\nc, NA ,6\n"},
			schemas.ExampleRows{Rows: 3, Cols: 2, Floats: []float32{1, 2, 3, nan, nan, 6}, Words: []string{"a", "b", "c"}},
		},
		"lines with columns by number": {
			ofTopic("csv", func(o *Options) { o.Columns.Use, o.Label, o.Weight, o.Delimiter = []string{"3", "1"}, "2", "0", ";" }),
			[]string{"2;10;a;11", "3;20;\"b\";21;more"},
			schemas.ExampleRows{Rows: 2, Cols: 2, Floats: []float32{10, 11, 20, 21}, Words: []string{"a", "b"}, Weights: []float32{2, 3}},
		},
		"objects": {
			ofTopic("json", use("length", "width")), []string{`{"kind":"a","width":2,"length":1,"more":{}}`, `[{"kind":7,"width":null,"length":"1e3"},{"kind":true,"width":true}]`, "[]"},
			schemas.ExampleRows{
				Rows: 3, Cols: 2, Floats: []float32{1, 2, 1000, nan, nan, 1}, Words: []string{"a", "7", "1"}, Columns: schemas.Columns{{Name: "length"}, {Name: "width"}},
			},
		},
		"messages with keys": {
			ofTopic("csv", numbers), []string{"key:a,1,2", "b,3,4\nc,5,6", "key:d,7,8\ne,9,10"},
			schemas.ExampleRows{
				Rows: 5, Cols: 2, Floats: []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, Words: []string{"a", "b", "c", "d", "e"}, SourceKeys: []string{"key", "", "", "key", "key"},
			},
		},
		"arrays of features": {
			ofTopic("json", func(o *Options) { o.Columns.Use, o.Weight = []string{"features"}, "w" }), []string{`{"label":"a","features":[1,2,3],"w":0.5}`, `{"label":"b","features":[4,5,6],"w":1}`},
			schemas.ExampleRows{Rows: 2, Cols: 3, Floats: []float32{1, 2, 3, 4, 5, 6}, Words: []string{"a", "b"}, Weights: []float32{0.5, 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if problems := test.options.Check(); problems != nil {
				t.Fatal(problems)
			}
			v := NewValues(test.options)
			for i, text := range test.values {
				m, before := TopicMessage{Partition: 3, Offset: int64(10 + i)}, v.batch.Rows
				if key, value, ok := strings.Cut(text, ":"); ok && key == "key" {
					m.Key, text = key, value
				}
				m.Value = []byte(text)
				if full, err := v.Add(m); full || err != nil {
					t.Fatalf("%s: %v, %v", text, full, err)
				}
				if added := v.batch.Rows - before; added > 0 {
					test.want.Origins = test.want.Origins.Append(3, m.Offset, added)
				}
			}
			if got := v.Take(); fmt.Sprintf("%+v", *got) != fmt.Sprintf("%+v", test.want) {
				t.Errorf("got %+v\nexpected %+v", *got, test.want)
			}
			if again := v.Take(); again != nil {
				t.Errorf("the batch was taken, and there is %+v", again)
			}
		})
	}
}

// A value that can't be used has a reason, and changes nothing.
func TestValuesThatCantBeUsed(t *testing.T) {
	for _, test := range []struct{ format, value, reason string }{
		{"csv", "", "an empty value: expected one example a line, without a header"},
		{"csv", "\n", "an empty value: expected one example a line, without a header"},
		{"csv", "a,1", "1 features, expected 2 as in the values before"},
		{"csv", "a,1,x", `column 2: "x" is not a number`},
		{"csv", "a,1,2\nb,\"1,5\",2", `row 1, counted from 0: column 1: "1,5" is not a number: write decimals with a point`},
		{"csv", "a,1,", "column 2: no value: examples.missing: mean takes the mean of the column"},
		{"csv", ",1,2", "column 0: an empty label"},
		{"csv", "a,\"1,2", `line 1, byte 7: extraneous or missing " in quoted-field`},
		{"json", "", "an empty value: expected an object with a value for each column, or an array of such objects"},
		{"json", "{", "not JSON: it ends too early"},
		{"json", "{]", "not JSON: byte 2: invalid character ']' looking for beginning of object key string"},
		{"json", "{} {}", "something follows the JSON: expected an object with a value for each column, or an array of such objects"},
		{"json", "3", "3: expected an object with a value for each column, or an array of such objects"},
		{"json", `[{"label":"a","x":1,"y":2},4]`, "row 1, counted from 0: 4: expected an object with a value for each column, or an array of such objects"},
		{"json", `{"label":"a","x":1}`, `column "y": no value: examples.missing: mean takes the mean of the column`},
		{"json", `{"label":"a","x":1,"y":1e99}`, `column "y": "1e99" is too large for a float32`},
		{"json", `{"label":"a","x":1,"y":{}}`, `column "y": an object: expected a number or a text`},
		{"json", `{"x":1,"y":2}`, `column "label": an empty label`},
	} {
		o := ofTopic(test.format, func(o *Options) {
			if o.Format == "json" {
				o.Columns.Use = []string{"x", "y"}
			}
		})
		good := map[string]string{"csv": "a,1,2", "json": `{"label":"a","x":1,"y":2}`}[test.format]
		v := NewValues(o)
		for _, value := range []string{good, test.value, good} {
			full, err := v.Add(TopicMessage{Value: []byte(value)})
			if value != good && (err == nil || err.Error() != test.reason) || value == good && err != nil || full {
				t.Errorf("%s: %v, %v, expected %s", value, full, err, test.reason)
			}
		}
		if rows := v.Take(); rows.Rows != 2 || !slices.Equal(rows.Floats, []float32{1, 2, 1, 2}) || !slices.Equal(rows.Words, []string{"a", "a"}) {
			t.Errorf("%s: after it, the batch has %+v", test.value, rows)
		}
	}
}

// The first value that can be used says how many columns there are.
func TestFirstValues(t *testing.T) {
	v := NewValues(ofTopic("csv", func(*Options) {}))
	for _, test := range []struct {
		value string
		works bool
	}{{"a,b,c,d", false}, {"label,length,width", false}, {"a,1,2", true}, {"a,1,2,3", false}} {
		if _, err := v.Add(TopicMessage{Value: []byte(test.value)}); (err == nil) != test.works {
			t.Errorf("%s: %v", test.value, err)
		}
	}
}

// A batch has whole values, as many as fit a message.
func TestBatchesOfValues(t *testing.T) {
	v := NewValues(ofTopic("csv", func(o *Options) { o.BatchRows = 3 }))
	for i, test := range []struct {
		value      string
		full, over bool // before and after
	}{{"a,1\nb,2", false, false}, {"c,3\nd,4", true, false}, {"c,3", false, true}} {
		full, err := v.Add(TopicMessage{Value: []byte(test.value)})
		if full != test.full || err != nil || v.Full() != test.over {
			t.Errorf("value %d: full %v, then %v, %v", i, full, v.Full(), err)
		}
	}
	if rows := v.Take(); !slices.Equal(rows.Words, []string{"a", "b", "c"}) {
		t.Errorf("%+v", rows)
	}
	if _, err := v.Add(TopicMessage{Value: []byte("a,1\nb,2\nc,3\nd,4")}); err != nil || v.Take().Rows != 4 {
		t.Errorf("a value with more rows than a batch: %v", err)
	}
	wide := NewValues(ofTopic("csv", func(*Options) {}))
	if _, err := wide.Add(TopicMessage{Value: []byte(strings.Repeat("a"+strings.Repeat(",1", 100_000)+"\n", 3))}); err == nil || err.Error() != "3 examples do not fit a message of 900000 bytes: send fewer in a value" {
		t.Errorf("a value that does not fit: %v", err)
	}
	for i := range 3 {
		if full, err := wide.Add(TopicMessage{Value: []byte("a" + strings.Repeat(",1", 100_000))}); err != nil || full != (i == 2) {
			t.Errorf("wide value %d: %v, %v", i, full, err)
		}
	}
}

func TestCheckFromTopic(t *testing.T) {
	yes := true
	for _, test := range []struct {
		options Options
		want    schemas.Problem
	}{
		{ofTopic("csv", func(o *Options) { o.Train = []string{"a.csv"} }), schemas.Problem{Key: "from_topic", Value: "clicks", Want: "no files under examples.train and examples.test beside it: ingest files first, or follow the topic"}},
		{ofTopic("", func(*Options) {}), schemas.Problem{Key: "format", Value: `""`, Want: "json or csv, as examples.from_topic is set"}},
		{ofTopic("parquet", func(*Options) {}), schemas.Problem{Key: "format", Value: `"parquet"`, Want: "json or csv, as examples.from_topic is set"}},
		{ofTopic("csv", func(o *Options) { o.Header = &yes }), schemas.Problem{Key: "header", Value: "true", Want: "false: the values of a topic have no header"}},
		{ofTopic("csv", func(o *Options) { o.Categorical = []string{"1"} }), schemas.Problem{Key: "categorical", Value: "[1]", Want: "no columns, as examples.from_topic is set: the words of a topic are not known before it is read. Let the producer write a number for each word"}},
		{ofTopic("csv", func(o *Options) { o.Label = "kind" }), schemas.Problem{Key: "from_topic", Value: "clicks", Want: `columns by their numbers, from 0, unlike "kind": the values of a topic have no header`}},
		{ofTopic("csv", func(o *Options) { o.Delimiter = "::" }), schemas.Problem{Key: "delimiter", Value: `"::"`, Want: "one character"}},
		{ofTopic("csv", func(o *Options) { o.Weight = "0" }), schemas.Problem{Key: "weight", Value: "0", Want: "another column than the label's"}},
		{ofTopic("json", func(*Options) {}), schemas.Problem{Key: "columns.use", Value: "[]", Want: "the columns that become features: each message may have others"}},
		{ofTopic("json", func(o *Options) { o.Columns.Use, o.Columns.Drop = []string{"x"}, []string{"y"} }), schemas.Problem{Key: "columns.drop", Value: "[y]", Want: "no columns: only those of columns.use become features"}},
		{ofTopic("json", func(o *Options) { o.Columns.Use = []string{"label"} }), schemas.Problem{Key: "columns.use", Value: "label", Want: "other columns than those of the label and the weight"}},
	} {
		if got := test.options.Check(); !reflect.DeepEqual(got, []schemas.Problem{test.want}) {
			t.Errorf("got %v, expected %v", got, test.want)
		}
	}
}

// Whatever strangers send, a batch is whole rows that a message can have, and a value that can't be used changes nothing.
func FuzzValues(f *testing.F) {
	for _, value := range []string{"a,1,2\nb,NA,4", `{"label":"a","features":[1,null]}`, `[{"label":1,"features":true,"w":2}]`, `{"label":"a","features":[]}`, "a,\"1", "\xff,1,2"} {
		f.Add([]byte(value), []byte(value))
	}
	all := []Options{
		ofTopic("csv", func(o *Options) { o.Missing = MissingMean }),
		ofTopic("csv", func(o *Options) { o.Columns.Use, o.Weight = []string{"2"}, "1" }),
		ofTopic("json", func(o *Options) { o.Columns.Use, o.Missing = []string{"features"}, MissingMean }),
		ofTopic("json", func(o *Options) { o.Columns.Use, o.Weight = []string{"features", "more"}, "w" }),
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		for _, o := range all {
			o.BatchRows = 2
			v := NewValues(o)
			for _, value := range [][]byte{first, second, second} {
				before := v.batch.Rows
				full, err := v.Add(TopicMessage{Value: value})
				if (full || err != nil) && v.batch.Rows != before {
					t.Errorf("%q: full %v, %v: %d rows, before %d", value, full, err, v.batch.Rows, before)
				}
			}
			rows := v.Take()
			if rows == nil {
				continue
			}
			m, err := schemas.Origin{Source: schemas.TopicSource("clicks"), Attempt: "1"}.TopicMessage([]schemas.TopicPosition{{Next: 1}}, rows, memory.DefaultAllocator)
			if err != nil {
				t.Fatal(err)
			}
			examples, err := schemas.DecodeExamples(m.Value, memory.DefaultAllocator)
			if err != nil || examples.Rows != rows.Rows {
				t.Fatalf("%q, %q: %+v, %v", first, second, examples, err)
			}
			examples.Release()
		}
	})
}
