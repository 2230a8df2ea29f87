package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/parquet-go/parquet-go"
	"github.com/stagewise/stagewise/internal/assert"
)

// A namedValue is a value of a column: a number (float64 or int64), a boolean, a text or nil.
type namedValue struct {
	name  string
	value any
}

// asText returns a value as pandas writes it to a CSV.
func asText(v any) string {
	switch v := v.(type) {
	case float64:
		text := strconv.FormatFloat(v, 'f', -1, 64)
		if v == math.Trunc(v) {
			text += ".0"
		}
		return text
	case bool:
		return map[bool]string{true: "True", false: "False"}[v]
	case nil:
		return ""
	}
	return fmt.Sprint(v)
}

// asJSON returns a value of JSON. A text keeps the bytes that are no UTF-8.
func asJSON(v any) string {
	switch v := v.(type) {
	case string:
		return `"` + v + `"`
	case bool:
		return strconv.FormatBool(v)
	case nil:
		return "null"
	}
	return asText(v)
}

func csvRow(t *testing.T, row []namedValue) []byte {
	t.Helper()
	var content bytes.Buffer
	w := csv.NewWriter(&content)
	var names, values []string
	for _, v := range row {
		names, values = append(names, v.name), append(values, asText(v.value))
	}
	assert.NoError(t, w.WriteAll([][]string{names, values}))
	return content.Bytes()
}

func jsonRow(row []namedValue) string {
	var members []string
	for _, v := range row {
		members = append(members, strconv.Quote(v.name)+": "+asJSON(v.value))
	}
	return "{" + strings.Join(members, ", ") + "}"
}

// rowRecord returns a row as a record of Arrow. What is nil is a float64. With times, the day is a timestamp if it is a time without a
// zone.
func rowRecord(t *testing.T, row []namedValue, times bool) arrow.Record {
	t.Helper()
	var table []tableColumn
	for _, v := range row {
		c := tableColumn{name: v.name, of: arrow.PrimitiveTypes.Float64, values: []string{asText(v.value)}}
		switch v.value.(type) {
		case int64:
			c.of = arrow.PrimitiveTypes.Int64
		case bool:
			c.of = arrow.FixedWidthTypes.Boolean
		case string:
			c.of = arrow.BinaryTypes.String
		case nil:
			c.values[0] = array.NullValueStr
		}
		for _, layout := range []string{"2006-01-02 15:04", time.DateOnly} {
			if at, err := time.Parse(layout, c.values[0]); err == nil && times {
				c.of, c.values[0] = arrow.FixedWidthTypes.Timestamp_us, at.Format(time.DateTime)
			}
		}
		table = append(table, c)
	}
	return assert.Must(recordOf(table))(t)
}

// streamOf returns a record as a stream of Arrow.
func streamOf(record arrow.Record) ([]byte, error) {
	var stream bytes.Buffer
	w := ipc.NewWriter(&stream, ipc.WithSchema(record.Schema()))
	err := errors.Join(w.Write(record), w.Close())
	return stream.Bytes(), err
}

