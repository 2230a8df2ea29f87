package ingest

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/ingest/layout"
)

// A column of a file that most rows lack from some row on, unlike those before, is named with the number of these rows. One that
// rows lack now and then, or always, is not.
func TestColumnsThatLaterRowsOfFilesLack(t *testing.T) {
	dense := func(o *Options) { o.Columns.Use = []string{"a", "b"} }
	hashed := func(o *Options) {
		o.Columns.Use, o.Categorical = []string{"a", "w"}, []string{"w"}
		o.Hash = layout.Hash{Columns: 64}
	}
	text := func(o *Options) { o.Text, o.Missing.Mode = "w", layout.MissingError }
	jsonl := func(row func(i int, late bool) string) (name, content string) {
		var b strings.Builder
		for i := range 3000 {
			fmt.Fprintf(&b, "{\"label\":%d,%s}\n", i%2, row(i, i >= 2000))
		}
		return "rows.jsonl", b.String()
	}
	for name, test := range map[string]struct {
		change func(*Options)
		row    func(i int, late bool) string
		want   map[string]int64
	}{
		"dense": {dense, func(i int, late bool) string {
			if late {
				return fmt.Sprintf(`"A":%d,"b":%d`, i, i)
			}
			return fmt.Sprintf(`"a":%d,"b":%d`, i, i)
		}, map[string]int64{"a": 1000}},
		"null": {dense, func(i int, late bool) string {
			if late {
				return fmt.Sprintf(`"a":%d,"b":null`, i)
			}
			return fmt.Sprintf(`"a":%d,"b":%d`, i, i)
		}, map[string]int64{"b": 1000}},
		"now and then": {dense, func(i int, late bool) string {
			if i%3 == 0 {
				return fmt.Sprintf(`"a":%d`, i)
			}
			return fmt.Sprintf(`"a":%d,"b":%d`, i, i)
		}, nil},
		"always": {dense, func(i int, late bool) string { return fmt.Sprintf(`"a":%d,"b":null`, i) }, nil},
		"hashed words": {hashed, func(i int, late bool) string {
			if late {
				return fmt.Sprintf(`"a":%d`, i)
			}
			return fmt.Sprintf(`"a":%d,"w":"k%d"`, i, i%5)
		}, map[string]int64{"w": 1000}},
		"texts": {text, func(i int, late bool) string {
			if late {
				return `"W":"some words"`
			}
			return `"w":"some words"`
		}, map[string]int64{"w": 1000}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t)
			file, content := jsonl(test.row)
			o := Defaults()
			o.Missing.Mode = layout.MissingMean
			test.change(&o)
			o.Train = []string{f.write(t, file, []byte(content))}
			found := must(Sources(t.Context(), o))(t)
			topic, lost := &memoryTopic{partitions: nil, capacity: -1}, map[string]int64(nil)
			topic.partitions = append(topic.partitions, nil)
			if _, err := Publish(context.Background(), found[0], Attempt{Spans: topic.spans()}, topic.write, memory.DefaultAllocator,
				func(int64) {}, func(columns map[string]int64) { lost = columns }); err != nil || !maps.Equal(lost, test.want) {
				t.Errorf("lost are %v, %v, expected %v", lost, err, test.want)
			}
		})
	}
}

// A row of a topic or a file without its list, or without its sparse row, is an error that names the column: it never counts as zeros.
func TestRowsWithoutTheirList(t *testing.T) {
	for first, later := range map[string]string{
		`{"label":"a","v":[1,2]}`:     `{"label":"b","V":[1,2]}`,
		`{"label":"a","v":{"3":1.5}}`: `{"label":"b","V":{"3":1.5}}`,
	} {
		o := ofTopic("json", func(o *Options) { o.Columns.Use, o.Missing.Mode = []string{"v"}, layout.MissingMean })
		v := valuesOf(t, o)
		if _, err := v.Add(t.Context(), TopicMessage{Value: []byte(first)}); err != nil {
			t.Fatalf("%s: %v", first, err)
		}
		if _, err := v.Add(t.Context(), TopicMessage{Value: []byte(later)}); err == nil || !strings.Contains(err.Error(), `column "v"`) {
			t.Errorf("%s: %v", later, err)
		}
		f := newFolder(t)
		o = Defaults()
		o.Columns.Use, o.Missing.Mode = []string{"v"}, layout.MissingMean
		o.Train = []string{f.write(t, "rows.jsonl", []byte(strings.Repeat(first+"\n", 2000)+later+"\n"))}
		if _, err := readSources(o); err == nil || !strings.Contains(err.Error(), `("v")`) || !strings.Contains(err.Error(), "line 2001") {
			t.Errorf("%s in a file: %v", later, err)
		}
	}
}
