package ingest

import (
	"math"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/ingest/layout"
)

// The defaults are valid, and all problems are reported at once. Package config tests each invalid combination of keys.
func TestCheck(t *testing.T) {
	o := Defaults()
	if problems := o.Check(); problems != nil {
		t.Errorf("the defaults: %v", problems)
	}
	if o.Holdout = math.NaN(); len(o.Check()) != 1 {
		t.Errorf("a holdout that is no number: %v", o.Check())
	}
	no := false
	// Options that are invalid for CSV are valid for a table with names, and for a file whose name does not determine its
	// format.
	for _, name := range []string{"a.parquet", "a.arrow", "a"} {
		o := Defaults()
		o.Train, o.Weight, o.Columns.Use = []string{name}, "0", []string{"1", "2"}
		named := o
		named.Label, named.Header = "y", &no
		for _, o := range []Options{o, named} {
			if problems := o.Check(); problems != nil {
				t.Errorf("%s: %v", name, problems)
			}
		}
	}
	csv := ofTopic("csv", func(o *Options) {
		o.Train, o.Header, o.Rows, o.Schema, o.OnChangedTopic, o.Topic = []string{"a.csv"}, &no, "a", "e.avsc", "go", "a"
		o.Label, o.Offsets, o.Registry.CA = "kind", layout.Offsets{"a": 1}, "ca"
	})
	json := ofTopic("json", func(o *Options) { o.Rows, o.Categorical, o.Columns.Drop = "dense", []string{"c"}, []string{"y"} })
	idx := Defaults()
	idx.Train, idx.Targets, idx.Schema = []string{"a.idx", "b.csv"}, []string{"1"}, "a.avsc"
	avro := ofTopic("avro", func(o *Options) { o.Message = "E" })
	for want, o := range map[string]Options{
		"missing batch_rows partitions":                                            {},
		"from_topic on_changed_topic topic registry.ca offsets schema rows format": csv,
		"columns.use rows": json, "schema message columns.use": avro, "schema train targets": idx,
	} {
		var keys []string
		for _, problem := range o.Check() {
			keys = append(keys, problem.Key)
		}
		if got := strings.Join(keys, " "); got != want {
			t.Errorf("problems of %s, expected %s", got, want)
		}
	}
}
