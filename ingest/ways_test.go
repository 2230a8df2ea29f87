package ingest

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/bufbuild/protocompile"
	"github.com/parquet-go/parquet-go"
	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// table is rows in JSON with the Arrow types of their columns, which are encoded in every format of files and messages.
type table struct {
	fields []arrow.Field
	rows   []string
	flat   []string // the columns of CSV, by path
}

// symbols are the words of columns that are dictionaries in Arrow and enumerations elsewhere.
var symbols = []string{"red", "green", "blue"}

// tableTime is the form of times without a zone.
const tableTime = "2006-01-02 15:04:05.000"

// decoded returns the members of a row. Numbers are as they are spelt.
func decoded(t *testing.T, row string) (members map[string]any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(row))
	d.UseNumber()
	assert.NoError(t, d.Decode(&members))
	return members
}

// file returns the table as a file.
func (b table) file(t *testing.T, format string) []byte {
	t.Helper()
	switch format {
	case "csv":
		content := []byte(strings.Join(b.flat, ",") + "\n")
		for _, row := range b.rows {
			content = append(content, b.message(t, format, row)...)
		}
		return content
	case "jsonl":
		return []byte(strings.Join(b.rows, "\n"))
	case "arrow":
		return arrowContent(t, arrowRows(t, "["+strings.Join(b.rows, ",")+"]", b.fields...), 1, true)
	}
	return b.parquet(t)
}

// parquet returns the table as a file of Parquet. Columns that are not nullable are required.
func (b table) parquet(t *testing.T, options ...parquet.WriterOption) []byte {
	t.Helper()
	var content bytes.Buffer
	of := structOf(b.fields)
	w := parquet.NewWriter(&content, append(options, parquet.SchemaOf(reflect.New(of).Interface()))...)
	for _, row := range b.rows {
		members := decoded(t, row)
		for _, f := range b.fields {
			switch of := f.Type.(type) {
			case arrow.DecimalType:
				members[f.Name] = json.Number(unscaled(members[f.Name]).Num().String())
			case *arrow.TimestampType:
				if text, is := members[f.Name].(string); is && of.TimeZone == "" {
					members[f.Name] = assert.Must(time.Parse(tableTime, text))(t).UnixMilli()
				}
			}
		}
		v := reflect.New(of)
		assert.NoError(t, json.Unmarshal(assert.Must(json.Marshal(members))(t), v.Interface()))
		assert.NoError(t, w.Write(v.Interface()))
	}
	assert.NoError(t, w.Close())
	return content.Bytes()
}

// message returns a row as the value of a message.
func (b table) message(t *testing.T, format, row string) []byte {
	t.Helper()
	switch format {
	case "csv":
		var content bytes.Buffer
		var texts []string
		for _, path := range b.flat {
			texts = append(texts, textOf(valueAt(decoded(t, row), path)))
		}
		w := csv.NewWriter(&content)
		assert.NoError(t, w.Write(texts))
		w.Flush()
		return content.Bytes()
	case "json":
		return []byte(row)
	case "arrow":
		return arrowContent(t, arrowRows(t, "["+row+"]", b.fields...), 1, false)
	case "avro":
		return encoded(t, b.avro(t), avroOf(decoded(t, row), arrow.StructOf(b.fields...)))
	}
	accessor := protocompile.SourceAccessorFromMap(map[string]string{"e.proto": b.protobuf()})
	compiler := protocompile.Compiler{Resolver: &protocompile.SourceResolver{Accessor: accessor}}
	m := dynamicpb.NewMessage(assert.Must(compiler.Compile(t.Context(), "e.proto"))(t)[0].Messages().Get(0))
	assert.NoError(t, protojson.Unmarshal([]byte(row), m))
	return assert.Must(proto.Marshal(m))(t)
}

// valueAt returns the value at a path; nil: there is none.
func valueAt(v any, path string) any {
	for step := range strings.SplitSeq(path, ".") {
		if list, is := v.([]any); is {
			if i, _ := strconv.Atoi(step); i < len(list) {
				v = list[i]
				continue
			}
		}
		members, _ := v.(map[string]any)
		v = members[step]
	}
	return v
}

// textOf formats a value for CSV.
func textOf(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case []any:
		var texts []string
		for _, item := range v {
			texts = append(texts, textOf(item))
		}
		return strings.Join(texts, "|")
	}
	return fmt.Sprint(v)
}

// unscaled returns a decimal number in units of 10⁻⁹.
func unscaled(number any) *big.Rat {
	exact, _ := new(big.Rat).SetString(fmt.Sprint(number))
	return exact.Mul(exact, big.NewRat(1e9, 1))
}

