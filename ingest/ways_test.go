package ingest

import (
	"bytes"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/decimal128"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/parquet-go/parquet-go"
	"github.com/twmb/franz-go/pkg/sr"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/value"
)

// A row has the same numbers, words and times in every format of files and messages, whatever types it has for them: decimals
// are rounded once, to float64, times keep their zone, and nested values are found by path.
func TestValuesAreTheSameInEveryWay(t *testing.T) {
	const rows = 2
	decimals, at := []string{"0.3", "16777217.000000001"}, []string{"2026-07-01T01:30:00+02:00", "2026-12-31T23:59:59.5+01:00"}
	ages, prices := []int{30, -7}, []float64{1.5, 0.1}
	var lines []string
	text := "kind,d,at,user.age,items.1.price\n"
	for i := range rows {
		lines = append(lines, fmt.Sprintf(`{"kind":"%c","d":%s,"at":%q,"user":{"age":%d},"items":[{"price":9},{"price":%v}]}`, 'a'+i, decimals[i], at[i], ages[i], prices[i]))
		text += fmt.Sprintf("%c,%s,%s,%d,%v\n", 'a'+i, decimals[i], at[i], ages[i], prices[i])
	}

	const avsc = `{"type":"record","name":"Row","fields":[{"name":"kind","type":"string"},{"name":"d","type":{"type":"bytes","logicalType":"decimal","precision":20,"scale":10}},
		{"name":"at","type":"string"},{"name":"user","type":["null",{"type":"record","name":"User","fields":[{"name":"age","type":"int"}]}]},
		{"name":"items","type":{"type":"array","items":{"type":"record","name":"Item","fields":[{"name":"price","type":"double"}]}}}]}`
	const protoc = `syntax = "proto3"; message Row { message User { int32 age = 1; } message Item { double price = 1; }
		string kind = 1; double d = 2; string at = 3; User user = 4; repeated Item items = 5; }`
	registry := registered(t, sr.Schema{Schema: avsc}, sr.Schema{Schema: protoc, Type: sr.TypeProtobuf})
	inAvro, inProtobuf := []string{}, []string{}
	zoned := &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "Europe/Berlin"}
	item := arrow.StructOf(nullable("price", arrow.PrimitiveTypes.Float64))
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{nullable("kind", arrow.BinaryTypes.String),
		nullable("d", &arrow.Decimal128Type{Precision: 20, Scale: 10}), nullable("at", zoned),
		nullable("user", arrow.StructOf(nullable("age", arrow.PrimitiveTypes.Int16))), nullable("items", arrow.ListOf(item))}, nil))
	for i := range rows {
		exact, _ := new(big.Rat).SetString(decimals[i])
		inAvro = append(inAvro, string(framed(1, encoded(t, avsc, map[string]any{"kind": string(rune('a' + i)), "d": exact, "at": at[i],
			"user": map[string]any{"age": ages[i]}, "items": []any{map[string]any{"price": 9.0}, map[string]any{"price": prices[i]}}}))))
		inProtobuf = append(inProtobuf, string(framed(2, append([]byte{0}, protobufOf(t, protoc, lines[i])...))))
		moment := must(value.Time(at[i], ""))(t)
		unscaled := must(decimal128.FromString(decimals[i], 20, 10))(t)
		b.Field(0).(*array.StringBuilder).Append(string(rune('a' + i)))
		b.Field(1).(*array.Decimal128Builder).Append(unscaled)
		b.Field(2).(*array.TimestampBuilder).Append(arrow.Timestamp(moment.UnixMicro()))
		user, items := b.Field(3).(*array.StructBuilder), b.Field(4).(*array.ListBuilder)
		user.Append(true)
		user.FieldBuilder(0).(*array.Int16Builder).Append(int16(ages[i]))
		items.Append(true)
		for _, price := range []float64{9, prices[i]} {
			items.ValueBuilder().(*array.StructBuilder).Append(true)
			items.ValueBuilder().(*array.StructBuilder).FieldBuilder(0).(*array.Float64Builder).Append(price)
		}
	}
	record := b.NewRecord()
	var inParquet bytes.Buffer
	type price struct {
		Price float64 `parquet:"price"`
	}
	type row struct {
		Kind string `parquet:"kind"`
		D    int64  `parquet:"d,decimal(9:18)"`
		At   string `parquet:"at"`
		User *struct {
			Age int32 `parquet:"age"`
		} `parquet:"user"`
		Items []price `parquet:"items,list"`
	}
	w := parquet.NewGenericWriter[row](&inParquet)
	for i := range rows {
		unscaled := new(big.Rat)
		unscaled.SetString(decimals[i])
		r := row{Kind: string(rune('a' + i)), At: at[i], Items: []price{{9}, {prices[i]}},
			D: unscaled.Mul(unscaled, big.NewRat(1e9, 1)).Num().Int64()}
		r.User = &struct {
			Age int32 `parquet:"age"`
		}{int32(ages[i])}
		must(w.Write([]row{r}))(t)
	}
	noError(t, w.Close())
	for name, test := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"numbers": {func(o *Options) { o.Columns.Use = []string{"d", "user.age", "items.1.price"} },
			`2 × 3 floats [0.3 30 1.5 1.6777216e+07 -7 0.1] words ["a" "b"]`},
		"words": {func(o *Options) {
			o.Columns.Use, o.Categorical = []string{"user.age", "items.1.price"}, []string{"user.age", "items.1.price"}
		}, `2 × 6 floats [0 1 0 0 1 0 1 0 0 1 0 0] words ["a" "b"]`},
		"words of decimals as labels": {func(o *Options) { o.Label, o.Columns.Use = "items.1.price", []string{"user.age"} },
			`2 × 1 floats [30 -7] words ["1.5" "0.1"]`},
		"times": {func(o *Options) {
			o.Columns.Use, o.Times = []string{"at"}, layout.PartsOfTimes(map[string][]string{"at": {value.TimeHour, value.TimeMonth}})
		}, `2 × 2 floats [1.5 7 23.99986 12] words ["a" "b"]`},
	} {
		change := func(o *Options) {
			o.Label, o.Missing.Mode = "kind", layout.MissingMean
			test.change(o)
		}
		onTopic := func(format string, values ...string) string {
			return show(*addAll(t, ofTopic(format, func(o *Options) {
				if change(o); format == "avro" || format == "protobuf" {
					o.Registry.URL = registry.URL()
				}
			}), values...))
		}
		inFile := func(name, content string) string {
			got, _, _, problem := readAs(t, name, []byte(content), change)
			got.Columns = nil
			return show(got) + problem
		}
		for way, got := range map[string]string{
			"CSV": inFile("rows.csv", text), "JSON Lines": inFile("rows.jsonl", strings.Join(lines, "\n")),
			"Arrow file": inFile("rows.arrow", string(arrowContent(t, record, 1, true))), "Arrow topic": onTopic("arrow", string(arrowContent(t, record, 1, false))),
			"Parquet":    inFile("rows.parquet", inParquet.String()),
			"JSON topic": onTopic("json", lines...), "Avro topic": onTopic("avro", inAvro...), "Protobuf topic": onTopic("protobuf", inProtobuf...),
		} {
			if got != test.want {
				t.Errorf("%s in %s: %s\nexpected %s", name, way, got, test.want)
			}
		}
	}
}