// parquetOf returns a record of numbers, booleans and texts as a Parquet file.
func parquetOf(record arrow.Record) ([]byte, error) {
	kinds := map[arrow.Type]reflect.Type{arrow.INT64: reflect.TypeFor[*int64](), arrow.BOOL: reflect.TypeFor[*bool](),
		arrow.STRING: reflect.TypeFor[*string](), arrow.FLOAT64: reflect.TypeFor[*float64]()}
	var fields []reflect.StructField
	for i, f := range record.Schema().Fields() {
		fields = append(fields, reflect.StructField{Name: fmt.Sprint("Field", i), Type: kinds[f.Type.ID()],
			Tag: reflect.StructTag(fmt.Sprintf("parquet:%q", f.Name))})
	}
	row := reflect.New(reflect.StructOf(fields))
	var content bytes.Buffer
	w := parquet.NewWriter(&content, parquet.SchemaOf(row.Interface()))
	for n := range int(record.NumRows()) {
		for i, c := range record.Columns() {
			if field := row.Elem().Field(i); c.IsNull(n) {
				field.SetZero()
			} else {
				field.Set(reflect.New(field.Type().Elem()))
				field.Elem().Set(reflect.ValueOf(c.GetOneForMarshal(n)))
			}
		}
		if err := w.Write(row.Interface()); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return content.Bytes(), err
}

// withMissing are the keys of the missing values of rows: words, numbers and a date.
const withMissing = "missing: mean, missing_values: [NA, NaN, '-999', 1900-01-01, '0.7'], partitions: 1"

// orders is a configuration and its file, and one of the numbers as sparse rows: numbers, booleans, columns of numbers, booleans and texts
// that are words, and times. Some values are missing.
func orders(rows int) map[string]string {
	var text, sparse strings.Builder
	text.WriteString("size,paid,code,sent,colour,day,kind\n")
	for i := range rows {
		colour, size := []string{"red", "grün", "blue"}[i%3], strconv.Itoa(i%7)
		if i%11 == 3 {
			size = "NA"
		}
		kind := []string{"stop", "go", "wait"}[(i+i/2)%3]
		day := fmt.Sprintf("2026-11-%02d %02d:30", 1+i%14, i%6*4)
		fmt.Fprintf(&text, "%s,%s,%d,%s,%s,%s,%s\n", size, []string{"True", "False"}[i/3%2], 1+i/2%3, []string{"True", "False"}[i/5%2], colour, day,
			kind)
		fmt.Fprintf(&sparse, "%s 1:%d 2:%d\n", kind, i%7, 1-i/3%2)
	}
	return map[string]string{"orders.csv": text.String(), "orders.libsvm": sparse.String(), "sparse.yaml": `name: sparse
examples: {train: [orders.libsvm], partitions: 1}
stages: [{features: {kind: columns}, passes: 5, ridge: 0.1}]
`, "orders.yaml": `name: orders
examples: {train: [orders.csv], label: kind, categorical: [code, sent, colour], times: {day: {parts: [hour, weekday], unit: s}}, ` + withMissing + `}
prepare: {scale: standard}
stages: [{features: {kind: columns}, passes: 5}]
`}
}

// libsvmRow returns the numbers of a row as LIBSVM has them: what is missing is not listed, and the column that the
// model does not know has a 1.
func libsvmRow(row []namedValue) string {
	var fields []string
	for _, v := range row {
		switch {
		case v.name == "more":
			fields = append(fields, "9:1")
		case v.value != nil && v.value != "NA":
			fields = append(fields, map[string]string{"size": "1", "paid": "2"}[v.name]+":"+asText(v.value))
		}
	}
	return strings.Join(fields, " ")
}

// A valueCase is a row of testdata/values.json, which the test of the Python package reads too.
type valueCase struct {
	Name      string         `json:"name"`
	Row       map[string]any `json:"row"`    // the values that are not those of the usual row
	Absent    string         `json:"absent"` // the column that is not there
	Want      map[string]any `json:"want"`   // the values of a row with the same prediction, which differ from those of the usual row
	Refused   bool           `json:"refused"`
	RefusedBy []string       `json:"refused_by"` // the ways that refuse it
	NotIn     []string       `json:"not_in"`     // the ways that can't say it
	Untyped   bool           `json:"untyped"`    // a text that is a number, which a column of texts of Arrow and Parquet can't be
}

// valueCases reads the rows. Of the numbers those with a point or an exponent are float64, the others int64.
func valueCases(t *testing.T) (cases []valueCase) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(assert.Must(os.ReadFile("testdata/values.json"))(t)))
	decoder.UseNumber()
	assert.NoError(t, decoder.Decode(&cases))
	for _, c := range cases {
		for _, row := range []map[string]any{c.Row, c.Want} {
			for name, v := range row {
				number, ok := v.(json.Number)
				if whole, err := number.Int64(); ok && err == nil {
					row[name] = whole
				} else if ok {
					row[name] = assert.Must(number.Float64())(t)
				}
			}
		}
	}
	return cases
}

