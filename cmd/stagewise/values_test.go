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
	noError(t, w.WriteAll([][]string{names, values}))
	return content.Bytes()
}

func jsonRow(row []namedValue) string {
	var members []string
	for _, v := range row {
		members = append(members, strconv.Quote(v.name)+": "+asJSON(v.value))
	}
	return "{" + strings.Join(members, ", ") + "}"
}

// rowRecord returns a row as a record of Arrow. What is nil is a float64.
func rowRecord(row []namedValue) arrow.Record {
	var fields []arrow.Field
	for _, v := range row {
		field := arrow.Field{Name: v.name, Type: arrow.PrimitiveTypes.Float64, Nullable: true}
		switch v.value.(type) {
		case int64:
			field.Type = arrow.PrimitiveTypes.Int64
		case bool:
			field.Type = arrow.FixedWidthTypes.Boolean
		case string:
			field.Type = arrow.BinaryTypes.String
		case time.Time:
			field.Type = arrow.FixedWidthTypes.Timestamp_us
		}
		fields = append(fields, field)
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer b.Release()
	for i, v := range row {
		switch builder := b.Field(i).(type) {
		case *array.Int64Builder:
			builder.Append(v.value.(int64))
		case *array.BooleanBuilder:
			builder.Append(v.value.(bool))
		case *array.StringBuilder:
			builder.Append(v.value.(string))
		case *array.TimestampBuilder:
			builder.AppendTime(v.value.(time.Time))
		case *array.Float64Builder:
			if v.value == nil {
				builder.AppendNull()
			} else {
				builder.Append(v.value.(float64))
			}
		}
	}
	return b.NewRecord()
}

// arrowRow returns a row as a stream of Arrow.
func arrowRow(t *testing.T, row []namedValue) []byte {
	t.Helper()
	return valueOf(streamOf(rowRecord(row)))(t)
}

// parquetRow returns a row as a Parquet file.
func parquetRow(t *testing.T, row []namedValue) []byte {
	t.Helper()
	return valueOf(parquetOf(rowRecord(row)))(t)
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

// timed returns a row whose day is a time, if it has no zone.
func timed(row []namedValue) []namedValue {
	row = slices.Clone(row)
	for i, v := range row {
		for _, layout := range []string{"2006-01-02 15:04", time.DateOnly} {
			if at, err := time.Parse(layout, fmt.Sprint(v.value)); err == nil {
				row[i].value = at
			}
		}
	}
	return row
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
	content := valueOf(os.ReadFile("testdata/values.json"))(t)
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	noError(t, decoder.Decode(&cases))
	for _, c := range cases {
		for _, row := range []map[string]any{c.Row, c.Want} {
			for name, v := range row {
				number, ok := v.(json.Number)
				if whole, err := number.Int64(); ok && err == nil {
					row[name] = whole
				} else if ok {
					row[name] = valueOf(number.Float64())(t)
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
		r := valueOf(http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body)))(t)
		r.Header.Set("Content-Type", contentType)
		r.Header.Set("Accept", "application/json")
		response := valueOf(http.DefaultClient.Do(r))(t)
		defer response.Body.Close()
		var answer struct{ Probabilities [][]float64 }
		content := valueOf(io.ReadAll(response.Body))(t)
		switch err := json.Unmarshal(content, &answer); {
		case response.StatusCode == http.StatusBadRequest:
			return nil
		case err != nil || response.StatusCode != http.StatusOK || len(answer.Probabilities) != 1:
			t.Fatalf("%s: %s: %v", response.Status, content, err)
		}
		return answer.Probabilities[0]
	}
	predictWith := func(model, name string, content []byte, flags ...string) []float64 {
		noError(t, os.WriteFile(name, content, 0o600))
		code, stdout, _ := stagewise(append([]string{"predict", "--model", model, "-i", name}, flags...)...)
		if code != exitDone {
			return nil
		}
		lines := strings.Split(strings.TrimSpace(stdout), "\n")
		if len(lines) != 2 {
			t.Fatalf("%s: %d lines of predictions", name, len(lines))
		}
		var probabilities []float64
		for _, field := range strings.Split(lines[1], ",")[1:] {
			p := valueOf(strconv.ParseFloat(field, 64))(t)
			probabilities = append(probabilities, p)
		}
		return probabilities
	}
	predict := func(name string, content []byte) []float64 { return predictWith("m", name, content) }
	// each makes of a function of a row one of rows.
	each := func(answer func(row []namedValue) []float64) func(rows [][]namedValue) [][]float64 {
		return func(rows [][]namedValue) (answers [][]float64) {
			for _, row := range rows {
				answers = append(answers, answer(row))
			}
			return answers
		}
	}
	csv := each(func(row []namedValue) []float64 { return predict("row.csv", csvRow(t, row)) })
	libsvm := each(func(row []namedValue) []float64 {
		return predictWith("sparse", "row.libsvm", []byte("go "+libsvmRow(row)+"\n"))
	})
	for _, way := range []struct {
		name   string
		answer func(rows [][]namedValue) [][]float64
		want   func(rows [][]namedValue) [][]float64 // of usual values, by the same model
		lacks  []string                              // the columns that it does not have
		typed  bool                                  // a column of texts has no numbers
	}{
		{name: "csv", answer: csv, want: csv},
		{name: "jsonl", answer: each(func(row []namedValue) []float64 { return predict("row.jsonl", []byte(jsonRow(row))) }), want: csv},
		{name: "arrow", answer: each(func(row []namedValue) []float64 { return predict("row.arrow", arrowRow(t, row)) }), want: csv, typed: true},
		{name: "arrow, timestamps", want: csv, typed: true, answer: each(func(row []namedValue) []float64 {
			return predict("row.arrow", arrowRow(t, timed(row)))
		})},
		{name: "parquet", answer: each(func(row []namedValue) []float64 { return predict("row.parquet", parquetRow(t, row)) }), want: csv, typed: true},
		{name: "serve, an object", want: csv, answer: each(func(row []namedValue) []float64 {
			return ask("application/json", `{"rows": [`+jsonRow(row)+`]}`)
		})},
		{name: "serve, a list", want: csv, answer: each(func(row []namedValue) []float64 {
			var names, values []string
			for _, v := range row {
				names, values = append(names, strconv.Quote(v.name)), append(values, asJSON(v.value))
			}
			return ask("application/json", `{"columns": [`+strings.Join(names, ",")+`], "rows": [[`+strings.Join(values, ",")+`]]}`)
		})},
		{name: "serve, arrow", want: csv, typed: true, answer: each(func(row []namedValue) []float64 {
			return ask("application/vnd.apache.arrow.stream", string(arrowRow(t, row)))
		})},
		{name: "libsvm", answer: libsvm, want: libsvm, lacks: append(words(), "day")},
	} {
		var names []string
		var rows, wanted [][]namedValue
		for _, c := range cases {
			if !c.applies(way.name, way.lacks, way.typed) {
				continue
			}
			names, rows = append(names, c.Name), append(rows, c.row(way.lacks))
			if c.refused(way.name) {
				wanted = append(wanted, nil)
			} else {
				wanted = append(wanted, usualRow(c.Want, "", way.lacks))
			}
		}
		answers := way.answer(rows)
		for i, got := range answers {
			var want []float64
			if wanted[i] != nil {
				want = way.want(wanted[i : i+1])[0]
			}
			if !slices.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) <= 1e-6 }) || wanted[i] != nil && want == nil {
				t.Errorf("%s, %s: %v, expected %v", names[i], way.name, got, want)
			}
		}
	}
	for _, bytes := range []func(row []namedValue) []float64{
		func(row []namedValue) []float64 { return predict("row.csv", csvRow(t, row)) },
		func(row []namedValue) []float64 { return predict("row.jsonl", []byte(jsonRow(row))) },
		func(row []namedValue) []float64 { return predict("row.arrow", arrowRow(t, row)) },
		func(row []namedValue) []float64 { return predict("row.parquet", parquetRow(t, row)) },
		func(row []namedValue) []float64 { return ask("application/json", `{"rows": [`+jsonRow(row)+`]}`) },
		func(row []namedValue) []float64 {
			return ask("application/vnd.apache.arrow.stream", string(arrowRow(t, row)))
		},
	} {
		if got := bytes(usualRow(map[string]any{"colour": "th\xe9"}, "", nil)); got != nil {
			t.Errorf("bytes that are not UTF-8: %v, expected a refusal", got)
		}
	}
	for _, body := range []string{`{"rows": [{"size": 1, "size": 1, "paid": 1, "code": 1, "sent": true, "colour": "red", "day": null}]}`,
		`{"rows": [{"size": 1, "paid": 1, "code": 1, "sent": true, "colour": "\ud800", "day": null}]}`} {
		if got := ask("application/json", body); got != nil {
			t.Errorf("%s: %v, expected a refusal", body, got)
		}
		line := strings.TrimSuffix(strings.TrimPrefix(body, `{"rows": [`), "]}")
		if got := predict("row.jsonl", []byte(line)); got != nil {
			t.Errorf("%s: %v, expected a refusal", line, got)
		}
	}
}

