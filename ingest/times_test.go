package ingest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// dated is rows with a time, which may be missing, a number and a label.
type dated struct {
	times  []time.Time // zero: missing
	newest time.Time
}

func newDated(n int) (d dated) {
	r := rand.New(rand.NewPCG(4, 4))
	for i := range n {
		at := time.Unix(1_790_000_000+r.Int64N(10_000_000), 1e6*r.Int64N(1000)).UTC()
		if d.times = append(d.times, at); i%7 == 3 {
			d.times[i] = time.Time{}
		} else if at.After(d.newest) {
			d.newest = at
		}
	}
	return d
}

// text formats a time for a file; "": it is missing.
func (d dated) text(i int, layout string) string {
	if d.times[i].IsZero() {
		return ""
	}
	return d.times[i].Format(layout)
}

// features returns the features of rows by definition: hour and age, relative to a time, then the number.
func (d dated) features(from time.Time) (features []float32) {
	for i, at := range d.times {
		hour, age := float32(math.NaN()), float32(math.NaN())
		if !at.IsZero() {
			since := time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC)
			hour, age = float32(at.Sub(since).Hours()), float32(from.Sub(at).Hours()/24)
		}
		features = append(features, hour, age, float32(i))
	}
	return features
}

func near(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool {
		return x != x && y != y || math.Abs(float64(x-y)) <= 1e-6*max(1, math.Abs(float64(x)))
	})
}

func withTimes(o *Options) {
	o.Label, o.Missing.Mode = "label", layout.MissingMean
	o.Times = layout.PartsOfTimes(map[string][]string{"at": {"hour", "age"}})
}

// table returns the rows, with times of a type, as text formats them.
func (d dated) table(of arrow.DataType, text func(time.Time) string) table {
	b := table{flat: []string{"at", "x", "label"}, fields: []arrow.Field{nullable("at", of), nullable("x", arrow.PrimitiveTypes.Int32),
		nullable("label", arrow.BinaryTypes.String)}}
	for i, at := range d.times {
		value := "null"
		if !at.IsZero() {
			value = text(at)
		}
		b.rows = append(b.rows, fmt.Sprintf(`{"at":%s,"x":%d,"label":"l%d"}`, value, i, i%2))
	}
	return b
}

// Times become the same features from every format, by definition, whether they are times or milliseconds since 1970.
func TestTimes(t *testing.T) {
	d := newDated(100)
	want := d.features(d.newest)
	for unit, b := range map[string]table{
		"":             d.table(arrow.FixedWidthTypes.Timestamp_ms, func(at time.Time) string { return strconv.Quote(at.Format(tableTime)) }),
		`,"unit":"ms"`: d.table(arrow.PrimitiveTypes.Int64, func(at time.Time) string { return fmt.Sprint(at.UnixMilli()) }),
	} {
		b.inFiles(t, withTimes, func(way, columns string, rows *examples.Rows) {
			assert.True(t, near(rows.Floats, want), "%s: features %v, expected %v", way, rows.Floats[:9], want[:9])
			assert.True(t, strings.Contains(columns, `{"name":"at.hour","time":"hour"`+unit+`}`) && strings.Contains(columns, `"time":"age"`),
				"%s: columns %s", way, columns)
		})
	}
}

// Rows to predict have their times at the same positions, for any column order of the file, and so have single rows.
func TestTimesOfRowsToPredict(t *testing.T) {
	d := newDated(30)
	want := d.features(d.newest)
	f := newFolder(t)
	trained := Defaults()
	withTimes(&trained)
	trained.Train = []string{f.write(t, "train.csv", d.table(nil, func(at time.Time) string { return strconv.Quote(at.Format(tableTime)) }).file(t, "csv"))}
	model := layout.Features{Width: 3, Columns: assert.Must(Sources(t.Context(), trained))(t)[0].Columns}
	for name, content := range map[string]string{"order.csv": "x,other,at\n", "named.csv": "at,x\n", "bare.csv": ""} {
		var text strings.Builder
		text.WriteString(content)
		for i := range d.times {
			switch at := d.text(i, time.RFC3339Nano); name {
			case "order.csv":
				fmt.Fprintf(&text, "%d,z,%s\n", i, at)
			default:
				fmt.Fprintf(&text, "%s,%d\n", at, i)
			}
		}
		o := Defaults()
		o.Missing.Mode, o.Label = layout.MissingMean, "label"
		if name == "bare.csv" {
			no := false
			o.Header = &no
		}
		var got []float32
		for rows, err := range File(t.Context(), f.write(t, name, []byte(text.String())), o, model) {
			assert.Need(t, err == nil, "%s: %v", name, err)
			got = append(got, rows.Floats...)
		}
		assert.True(t, near(got, want), "%s: features %v, expected %v", name, got, want[:9])
	}
	o := layout.Defaults()
	o.Missing.Mode = layout.MissingMean
	var rows []map[string]tabular.Cell
	for i := range d.times {
		row := map[string]tabular.Cell{"x": tabular.Integer(int64(i))}
		if !d.times[i].IsZero() {
			row["at"] = tabular.Word(d.text(i, time.RFC3339Nano))
		}
		rows = append(rows, row)
	}
	got := rowsOfRequest(t, o, model, rows).Floats
	assert.True(t, near(got, want), "features %v, expected %v", got, want[:9])
}

