package ingest

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"github.com/apache/arrow/go/v17/arrow"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/ingest/outcome"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// inFormat is a row with a key, a label or none, and a number in a format, and the configuration for reading it.
type inFormat struct {
	encode              func(id, kind string, x float64) []byte
	id, kind, x, schema string
}

// inFormats returns this for each format.
func inFormats(t *testing.T) map[string]inFormat {
	t.Helper()
	text := arrow.BinaryTypes.String
	b := table{fields: []arrow.Field{nullable("of", arrow.StructOf(nullable("id", text))), nullable("kind", text), nullable("x", arrow.PrimitiveTypes.Float64)},
		flat: []string{"of.id", "x", "kind"}}
	schema := newFolder(t).write(t, "events.avsc", []byte(b.avro(t)))
	all := map[string]inFormat{}
	for _, format := range []string{"json", "csv", "avro", "arrow"} {
		f := inFormat{id: "of.id", kind: "kind", x: "x", encode: func(id, kind string, x float64) []byte {
			row := map[string]any{"of": map[string]any{"id": id}, "x": x}
			if kind != "" {
				row["kind"] = kind
			}
			return b.message(t, format, string(assert.Must(json.Marshal(row))(t)))
		}}
		switch format {
		case "csv":
			f.id, f.x, f.kind = "0", "1", "2"
		case "avro":
			f.schema = schema
		}
		all[format] = f
	}
	return all
}

// Rows wait under a key in the value or the message key, and get their labels from outcomes, in every format.
func TestOutcomesInFormats(t *testing.T) {
	for name, f := range inFormats(t) {
		o := Defaults()
		o.FromTopic, o.Format, o.JoinKey, o.Schema, o.Columns.Use = "rows", name, f.id, f.schema, []string{f.x}
		o.Outcome.Topic, o.Outcome.Key, o.Outcome.Label, o.Outcome.Within, o.Outcome.Absent = "outcomes", f.id, f.kind, time.Hour, []string{"none"}
		o.Classes = []string{"yes", "none"}
		problems := o.Check()
		assert.Need(t, len(problems) == 0, "%v", problems)
		keys := assert.Must(NewRowKeys(o, nil))(t)
		row := TopicMessage{Key: "other", Value: f.encode("a", "", 2)}
		key, ok, err := keys.Of(t.Context(), row)
		assert.True(t, key == "a" && ok && err == nil, "%s: the key of a row is %q, %v, %v", name, key, ok, err)
		_, ok, err = keys.Of(t.Context(), TopicMessage{Key: "a"})
		assert.True(t, !ok && err == nil, "%s: a tombstone has rows: %v, %v", name, ok, err)
		_, _, err = keys.Of(t.Context(), TopicMessage{Value: f.encode("", "", 1)})
		assert.True(t, err != nil && strings.Contains(err.Error(), "examples.key"), "%s: a row without a key: %v", name, err)
		outcomes := assert.Must(NewOutcomes(o, nil))(t)
		labels, err := outcomes.Read(t.Context(), TopicMessage{Value: f.encode("a", "yes", 0)})
		assert.True(t, err == nil && len(labels) == 1 && labels[0].Key == "a" && content(labels[0].Label) == "yes",
			"%s: an outcome is %v, %v", name, labels, err)
		labels, err = outcomes.Read(t.Context(), TopicMessage{Key: "a"})
		assert.True(t, len(labels) == 0 && err == nil, "%s: an empty value is %v, %v", name, labels, err)
		for what, value := range map[string][]byte{"outcome.key": f.encode("", "yes", 0), "outcome.label": f.encode("a", "", 0)} {
			_, err := outcomes.Read(t.Context(), TopicMessage{Value: value})
			assert.True(t, err != nil && strings.Contains(err.Error(), "examples."+what), "%s: without %s: %v", name, what, err)
		}
		values := assert.Must(NewValues(o))(t)
		assert.NoError(t, assert.Must(NewValues(o))(t).Check(t.Context(), row))
		for _, label := range []string{"yes", "none"} {
			full, err := values.AddLabelled(t.Context(), row, encode(tabular.Word(label)))
			assert.Need(t, !full && err == nil, "%s: %v, %v", name, full, err)
		}
		rows := values.Take()
		assert.True(t, rows.Rows == 2 && rows.Words[0] == "yes" && rows.Words[1] == "none" && rows.Floats[1] == 2 &&
			rows.SourceKeys[0] == "other", "%s: the rows are %+v", name, rows)
	}
}