// A tableColumn is a column of a test's table: text, or numbers as people write them. "" is a missing value.
type tableColumn struct {
	name   string
	isText bool
	values []string
}

// recordOf returns a table as a record of Arrow whose column j has the type textType(j) if it is text.
func recordOf(table []tableColumn, textType func(j int) arrow.DataType) (arrow.Record, error) {
	var fields []arrow.Field
	for j, c := range table {
		field := arrow.Field{Name: c.name, Type: arrow.PrimitiveTypes.Float64, Nullable: true}
		if c.isText {
			field.Type = textType(j)
		}
		fields = append(fields, field)
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer b.Release()
	for j, c := range table {
		for _, value := range c.values {
			if value == "" {
				b.Field(j).AppendNull()
			} else if err := b.Field(j).AppendValueFromString(value); err != nil {
				return nil, err
			}
		}
	}
	return b.NewRecord(), nil
}

// asArrow writes text with a dictionary, as data frames do for categories, or as large_utf8.
func asArrow(table []tableColumn) ([]byte, error) {
	record, err := recordOf(table, func(j int) arrow.DataType {
		category := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
		return []arrow.DataType{category, arrow.BinaryTypes.LargeString}[j%2]
	})
	if err != nil {
		return nil, err
	}
	return streamOf(record)
}

// asParquet writes text as UTF-8.
func asParquet(table []tableColumn) ([]byte, error) {
	record, err := recordOf(table, func(int) arrow.DataType { return arrow.BinaryTypes.String })
	if err != nil {
		return nil, err
	}
	return parquetOf(record)
}