// structOf returns a type for rows in Parquet.
func structOf(fields []arrow.Field) reflect.Type {
	var all []reflect.StructField
	for _, f := range fields {
		of, tag := reflect.TypeFor[int64](), ""
		switch t := f.Type.(type) {
		case *arrow.BooleanType:
			of = reflect.TypeFor[bool]()
		case *arrow.StringType, *arrow.DictionaryType:
			of = reflect.TypeFor[string]()
		case *arrow.TimestampType:
			if of = reflect.TypeFor[string](); t.TimeZone == "" { // Parquet has no zones
				of, tag = reflect.TypeFor[int64](), ",timestamp(millisecond)"
			}
		case arrow.DecimalType:
			tag = ",decimal(9:18)"
		case *arrow.Uint32Type:
			of = reflect.TypeFor[uint32]()
		case *arrow.Float64Type:
			of = reflect.TypeFor[float64]()
		case *arrow.Float32Type:
			of = reflect.TypeFor[float32]()
		case *arrow.ListType:
			of, tag = reflect.SliceOf(structOf([]arrow.Field{{Name: "item", Type: t.Elem()}}).Field(0).Type), ",list"
		case *arrow.StructType:
			of = structOf(t.Fields())
		}
		switch {
		case !f.Nullable:
		case tag != "": // the library has no pointers to such values: the zero value is null
			tag += ",optional"
		default:
			of = reflect.PointerTo(of)
		}
		all = append(all, reflect.StructField{Name: "F_" + strings.ReplaceAll(f.Name, ".", "_"), Type: of,
			Tag: reflect.StructTag(fmt.Sprintf(`json:"%s" parquet:"%[1]s%s"`, f.Name, tag))})
	}
	return reflect.StructOf(all)
}

// avro returns the schema in Avro.
func (b table) avro(t *testing.T) string {
	var of func(name string, t arrow.DataType) any
	of = func(name string, t arrow.DataType) any {
		switch t := t.(type) {
		case *arrow.BooleanType:
			return "boolean"
		case *arrow.StringType, *arrow.TimestampType:
			return "string"
		case *arrow.DictionaryType:
			return map[string]any{"type": "enum", "name": name, "symbols": symbols}
		case arrow.DecimalType:
			return map[string]any{"type": "bytes", "logicalType": "decimal", "precision": t.GetPrecision(), "scale": t.GetScale()}
		case *arrow.Float64Type, *arrow.Float32Type:
			return "double"
		case *arrow.ListType:
			return map[string]any{"type": "array", "items": of(name, t.Elem())}
		case *arrow.StructType:
			var fields []any
			for _, f := range t.Fields() {
				fields = append(fields, map[string]any{"name": f.Name, "type": []any{"null", of(name+f.Name, f.Type)}})
			}
			return map[string]any{"type": "record", "name": name, "fields": fields}
		}
		return "long"
	}
	return string(assert.Must(json.Marshal(of("Row", arrow.StructOf(b.fields...))))(t))
}

// avroOf returns a value as the library encodes it.
func avroOf(v any, of arrow.DataType) any {
	number, isNumber := v.(json.Number)
	switch of := of.(type) {
	case *arrow.ListType:
		items := []any{}
		list, _ := v.([]any)
		for _, item := range list {
			items = append(items, avroOf(item, of.Elem()))
		}
		return items
	case *arrow.StructType:
		members, is := v.(map[string]any)
		if !is {
			return nil
		}
		for _, f := range of.Fields() {
			members[f.Name] = avroOf(members[f.Name], f.Type)
		}
		return members
	case arrow.DecimalType:
		if isNumber {
			exact, _ := new(big.Rat).SetString(number.String())
			return exact
		}
	}
	switch {
	case !isNumber:
	case arrow.IsFloating(of.ID()):
		v, _ = number.Float64()
	default:
		v, _ = number.Int64()
	}
	return v
}

// protobuf returns the schema in Protobuf.
func (b table) protobuf() string {
	var message func(name string, fields []arrow.Field) string
	message = func(name string, fields []arrow.Field) string {
		text := "message " + name + " { "
		for i, f := range fields {
			of, label, kind := f.Type, "optional", "sint64"
			if list, is := of.(*arrow.ListType); is {
				of, label = list.Elem(), "repeated"
			}
			switch of := of.(type) {
			case *arrow.BooleanType:
				kind = "bool"
			case *arrow.StringType, *arrow.TimestampType:
				kind = "string"
			case *arrow.DictionaryType:
				kind = "Symbol"
			case arrow.DecimalType, *arrow.Float64Type, *arrow.Float32Type:
				kind = "double"
			case *arrow.StructType:
				kind = "Of" + f.Name
				text += message(kind, of.Fields())
			}
			text += fmt.Sprintf("%s %s %s = %d; ", label, kind, f.Name, i+1)
		}
		return text + "} "
	}
	enum := ""
	for i, symbol := range symbols {
		enum += fmt.Sprintf("%s = %d; ", symbol, i)
	}
	return `syntax = "proto3"; ` + message("Row", b.fields) + "enum Symbol { " + enum + "}"
}