// The parts of times use the time zone in Arrow, also in Parquet written from it: zoned.parquet, and nested.parquet, whose schema has
// structures, views, nested dictionaries and nulls alone, and a duration.
func TestTimesOfZones(t *testing.T) {
	content := assert.Must(os.ReadFile("testdata/zoned.parquet"))(t)
	record := arrowRows(t, `[{"at": "2026-11-01 09:30:00", "day": "2026-11-01", "label": "a"}, {"at": null, "day": "1970-01-01", "label": "b"},
		{"at": "2026-07-01 00:00:00", "day": null, "label": "a"}]`, nullable("at", &arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: "Europe/Berlin"}),
		nullable("day", arrow.FixedWidthTypes.Date32), nullable("label", arrow.BinaryTypes.String))
	nan := float32(math.NaN())
	want := []float32{10.5, 7, 11, 7, nan, nan, 1, 4, 2, 3, nan, nan}
	for name, content := range map[string][]byte{"a.parquet": content, "a.arrow": arrowContent(t, record, 3, false)} {
		rows, _, _, problem := readAs(t, name, content, func(o *Options) {
			o.Times = layout.PartsOfTimes(map[string][]string{"at": {"hour", "weekday"}, "day": {"month", "weekday"}})
		})
		assert.True(t, problem == "" && near(rows.Floats, want), "%s: %v %s, expected %v", name, rows.Floats, problem, want)
	}
	want = []float32{11, nan, 10.5, 7, 1.5, 1, nan, nan, nan, 2, nan, nan, 2, 3, 0}
	rows, _, _, problem := readAs(t, "a.parquet", assert.Must(os.ReadFile("testdata/nested.parquet"))(t), func(o *Options) {
		o.Times = layout.PartsOfTimes(map[string][]string{"u.at": {"hour", "weekday"}, "day": {"month"}})
		o.Columns.Use = []string{"u.at", "day", "u.wait", "none"}
	})
	assert.True(t, problem == "" && near(rows.Floats, want), "nested.parquet: %v %s, expected %v", rows.Floats, problem, want)
}

// The unit of numbers is determined once for a column, from all of its first rows, or set; numbers of no unit are an error.
func TestTimesOfNumbers(t *testing.T) {
	for _, test := range []struct {
		times []string
		unit  value.Unit
		want  string // features, or a part of the error
	}{
		{[]string{"20260301", "20260302", "-1"}, "", "[7 0 1 0 NaN NaN]"},
		{[]string{"20260301000000", "20260302070000", "20260302"}, "", "[7 0 1 7 1 0]"},
		{[]string{"20513", "20514.0", "19000"}, "", "[7 0 1 0 6 0]"},
		{[]string{"46082", "46083.5", "43831"}, value.UnitAuto, "[7 0 1 12 3 0]"},
		{[]string{"-126230400000", "0", "94694400000"}, "", "[6 0 4 0 1 0]"},
		{[]string{"2026-03-01", "1772409600000", "2026-03-02T07:00:00"}, "", "[7 0 1 0 1 7]"},
		{[]string{"1772323200", "1772409600", "-1"}, value.UnitDays, "is not a time: expected a number: days since 1970"},
		{[]string{"-1262304000000", "1119744000000", "0"}, "", "are times within 1950 to 2100 in no unit: ms (1930-01-01 to 2005-06-26)"},
		{[]string{"-1262304000000", "1119744000000", "0"}, value.UnitMilliseconds, "[3 0 7 0 4 0]"},
		{[]string{"1", "2", "3"}, "", `column 0 ("at"): the numbers from 1 to 3 are times within 1950 to 2100 in no unit`},
		{[]string{"20260301", "20260230", "20260302"}, "", "yyyymmdd (but not 20260230)"},
		{[]string{"1772323200000", "1772409600", "1772409600000"}, "", "in no unit: ms (1970-01-21 to 2026-03-02)"},
		{[]string{"1772323200000", "1772409600", "1772409600000"}, value.UnitMilliseconds, "[7 0 3 12.336 1 0]"},
		{[]string{"20260301", "20260230", "20260302"}, value.UnitDigits, `column 0 ("at"): "20260230" is not a time`},
	} {
		csv, lines := "at,label\n", ""
		for _, at := range test.times {
			csv += at + ",x\n"
			if strings.Contains(at[1:], "-") {
				at = `"` + at + `"`
			}
			lines += `{"at":` + at + `,"label":"x"}` + "\n"
		}
		for name, content := range map[string]string{"a.csv": csv, "a.jsonl": lines} {
			rows, _, _, problem := readAs(t, name, []byte(content), func(o *Options) {
				o.Label, o.MissingValues = "label", []string{"-1"}
				o.Times = layout.Times{"at": {Parts: []string{"weekday", "hour"}, Unit: test.unit}}
			})
			if got := fmt.Sprint(rows.Floats); problem == "" && got != test.want || problem != "" && !strings.Contains(problem, test.want) {
				t.Errorf("%v in %q, %s: %s %s\nexpected %s", test.times, test.unit, name, got, problem, test.want)
			}
		}
	}
}