// Outcomes with several labels, as lists or texts, and with targets are applied to rows, in every format and with two formats.
func TestOutcomesOfSeveralLabelsAndOfNumbers(t *testing.T) {
	formats := inFormats(t)
	for rows, f := range formats {
		for outcomes, g := range formats {
			for _, several := range []bool{true, false} {
				o := Defaults()
				o.FromTopic, o.Format, o.JoinKey, o.Schema, o.Columns.Use = "rows", rows, f.id, f.schema, []string{f.x}
				o.Outcome.Topic, o.Outcome.Format, o.Outcome.Schema, o.Outcome.Key, o.Outcome.Within = "outcomes", outcomes, g.schema, g.id, time.Hour
				if several {
					o.Labels, o.Outcome.Label, o.Outcome.Absent = layout.LabelsSeveral, g.kind, []string{}
				} else {
					o.Targets, o.Outcome.Absent = []string{g.x}, []string{"-1"}
				}
				problems := o.Check()
				assert.Need(t, len(problems) == 0, "%v", problems)
				said, err := assert.Must(NewOutcomes(o, nil))(t).Read(t.Context(), TopicMessage{Value: g.encode("a", "yes;no", 0.1)})
				assert.Need(t, err == nil && len(said) == 1 && said[0].Key == "a", "%s: an outcome is %v, %v", outcomes, said, err)
				absent, ok := o.WhenAbsent()
				assert.Need(t, ok, "rows without an outcome are no examples")
				values := assert.Must(NewValues(o))(t)
				for _, says := range []string{said[0].Label, absent} {
					full, err := values.AddLabelled(t.Context(), TopicMessage{Value: f.encode("a", "", 2)}, says)
					assert.Need(t, !full && err == nil, "%s, %s: %v, %v", rows, outcomes, full, err)
				}
				got := values.Take()
				labels, is := got.LabelLists, fmt.Sprint(rows, ", ", outcomes)
				assert.True(t, got.Rows == 2 && got.Cols == 1 && slices.Equal(got.Floats, []float32{2, 2}), "%s: the rows are %+v", is, got)
				assert.True(t, several || slices.Equal(got.Targets, []float64{0.1, -1}), "%s: the targets are %v", is, got.Targets)
				assert.True(t, !several || slices.Equal(labels[0], []string{"yes", "no"}) && labels[1] != nil && len(labels[1]) == 0,
					"%s: the labels are %q", is, labels)
			}
		}
	}
}

// cellsAt returns the values of an outcome by their paths.
func cellsAt(cells map[string]tabular.Cell) func(string) *tabular.Cell {
	return func(path string) *tabular.Cell {
		c := cells[path]
		return &c
	}
}