// inFiles calls check with the rows of the table as they are read from a file in each format.
func (b table) inFiles(t *testing.T, change func(*Options), check func(way, columns string, rows *examples.Rows)) {
	t.Helper()
	for _, format := range []string{"csv", "jsonl", "arrow", "parquet"} {
		rows, _, columns, problem := readAs(t, "rows."+format, b.file(t, format), change)
		if problem != "" {
			t.Errorf("%s file: %s", format, problem)
			continue
		}
		check(format+" file", columns, &rows)
	}
}

// inEveryWay calls check with the rows of the table as they are read from a file or a topic in each format. change names columns by path.
func (b table) inEveryWay(t *testing.T, change func(*Options), check func(way string, rows *examples.Rows)) {
	t.Helper()
	b.inFiles(t, change, func(way, _ string, rows *examples.Rows) { check(way, rows) })
	registry := registered(t, sr.Schema{Schema: b.avro(t)}, sr.Schema{Schema: b.protobuf(), Type: sr.TypeProtobuf})
	frames := map[string][]byte{"csv": nil, "json": nil, "arrow": nil, "avro": framed(1, nil), "protobuf": framed(2, []byte{0})}
	for format, frame := range frames {
		var values []string
		for _, row := range b.rows {
			values = append(values, string(append(frame[:len(frame):len(frame)], b.message(t, format, row)...)))
		}
		rows := addAll(t, ofTopic(format, func(o *Options) {
			o.Missing.Mode = layout.MissingMean
			if change(o); frame != nil {
				o.Registry.URL = registry.URL()
			} else if format == "csv" {
				b.number(o)
			}
		}), values...)
		for _, labels := range rows.LabelLists {
			for i, label := range labels {
				if column, err := strconv.Atoi(label); err == nil { // a label has the name of its column
					labels[i] = b.flat[column]
				}
			}
		}
		check(format+" topic", rows)
	}
}

// number names columns by their numbers in CSV.
func (b table) number(o *Options) {
	of := func(name string) string {
		if at := slices.Index(b.flat, name); at >= 0 {
			return strconv.Itoa(at)
		}
		return name
	}
	for _, c := range []*layout.Column{&o.Label, &o.Weight, &o.Text} {
		*c = layout.Column(of(string(*c)))
	}
	for _, names := range [][]string{o.Targets, o.LabelColumns, o.Columns.Use, o.Categorical} {
		for i, name := range names {
			names[i] = of(name)
		}
	}
	times := layout.Times{}
	for name, column := range o.Times {
		times[of(name)] = column
	}
	o.Times = times
}

