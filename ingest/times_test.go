package ingest

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/schema"

	"github.com/stagewise/stagewise/ingest/layout"
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
	o.Label, o.Missing = "label", layout.MissingMean
	o.Times = layout.Times{"at": {"hour", "age"}}
}

// files returns the rows in each format with times.
func (d dated) files(t *testing.T) map[string][]byte {
	var csv, seconds strings.Builder
	var lines, rows []string
	var millis []int64
	var levels []int16
	var days []float64
	csv.WriteString("at,x,label\n")
	seconds.WriteString("x;label;at\n")
	var labels []string
	for i, at := range d.times {
		label := fmt.Sprint("l", i%2)
		labels = append(labels, label)
		days = append(days, float64(i))
		fmt.Fprintf(&csv, "%s,%d,%s\n", d.text(i, time.RFC3339Nano), i, label)
		number := ""
		if !at.IsZero() {
			number = fmt.Sprint(at.UnixMilli())
			millis, levels = append(millis, at.UnixMilli()), append(levels, 1)
		} else {
			levels = append(levels, 0)
		}
		fmt.Fprintf(&seconds, "%d;%s;%s\n", i, label, number)
		row, err := json.Marshal(map[string]any{"at": d.text(i, "2006-01-02 15:04:05.000"), "x": i, "label": label})
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(row))
		row, _ = json.Marshal(map[string]any{"at": nil, "x": i, "label": label})
		if !at.IsZero() {
			row, _ = json.Marshal(map[string]any{"at": at.Format("2006-01-02 15:04:05.000"), "x": i, "label": label})
		}
		rows = append(rows, string(row))
	}
	record := arrowRows(t, "["+strings.Join(rows, ",")+"]", nullable("at", arrow.FixedWidthTypes.Timestamp_ms),
		nullable("x", arrow.PrimitiveTypes.Int32), nullable("label", arrow.BinaryTypes.String))
	at := schema.MustPrimitive(schema.NewPrimitiveNodeLogical("at", parquet.Repetitions.Optional,
		schema.NewTimestampLogicalType(true, schema.TimeUnitMillis), parquet.Types.Int64, 0, -1))
	return map[string][]byte{
		"a.csv": []byte(csv.String()), "a.jsonl": []byte(strings.Join(lines, "\n")), "a.arrow": arrowContent(t, record, 50, true),
		"a.parquet": parquetFile(t, [][]parquetValues{{{node: at, values: millis, levels: levels},
			{node: required(schema.NewFloat64Node, "x"), values: days}, {node: words("label"), values: labels}}}),
		"seconds.csv": []byte(seconds.String()),
	}
}

// Times become the same features from every format, by definition.
func TestTimes(t *testing.T) {
	d := newDated(100)
	want := d.features(d.newest)
	for name, content := range d.files(t) {
		rows, _, columns, problem := readAs(t, name, content, withTimes)
		if problem != "" {
			t.Errorf("%s: %s", name, problem)
			continue
		}
		got := rows.Floats
		if strings.HasPrefix(name, "seconds") { // its times come last
			got = nil
			for i := range rows.Rows {
				row := rows.Floats[3*i:][:3]
				got = append(got, row[1], row[2], row[0])
			}
		}
		if !near(got, want) {
			t.Errorf("%s: features %v, expected %v", name, got[:9], want[:9])
		}
		if !strings.Contains(columns, `{"name":"at.hour","time":"hour"}`) || !strings.Contains(columns, `"time":"age"`) {
			t.Errorf("%s: columns %s", name, columns)
		}
	}
}

// Rows to predict have their times at the same positions, for any column order of the file, and so have single rows.
func TestTimesOfRowsToPredict(t *testing.T) {
	d := newDated(30)
	want := d.features(d.newest)
	f := newFolder(t)
	trained := Defaults()
	withTimes(&trained)
	trained.Train = []string{f.write(t, "train.csv", d.files(t)["a.csv"])}
	sources, err := Sources(t.Context(), trained)
	if err != nil {
		t.Fatal(err)
	}
	model := layout.Features{Width: 3, Columns: sources[0].Columns}
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
		o.Missing, o.Label = layout.MissingMean, "label"
		if name == "bare.csv" {
			no := false
			o.Header = &no
		}
		var got []float32
		for rows, err := range File(t.Context(), f.write(t, name, []byte(text.String())), o, model) {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got = append(got, rows.Floats...)
		}
		if !near(got, want) {
			t.Errorf("%s: features %v, expected %v", name, got, want[:9])
		}
	}
	o := layout.Defaults()
	o.Missing = layout.MissingMean
	places, err := layout.NewPlaces(o, model)
	if err != nil || places.Columns() != 2 {
		t.Fatalf("%d columns, %v", places.Columns(), err)
	}
	at, known := places.Find([]byte("at"))
	if _, isNumber := places.Numbers(at); !known || isNumber {
		t.Errorf("the column at is known: %v, a number: %v", known, isNumber)
	}
	row := make([]float32, 3)
	for i := range d.times {
		row[2] = float32(i)
		put := places.PutText(row, at, d.text(i, time.RFC3339Nano))
		if d.times[i].IsZero() {
			put = places.PutMissing(row, at)
		}
		if put != nil || !near(row, want[3*i:][:3]) {
			t.Errorf("row %d: %v, %v, expected %v", i, row, put, want[3*i:][:3])
		}
	}
	if err := places.Lacks(make([]bool, 2)); err == nil || !strings.Contains(err.Error(), `"at"`) {
		t.Errorf("missing columns: %v", err)
	}
}

