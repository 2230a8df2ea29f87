package examples

import (
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"github.com/stagewise/stagewise/internal/arrowtest"
)

// What was served comes back for each row, whoever wrote it.
func TestServed(t *testing.T) {
	mem := arrowtest.Allocator(t)
	rows := &Rows{Rows: 4, Cols: 1, Floats: []float32{1, 2, 3, 4}, Served: []Served{{"a", 7}, {}, {"b", 0}, {"TRUE", 1}}}
	features := arrow.Field{Name: "features", Type: arrow.FixedSizeListOf(1, arrow.PrimitiveTypes.Float32)}
	foreign := fromJSON(t, mem, `[{"features":[1],"served":3,"served_version":7},{"features":[1],"served":null,"served_version":7},
		{"features":[1],"served":4,"served_version":0},{"features":[1],"served":-5,"served_version":2147483647}]`, features,
		arrow.Field{Name: "served", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		arrow.Field{Name: "served_version", Type: arrow.PrimitiveTypes.Uint32, Nullable: true})
	alone := fromJSON(t, mem, `[{"features":[1],"served":"a"}]`, features, arrow.Field{Name: "served", Type: arrow.BinaryTypes.String})
	for name, c := range map[string]struct {
		value []byte
		want  []Served
	}{
		"of ingest":           {encodeRows(t, rows, mem), []Served{{"a", 7}, {}, {}, {"true", 1}}},
		"of another producer": {foreign, []Served{{"3", 7}, {}, {}, {"-5", 2147483647}}},
		"without a version":   {alone, []Served{{}}},
		"without either":      {encodeRows(t, &Rows{Rows: 1, Cols: 1, Floats: []float32{1}}, mem), []Served{{}}},
	} {
		batch := arrowtest.Must(Decode(c.value, mem))(t)
		for row, want := range c.want {
			if got, ok := batch.Served(row); got != want || ok != (want != Served{}) {
				t.Errorf("%s: row %d is %v, %v, expected %v", name, row, got, ok, want)
			}
		}
		batch.Release()
	}
	wrong := fromJSON(t, mem, `[{"features":[1],"served":[1]}]`, features, arrow.Field{Name: "served", Type: arrow.ListOf(arrow.PrimitiveTypes.Int32)})
	if _, err := Decode(wrong, mem); err == nil {
		t.Error("a list was taken as what was served")
	}
}