// The unit of a column of a topic is that of the first number, and all later ones have it.
func TestUnitsOfATopic(t *testing.T) {
	o := Defaults()
	withTimes(&o)
	o.FromTopic, o.Format, o.Columns.Use = "raw", "json", []string{"at", "x"}
	message := func(at string) TopicMessage {
		return TopicMessage{Value: []byte(`{"label": "l", "x": 1, "at": ` + at + `}`)}
	}
	v := valuesOf(t, o)
	for _, test := range []struct{ at, problem string }{{"null", ""}, {`"2026-03-01T06:00:00"`, ""}, {"12", "in no unit"}, {"20260301000000", ""}, {"20260301", ""},
		{"1772323200", "is no time in yyyymmdd, the unit of other rows, but 2026-03-01 in s"}} {
		_, err := v.Add(t.Context(), message(test.at))
		assert.True(t, (err != nil) == (test.problem != "") && (err == nil || strings.Contains(err.Error(), test.problem)),
			"%s: %v, expected %q", test.at, err, test.problem)
	}
	assert.Equal(t, fmt.Sprint(v.Take().Floats), "[NaN NaN 1 6 -20513.25 1 0 -20513 1 0 -20513 1]", "features")
	// Another process has the unit from the rows that were on the topic before, or from the examples.
	words := assert.Must(NewTopicWords(o))(t)
	for _, at := range []string{"20513", "19000", "20000"} {
		assert.NoError(t, words.Add(t.Context(), message(at)))
	}
	found := assert.Must(words.Options())(t)
	after := o
	after.Options = o.After(&layout.Learnt{Width: 3, Columns: examples.Columns{examples.PartOf("at", "hour", value.UnitDays),
		examples.PartOf("at", "age", value.UnitDays), {Name: "x"}}, Topic: "raw"})
	for _, o := range []Options{found, after} {
		v := valuesOf(t, o)
		assert.Must(v.Add(t.Context(), message("30")))(t)
		rows := v.Take()
		assert.True(t, rows.Floats[1] == -30 && rows.Columns[0].Unit == value.UnitDays, "%v of %v", rows.Floats, rows.Columns)
	}
}

// Once the unit is known, a number of another one is an error, in rows of a topic and in rows to predict, unless the unit was set.
func TestTimesOfAnotherUnit(t *testing.T) {
	for _, test := range []struct {
		unit    value.Unit
		problem string
	}{{"", "is 1970-01-21 in ms, the unit of other rows, but 2026-03-02 in s"}, {value.UnitMilliseconds, ""}} {
		v := valuesOf(t, ofTopic("json", func(o *Options) {
			o.Label, o.Columns.Use, o.Times = "label", []string{"at"}, layout.Times{"at": {Parts: []string{"hour"}, Unit: test.unit}}
		}))
		var err error
		for _, at := range []string{"1772409600000", "1772409600"} {
			_, err = v.Add(t.Context(), TopicMessage{Value: []byte(`{"label": "l", "at": ` + at + `}`)})
		}
		assert.True(t, (err == nil) == (test.problem == "") && (err == nil || strings.Contains(err.Error(), test.problem)),
			"%q: %v, expected %q", test.unit, err, test.problem)
		columns := assert.Must(examples.ParseColumns(v.Take().Columns.Text()))(t) // as a version has them
		r := assert.Must(layout.NewRequest(layout.Defaults(), layout.Features{Width: 1, Columns: columns}))(t)
		var b tabular.Block
		b.Reset(1)
		b.Rows, b.Cells = 1, [][]tabular.Cell{{tabular.Integer(1772409600)}}
		troubles := r.Fill(&b, &examples.Rows{})
		assert.True(t, (troubles == nil) == (test.problem == "") && (troubles == nil || strings.Contains(troubles[0].Err.Error(), test.problem)),
			"%q: %v, expected %q", test.unit, troubles, test.problem)
	}
}
