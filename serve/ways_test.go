package serve

import (
	"fmt"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"github.com/stagewise/stagewise/ingest"
	formatarrow "github.com/stagewise/stagewise/ingest/format/arrow"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// Rows of requests have the same numbers, words and times as the rows of files and topics in TestValuesAreTheSameInEveryWay of
// package ingest, in JSON and in Arrow.
func TestValuesAreTheSameInRequests(t *testing.T) {
	const rows = `[{"d":"0.3","at":"2026-07-01T01:30:00+02:00","user":{"age":30},"items":[{"price":9},{"price":1.5}]},
		{"d":"16777217.000000001","at":"2026-12-31T23:59:59.5+01:00","user":{"age":-7},"items":[{"price":9},{"price":0.1}]}]`
	nullable := func(name string, of arrow.DataType) arrow.Field {
		return arrow.Field{Name: name, Type: of, Nullable: true}
	}
	stream := recordStream(t, []arrow.Field{nullable("d", &arrow.Decimal128Type{Precision: 20, Scale: 10}), nullable("at", arrow.BinaryTypes.String),
		nullable("user", arrow.StructOf(nullable("age", arrow.PrimitiveTypes.Int16))),
		nullable("items", arrow.ListOf(arrow.StructOf(nullable("price", arrow.PrimitiveTypes.Float64))))}, rows)
	for name, c := range map[string]struct {
		columns examples.Columns
		want    string
	}{
		"numbers": {examples.Columns{{Name: "d"}, {Name: "user.age"}, {Name: "items.1.price"}}, "[0.3 30 1.5 1.6777216e+07 -7 0.1]"},
		"words": {examples.Columns{{Name: "user.age", Categories: []string{"-7", "30"}}, {Name: "items.1.price", Categories: []string{"0.1", "1.5"}}},
			"[0 1 0 0 1 0 1 0 0 1 0 0]"},
		"times": {examples.Columns{examples.PartOf("at", value.TimeHour, ""), examples.PartOf("at", value.TimeMonth, "")}, "[1.5 7 23.99986 12]"},
	} {
		o := ingest.Defaults().Options
		o.Missing.Mode = layout.MissingMean
		want := layout.Features{Width: c.columns.Features(), Columns: c.columns}
		request := must(layout.NewRequest(o, want))(t)
		inJSON, err := allRows([]byte(`{"rows":`+rows+`}`), request)
		if got := fmt.Sprint(inJSON); err != nil || got != c.want {
			t.Errorf("%s in JSON: %s, %v, expected %s", name, got, err, c.want)
		}
		var inArrow []float32
		for batch, err := range formatarrow.Stream(t.Context(), "the request", stream, nil, o, want) {
			noError(t, err)
			inArrow = append(inArrow, batch.Floats...)
		}
		if got := fmt.Sprint(inArrow); got != c.want {
			t.Errorf("%s in Arrow: %s, expected %s", name, got, c.want)
		}
	}
}