// A row has the same numbers, words, labels and times in every format of files and messages, whatever types it has for them, and for all
// roles of its columns: decimals are rounded once, to float64, times keep their zone, and nested values are found by path.
func TestRowsAreTheSameInEveryWay(t *testing.T) {
	item := arrow.StructOf(nullable("price", arrow.PrimitiveTypes.Float64))
	category := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	zoned := &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "Europe/Berlin"}
	b := table{
		fields: []arrow.Field{nullable("colour", category),
			nullable("yes", arrow.FixedWidthTypes.Boolean), nullable("n", arrow.PrimitiveTypes.Int64), nullable("w", arrow.PrimitiveTypes.Float64),
			nullable("p", arrow.PrimitiveTypes.Int8), nullable("kinds", arrow.ListOf(arrow.BinaryTypes.String)), nullable("said", arrow.BinaryTypes.String),
			nullable("d", &arrow.Decimal128Type{Precision: 20, Scale: 10}), nullable("at", zoned),
			nullable("user", arrow.StructOf(nullable("age", arrow.PrimitiveTypes.Int16))), nullable("items", arrow.ListOf(item))},
		rows: []string{
			`{"colour":"red","yes":true,"n":-7,"w":2,"p":1,"kinds":["a"],"said":"The cat, the CAT","d":0.3,"at":"2026-07-01T01:30:00+02:00","user":{"age":30},"items":[{"price":9},{"price":1.5}]}`,
			`{"colour":"blue","yes":false,"n":1099511627776,"w":0.5,"p":0,"kinds":["b","a"],"said":"a dog","d":16777217.000000001,"at":"2026-12-31T23:59:59.5+01:00","user":{"age":-7},"items":[{"price":9},{"price":0.1}]}`,
			`{"colour":null,"yes":false,"n":0,"w":1,"p":1,"kinds":[],"said":"","d":-1,"at":"2026-07-01T00:00:00+02:00","user":{"age":null},"items":[{"price":9},{"price":null}]}`,
			`{"colour":"green","yes":true,"n":3,"w":1.25,"p":0,"kinds":["c"],"said":"cat","d":1,"at":"2026-02-01T12:00:00+01:00","user":null,"items":[{"price":9},{"price":0.3333333333333333}]}`},
		flat: []string{"colour", "yes", "n", "w", "p", "kinds", "said", "d", "at", "user.age", "items.1.price"},
	}
	for name, test := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"numbers": {func(o *Options) {
			o.Label, o.Weight, o.Columns.Use = "colour", "w", []string{"yes", "n", "d", "user.age", "items.1.price"}
		}, `4 × 5 floats [1 -7 0.3 30 1.5 0 1.0995116e+12 1.6777216e+07 -7 0.1 0 0 -1 NaN NaN 1 3 1 NaN 0.33333334] words ["red" "blue" "" "green"] weights [2 0.5 1 1.25]`},
		"words": {func(o *Options) {
			o.Label, o.Columns.Use, o.Categorical = "yes", []string{"colour", "n", "user.age", "items.1.price"}, []string{"colour", "user.age", "items.1.price"}
		}, `4 × 12 floats [0 0 1 0 -7 0 1 0 0 0 1 0 1 0 0 0 1.0995116e+12 1 0 0 1 0 0 0 NaN NaN NaN NaN 0 NaN NaN NaN NaN NaN NaN NaN 0 1 0 0 3 NaN NaN NaN 0 1 0 0] words ["true" "false" "false" "true"]`},
		"words of decimals as labels": {func(o *Options) { o.Label, o.Columns.Use = "items.1.price", []string{"user.age"} }, `4 × 1 floats [30 -7 NaN NaN] words ["1.5" "0.1" "" "0.3333333333333333"]`},
		"whole labels":                {func(o *Options) { o.Label, o.Columns.Use = "n", []string{"w"} }, `4 × 1 floats [2 0.5 1 1.25] words ["-7" "1099511627776" "0" "3"]`},
		"times": {func(o *Options) {
			o.Label, o.Columns.Use, o.Times = "p", []string{"at"}, layout.PartsOfTimes(map[string][]string{"at": {value.TimeHour, value.TimeMonth}})
		}, `4 × 2 floats [1.5 7 23.99986 12 0 7 12 2] words ["1" "0" "1" "0"]`},
		"targets": {func(o *Options) { o.Targets, o.Columns.Use = []string{"n", "w"}, []string{"user.age"} }, `4 × 1 floats [30 -7 NaN NaN] targets [-7 2 1.099511627776e+12 0.5 0 1 3 1.25]`},
		"labels":  {func(o *Options) { o.Label, o.Labels, o.Columns.Use = "kinds", layout.LabelsSeveral, []string{"w"} }, `4 × 1 floats [2 0.5 1 1.25] lists [["a"] ["b" "a"] [] ["c"]]`},
		"columns of labels": {func(o *Options) {
			o.LabelColumns, o.Labels, o.Columns.Use = []string{"yes", "p"}, layout.LabelsSeveral, []string{"w"}
		}, `4 × 1 floats [2 0.5 1 1.25] lists [["yes" "p"] [] ["p"] ["yes"]]`},
		"texts":          {func(o *Options) { o.Label, o.Text, o.Words.Columns = "yes", "said", 64 }, `4 × 0 [39 60]:[2 2] [12 41]:[1 1] []:[] [39]:[1] words ["true" "false" "false" "true"]`},
		"lists of words": {func(o *Options) { o.Label, o.Text, o.Words.Columns = "yes", "kinds", 64 }, `4 × 0 [12]:[1] [12 37]:[1 1] []:[] [50]:[1] words ["true" "false" "false" "true"]`},
		"numbers that are missing": {func(o *Options) {
			o.Label, o.Columns.Use, o.MissingValues = "said", []string{"yes", "n", "w", "user.age"}, []string{"", "-7.0", "0", "5e-1"}
		}, `4 × 4 floats [1 NaN 2 30 0 1.0995116e+12 NaN NaN 0 NaN 1 NaN 1 3 1.25 NaN] words ["The cat, the CAT" "a dog" "" "cat"]`},
	} {
		b.inEveryWay(t, test.change, func(way string, rows *examples.Rows) {
			for _, n := range rows.Numbers { // of columns of whole numbers
				rows.Words = append(rows.Words, strconv.FormatInt(n, 10))
			}
			rows.Numbers = nil
			assert.Equal(t, show(*rows), test.want, "%s in a %s", name, way)
		})
	}
}

// encoded encodes a value in Avro.
func encoded(t *testing.T, schema string, value any) []byte {
	t.Helper()
	return assert.Must(avro.MustParse(schema).Encode(value))(t)
}
