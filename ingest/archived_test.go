package ingest

import (
	"testing"

	"github.com/stagewise/stagewise/ingest/format/arrow"
	"github.com/stagewise/stagewise/ingest/layout"
)

// Decoded messages that are packed until their outcomes come have the rows that they have otherwise, also if those are read in blocks.
func TestPack(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Options)
		blocks bool
	}{
		"words": {func(o *Options) { o.Label, o.Text = "kind", "tags" }, false},
		"paths": {func(o *Options) {
			o.Label, o.Columns.Use, o.Missing.Mode = "kind", []string{"w", "user.age", "user.at", "items.0.price"}, layout.MissingMean
		}, false},
		"numbers": {func(o *Options) {
			o.Label, o.Columns.Use, o.Missing.Mode = "kind", []string{"user.age", "w"}, layout.MissingMean
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			batch := arrowRows(t, nestedEvents, nestedFields()...)
			o := ofTopic("json", test.change)
			o.BatchRows = 100
			if o.Text != "" {
				words, err := NewTopicWords(o)
				if err == nil {
					err = words.Add(t.Context(), TopicMessage{Value: []byte(nestedEvents)})
				}
				if err == nil {
					o, err = words.Options()
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			plain, packed := valuesOf(t, o), valuesOf(t, o)
			for offset := int64(0); offset < layout.OffsetRows+600; {
				rows := arrow.RowsOf(batch)
				for row := range rows.Column.Len() {
					decoded := arrow.Nested{Of: rows, Row: row}.Message()
					m := TopicMessage{Partition: 2, Offset: offset, Key: "k", Time: 7, Row: &decoded}
					again, err := packed.Pack(t.Context(), m)
					if err == nil {
						_, err = packed.Add(t.Context(), Unpack(2, offset, again))
					}
					if err == nil {
						_, err = plain.Add(t.Context(), m)
					}
					if err != nil {
						t.Fatal(err)
					}
					offset++
				}
				if plain.Full() {
					if got, want := plain.Take(), packed.Take(); show(*got) != show(*want) || got.SourceKeys[0] != "k" {
						t.Fatalf("%s, expected %s", show(*got), show(*want))
					}
				}
			}
			if blocks := plain.ahead.rows.Rows > 0; blocks != test.blocks {
				t.Errorf("read in blocks: %t", blocks)
			}
		})
	}
}