// Values of a topic also have times. Their ages are relative to 1970, because processes may read different rows first.
func TestTimesOfATopic(t *testing.T) {
	d := newDated(20)
	want := d.features(time.Unix(0, 0))
	for _, format := range []string{"json", "csv"} {
		o := Defaults()
		withTimes(&o)
		o.FromTopic, o.Format, o.Columns.Use = "raw", format, []string{"at", "x"}
		if format == "csv" {
			o.Label, o.Times, o.Columns.Use = "2", layout.Times{"0": {"hour", "age"}}, nil
		}
		if problems := o.Check(); problems != nil {
			t.Fatal(problems)
		}
		v := valuesOf(t, o)
		for i := range d.times {
			value := fmt.Sprintf("%s,%d,l", d.text(i, time.RFC3339Nano), i)
			if format == "json" {
				value = fmt.Sprintf(`{"label": "l", "x": %d, "at": %d}`, i, d.times[i].UnixMilli())
				if d.times[i].IsZero() {
					value = fmt.Sprintf(`{"label": "l", "x": %d}`, i)
				}
			}
			if full, err := v.Add(t.Context(), TopicMessage{Offset: int64(i), Value: []byte(value)}); err != nil || full {
				t.Fatal(full, err)
			}
		}
		if got := v.Take(); !near(got.Floats, want) || got.Columns[1].Offset != 0 {
			t.Errorf("%s: features %v, expected %v", format, got.Floats[:9], want[:9])
		}
	}
}

// An invalid time is an error with its position.
func TestTimesThatAreNone(t *testing.T) {
	for _, test := range []struct{ content, want string }{
		{"label,at\na,1/2/2026\n", `a.csv: line 2, column 1 ("at"): "1/2/2026" is not a time: expected a form such as 2026-11-01 or 2026-11-01T09:30:15+02:00, or a ` +
			"number of seconds since 1970"},
		{"label,at,at.hour\na,2026-01-01,1\n", "a.csv: line 1: two columns have the same name: rename one, or exclude it with examples.columns.drop and its number"},
		{"label,x\na,1\n", `a.csv: line 1: no column "at": expected one of "label" and "x"`},
	} {
		_, _, _, problem := readAs(t, "a.csv", []byte(test.content), withTimes)
		if problem != test.want {
			t.Errorf("%s\nexpected %s", problem, test.want)
		}
	}
	_, _, _, problem := readAs(t, "a.csv", []byte("label,at\na,\n"), func(o *Options) {
		withTimes(o)
		o.Missing = layout.MissingError
	})
	if want := `a.csv: line 2, column 1 ("at"): an empty field: examples.missing: mean uses the mean of the column`; problem != want {
		t.Errorf("%s\nexpected %s", problem, want)
	}
}

// The parts of times are part of a source's ID.
func TestTimesAreInSourceIDs(t *testing.T) {
	d := newDated(10)
	f := newFolder(t)
	name := f.write(t, "a.csv", d.files(t)["a.csv"])
	ids := map[string]string{}
	for _, parts := range [][]string{{"hour"}, {"age"}, {"hour", "age"}, {"age", "hour"}} {
		o := Defaults()
		withTimes(&o)
		o.Train, o.Times = []string{name}, layout.Times{"at": parts}
		sources, err := Sources(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		id := sources[0].ID
		if other, same := ids[id]; same {
			t.Errorf("%v has the ID of %s", parts, other)
		}
		ids[id] = fmt.Sprint(parts)
	}
}

// The parts of times use the time zone in Arrow, also in Parquet written from it, such as zoned.parquet.
func TestTimesOfZones(t *testing.T) {
	content, err := os.ReadFile("testdata/zoned.parquet")
	if err != nil {
		t.Fatal(err)
	}
	record := arrowRows(t, `[{"at": "2026-11-01 09:30:00", "day": "2026-11-01", "label": "a"}, {"at": null, "day": "1970-01-01", "label": "b"},
		{"at": "2026-07-01 00:00:00", "day": null, "label": "a"}]`, nullable("at", &arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: "Europe/Berlin"}),
		nullable("day", arrow.FixedWidthTypes.Date32), nullable("label", arrow.BinaryTypes.String))
	nan := float32(math.NaN())
	want := []float32{10.5, 7, 11, 7, nan, nan, 1, 4, 2, 3, nan, nan}
	for name, content := range map[string][]byte{"a.parquet": content, "a.arrow": arrowContent(t, record, 3, false)} {
		rows, _, _, problem := readAs(t, name, content, func(o *Options) {
			o.Times = layout.Times{"at": {"hour", "weekday"}, "day": {"month", "weekday"}}
		})
		if problem != "" || !near(rows.Floats, want) {
			t.Errorf("%s: %v %s, expected %v", name, rows.Floats, problem, want)
		}
	}
}