// words returns the columns of words.
func words() []string { return []string{"code", "sent", "colour"} }

// applies reports whether a way can say the row, given the columns that it lacks. typed says that a column of texts has no numbers.
func (c *valueCase) applies(way string, lacks []string, typed bool) bool {
	lacking := slices.Contains(lacks, c.Absent)
	for name := range c.Row {
		lacking = lacking || slices.Contains(lacks, name)
	}
	return !lacking && !(typed && c.Untyped) && !slices.Contains(c.NotIn, way)
}

func (c *valueCase) refused(way string) bool { return c.Refused || slices.Contains(c.RefusedBy, way) }

func (c *valueCase) row(lacks []string) []namedValue { return usualRow(c.Row, c.Absent, lacks) }

// usualRow returns a usual row with other values of some columns, without one, and without the columns that a way lacks.
func usualRow(others map[string]any, absent string, lacks []string) []namedValue {
	row := []namedValue{{"size", 3.5}, {"paid", 1.0}, {"code", "2"}, {"sent", "true"}, {"colour", "red"}, {"day", "2026-11-02 09:30"}}
	row = slices.DeleteFunc(row, func(v namedValue) bool { return slices.Contains(lacks, v.name) })
	for _, name := range slices.Sorted(maps.Keys(others)) {
		at := slices.IndexFunc(row, func(v namedValue) bool { return v.name == name })
		if at < 0 {
			at, row = len(row), append(row, namedValue{name: name})
		}
		row[at].value = others[name]
	}
	return slices.DeleteFunc(row, func(v namedValue) bool { return v.name == absent })
}

