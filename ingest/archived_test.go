package ingest

import (
	"testing"

	"github.com/stagewise/stagewise/ingest/format/arrow"
)

// A decoded message that is packed until its outcome comes has the rows that it has otherwise.
func TestPack(t *testing.T) {
	o := ofTopic("json", func(o *Options) {
		o.Label, o.Columns.Use, o.Missing.Mode = "kind", []string{"w", "user.age", "user.at", "items.0.price"}, "mean"
	})
	batch := arrowRows(t, nestedEvents, nestedFields()...)
	plain, packed := valuesOf(t, o), valuesOf(t, o)
	for row := range int(batch.NumRows()) {
		m := TopicMessage{Partition: 2, Offset: int64(row), Key: "k", Time: 7, Row: arrow.Nested{Of: arrow.RowsOf(batch), Row: row}.Message()}
		again, err := packed.Pack(t.Context(), m)
		if err == nil {
			_, err = packed.Add(t.Context(), Unpack(2, int64(row), again))
		}
		if err == nil {
			_, err = plain.Add(t.Context(), m)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	got, want := packed.Take(), plain.Take()
	if show(*got) != show(*want) || got.Rows != 3 || len(got.Origins) != len(want.Origins) || got.SourceKeys[2] != "k" {
		t.Errorf("%s, expected %s", show(*got), show(*want))
	}
	wide := valuesOf(t, ofTopic("json", func(o *Options) { o.Label, o.Text = "kind", "tags" })) // lists
	for row := range int(batch.NumRows()) {
		m := TopicMessage{Offset: int64(row), Row: arrow.Nested{Of: arrow.RowsOf(batch), Row: row}.Message()}
		before, err := wide.rowsOf(t.Context(), m)
		content, err2 := wide.Pack(t.Context(), m)
		after, err3 := wide.rowsOf(t.Context(), Unpack(0, int64(row), content))
		if err != nil || err2 != nil || err3 != nil || len(after) != 1 || len(after[0]) != len(before[0]) {
			t.Fatal(err, err2, err3)
		}
		for i := range after[0] {
			if !after[0][i].Same(&before[0][i]) {
				t.Errorf("row %d: %s, expected %s", row, &after[0][i], &before[0][i])
			}
		}
	}
}