// content formats the content of an outcome.
func content(said string) string {
	if said == "" {
		return ""
	}
	var texts []string
	for _, c := range tabular.ReadRows([]byte(said))[0] {
		text, _ := c.Text()
		if list, err := c.Texts(); err == nil && c.IsList() {
			text = fmt.Sprintf("%q", list)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ",")
}

// An outcome has the values at its paths, and is rejected if these can't be predicted.
func TestContentOfOutcomes(t *testing.T) {
	list := func(items ...string) tabular.Cell {
		return tabular.JSON(value.Cell("[" + strings.Join(items, ",") + "]"))
	}
	one, several := predicted{Label: "kind"}, predicted{Task: examples.SeveralLabels, Label: "kind"}
	columns := predicted{Task: examples.SeveralLabels, Columns: []string{"a", "b"}}
	numbers := predicted{Task: examples.Numbers, Columns: []string{"a", "b"}}
	for _, test := range []struct {
		p          predicted
		a, b, kind tabular.Cell
		want, err  string
	}{
		{p: one, kind: tabular.Word("book"), want: "book"},
		{p: one, kind: tabular.Float(1.5), want: "1.5"},
		{p: one, kind: tabular.Word(""), err: "examples.outcome.label"},
		{p: one, kind: list(`"book"`), err: "examples.outcome.label"},
		{p: several, kind: list(`"book"`, "7", "true"), want: `["book" "7" "true"]`},
		{p: several, kind: list(), want: "[]"},
		{p: several, kind: tabular.Items(nil), want: "[]"},
		{p: several, kind: tabular.Word(""), want: ""},
		{p: several, kind: tabular.Word("book|film"), want: "book|film"},
		{p: several, err: "examples.outcome.label"},
		{p: several, kind: list(`["book"]`), err: "examples.outcome.label"},
		{p: columns, a: tabular.Truth(false), b: tabular.Word(" 1"), want: `["b"]`},
		{p: columns, a: tabular.Integer(0), b: tabular.Float(0), want: "[]"},
		{p: columns, a: tabular.Integer(2), b: tabular.Integer(0), err: `examples.label_columns: "a": "2"`},
		{p: columns, a: tabular.Integer(1), err: `examples.label_columns: "b"`},
		{p: numbers, a: tabular.Word("1e3"), b: tabular.Float(-0.1), want: "1000,-0.1"},
		{p: numbers, a: tabular.Word("many"), b: tabular.Float(1), err: `examples.targets: "a"`},
		{p: numbers, a: tabular.Float(1), err: `examples.targets: "b": a missing value`},
		{p: numbers, a: tabular.Float(1), b: tabular.Float(1e39), err: `examples.targets: "b"`},
	} {
		said, err := test.p.Read(cellsAt(map[string]tabular.Cell{"a": test.a, "b": test.b, "kind": test.kind}))
		said = content(said)
		assert.True(t, said == test.want && (err != nil) == (test.err != "") && (err == nil || strings.Contains(err.Error(), test.err)),
			"%+v says %q, %v; expected %q, %q", test, said, err, test.want, test.err)
	}
}

// The content for rows without an outcome is a valid content of outcomes, or they are skipped.
func TestWhenAbsent(t *testing.T) {
	for _, test := range []struct {
		rows   layout.Options
		absent []string
		want   string
		skips  bool
	}{
		{absent: []string{"none"}, want: "none"},
		{absent: []string{"skip"}, skips: true},
		{rows: layout.Options{Labels: layout.LabelsSeveral}, absent: []string{}, want: "[]"},
		{rows: layout.Options{Labels: layout.LabelsSeveral}, absent: []string{"a", "b"}, want: `["a" "b"]`},
		{rows: layout.Options{Labels: layout.LabelsSeveral}, absent: []string{"skip"}, skips: true},
		{rows: layout.Options{Targets: []string{"x", "y"}}, absent: []string{"0.5"}, want: "0.5,0.5"},
		{rows: layout.Options{Targets: []string{"x", "y"}}, absent: []string{"1", "-2"}, want: "1,-2"},
		{rows: layout.Options{Targets: []string{"x", "y"}}, absent: []string{"skip"}, skips: true},
	} {
		said, ok := Options{Options: test.rows, Outcome: outcome.Options{Label: "kind", Absent: test.absent}}.WhenAbsent()
		assert.True(t, content(said) == test.want && ok != test.skips, "%+v: %q, %v", test, said, ok)
	}
}

// Numbers become targets without loss of precision.
func TestNumbersKeepTheirBits(t *testing.T) {
	p := predicted{Task: examples.Numbers, Columns: []string{"x", "y"}}
	err := quick.Check(func(x float64, y float32, whole int64) bool {
		x = math.Mod(x, math.MaxFloat32)
		for _, c := range [][2]tabular.Cell{{tabular.Float(x), tabular.Float(float64(y))}, {tabular.Float(x), tabular.Integer(whole)}} {
			said, err := p.Read(cellsAt(map[string]tabular.Cell{"x": c[0], "y": c[1]}))
			assert.NoError(t, err)
			for i, got := range tabular.ReadRows([]byte(said))[0] {
				want, _ := c[i].Number(value.Missing{})
				if v, err := got.Number(value.Missing{}); v != want || err != nil {
					t.Errorf("%v is %v in %s: %v", want, v, said, err)
					return false
				}
			}
		}
		return true
	}, nil)
	assert.Fails(t, err, nil)
}