// The table of the ways in (docs/values.md): the same row has the same prediction, or is refused, whichever way it comes.
func TestTheSameRowThroughEveryWay(t *testing.T) {
	long(t)
	cases := valueCases(t)
	inFolder(t, orders(200))
	typed(t, exitDone, "train", "-c", "orders.yaml", "--quiet", "--model", "m")
	typed(t, exitDone, "train", "-c", "sparse.yaml", "--quiet", "--model", "sparse")
	url := serving(t, "url=", "--model", "m")
	// ask posts rows, and returns the probabilities of the first, or nil if they are refused.
	ask := func(contentType, body string) []float64 {
		r := assert.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body)))(t)
		r.Header.Set("Content-Type", contentType)
		r.Header.Set("Accept", "application/json")
		response := assert.Must(http.DefaultClient.Do(r))(t)
		defer response.Body.Close()
		var answer struct{ Probabilities [][]float64 }
		content := assert.Must(io.ReadAll(response.Body))(t)
		switch err := json.Unmarshal(content, &answer); {
		case response.StatusCode == http.StatusBadRequest:
			return nil
		case err != nil || response.StatusCode != http.StatusOK || len(answer.Probabilities) != 1:
			t.Fatalf("%s: %s: %v", response.Status, content, err)
		}
		return answer.Probabilities[0]
	}
	predictWith := func(model, name string, content []byte) []float64 {
		write600(t, name, content)
		code, stdout, _ := stagewise("predict", "--model", model, "-i", name)
		if code != exitDone {
			return nil
		}
		lines := strings.Split(strings.TrimSpace(stdout), "\n")
		assert.Need(t, len(lines) == 2, "%s: %d lines of predictions", name, len(lines))
		var probabilities []float64
		for _, field := range strings.Split(lines[1], ",")[1:] {
			probabilities = append(probabilities, assert.Must(strconv.ParseFloat(field, 64))(t))
		}
		return probabilities
	}
	predict := func(name string, content []byte) []float64 { return predictWith("m", name, content) }
	stream := func(row []namedValue, times bool) []byte { return assert.Must(streamOf(rowRecord(t, row, times)))(t) }
	csv := func(row []namedValue) []float64 { return predict("row.csv", csvRow(t, row)) }
	libsvm := func(row []namedValue) []float64 {
		return predictWith("sparse", "row.libsvm", []byte("go "+libsvmRow(row)+"\n"))
	}
	for _, way := range []struct {
		name         string
		answer, want func(row []namedValue) []float64 // want: of usual values, by the same model
		lacks        []string                         // the columns that it does not have
		typed        bool                             // a column of texts has no numbers
	}{
		{name: "csv", answer: csv, want: csv},
		{name: "jsonl", want: csv, answer: func(row []namedValue) []float64 { return predict("row.jsonl", []byte(jsonRow(row))) }},
		{name: "arrow", want: csv, typed: true, answer: func(row []namedValue) []float64 { return predict("row.arrow", stream(row, false)) }},
		{name: "arrow, timestamps", want: csv, typed: true, answer: func(row []namedValue) []float64 {
			return predict("row.arrow", stream(row, true))
		}},
		{name: "parquet", want: csv, typed: true, answer: func(row []namedValue) []float64 {
			return predict("row.parquet", assert.Must(parquetOf(rowRecord(t, row, false)))(t))
		}},
		{name: "serve, an object", want: csv, answer: func(row []namedValue) []float64 {
			return ask("application/json", `{"rows": [`+jsonRow(row)+`]}`)
		}},
		{name: "serve, a list", want: csv, answer: func(row []namedValue) []float64 {
			var names, values []string
			for _, v := range row {
				names, values = append(names, strconv.Quote(v.name)), append(values, asJSON(v.value))
			}
			return ask("application/json", `{"columns": [`+strings.Join(names, ",")+`], "rows": [[`+strings.Join(values, ",")+`]]}`)
		}},
		{name: "serve, arrow", want: csv, typed: true, answer: func(row []namedValue) []float64 {
			return ask("application/vnd.apache.arrow.stream", string(stream(row, false)))
		}},
		{name: "libsvm", answer: libsvm, want: libsvm, lacks: append(words(), "day")},
	} {
		for _, c := range cases {
			if !c.applies(way.name, way.lacks, way.typed) {
				continue
			}
			got, want := way.answer(c.row(way.lacks)), []float64(nil)
			if !c.refused(way.name) {
				want = way.want(usualRow(c.Want, "", way.lacks))
				assert.True(t, want != nil, "%s, %s: what is expected is refused", c.Name, way.name)
			}
			assert.True(t, slices.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) <= 1e-6 }),
				"%s, %s: %v, expected %v", c.Name, way.name, got, want)
		}
		if way.lacks == nil {
			got := way.answer(usualRow(map[string]any{"colour": "th\xe9"}, "", nil))
			assert.True(t, got == nil, "%s: bytes that are not UTF-8: %v, expected a refusal", way.name, got)
		}
	}
	for _, body := range []string{`{"rows": [{"size": 1, "size": 1, "paid": 1, "code": 1, "sent": true, "colour": "red", "day": null}]}`,
		`{"rows": [{"size": 1, "paid": 1, "code": 1, "sent": true, "colour": "\ud800", "day": null}]}`} {
		got := ask("application/json", body)
		assert.True(t, got == nil, "%s: %v, expected a refusal", body, got)
		line := strings.TrimSuffix(strings.TrimPrefix(body, `{"rows": [`), "]}")
		got = predict("row.jsonl", []byte(line))
		assert.True(t, got == nil, "%s: %v, expected a refusal", line, got)
	}
}

// A tableColumn is a column of a test's table: values as people write them.
type tableColumn struct {
	name   string
	of     arrow.DataType
	values []string // [array.NullValueStr]: a missing value
}

// recordOf returns a table as a record of Arrow.
func recordOf(table []tableColumn) (arrow.Record, error) {
	var fields []arrow.Field
	for _, c := range table {
		fields = append(fields, arrow.Field{Name: c.name, Type: c.of, Nullable: true})
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer b.Release()
	for j, c := range table {
		for _, value := range c.values {
			if err := b.Field(j).AppendValueFromString(value); err != nil {
				return nil, err
			}
		}
	}
	return b.NewRecord(), nil
}
