package ingest

import (
	"context"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"github.com/stagewise/stagewise/ingest/layout"
)

// The IDs of sources never change: a source on a topic must be recognised by later versions.
func TestSourceIDGolden(t *testing.T) {
	f := newFolder(t)
	table := f.write(t, "a.csv", []byte("y,x,w\nb,1,2\n"))
	images := f.write(t, "images.idx", idxFile(8, []uint32{1, 1}, uint8(7)))
	labels := f.write(t, "labels.idx", idxFile(8, []uint32{1}, uint8(1)))
	rows := f.write(t, "rows.libsvm", []byte("1 3:2\n"))
	record := arrowRows(t, `[{"x":1,"label":"a"}]`, nullable("x", arrow.PrimitiveTypes.Int32), nullable("label", arrow.BinaryTypes.String))
	stream := f.write(t, "a.arrow", arrowContent(t, record, 1, false))
	lines := f.write(t, "a.jsonl", []byte(`{"x":1,"label":"a"}`))
	yes, frame := true, f.write(t, "frame.parquet", pandasFrame(t))
	for _, test := range []struct {
		name   string
		change func(*Options)
		want   string
	}{
		{"csv", func(o *Options) { o.Train, o.Header, o.Weight = []string{table}, &yes, "2" },
			"da520de4d3a2460a62b99cfe8034d9f5589c3104eafc908a13dcf1f7f12a20c6"},
		{"csv, all options", func(o *Options) {
			o.Test, o.Label, o.Weight, o.Missing.Mode, o.Classes = []string{table}, "y", "w", layout.MissingMean, []string{"b", "a"}
		}, "da520de4d3a2460a62b99cfe8034d9f5589c3104eafc908a13dcf1f7f12a20c6"},
		{"idx, all options", func(o *Options) {
			o.Test, o.Label, o.Weight, o.Missing.Mode, o.Classes = []string{images, labels}, "y", "w", layout.MissingMean, []string{"1", "0"}
		}, "bf6f2e737435ad644e95860252ee07b446ca533db937ceb413fffc926c165361"},
		{"libsvm, all options", func(o *Options) {
			o.Test, o.Missing.Mode, o.Classes = []string{rows}, layout.MissingMean, []string{"1", "0"}
		},
			"c710e85ba501e9a5c9f3d9febcb6f09d68e9c691f09dae671f1f1e717070bcaa"},
		{"arrow", func(o *Options) { o.Train = []string{stream} }, "3393ee86ba66ea2e0f2f269dc14761f036bb52682ffd18f36c29eea692ec30b3"},
		{"jsonl", func(o *Options) { o.Train = []string{lines} }, "cd19835908cbafb660ae440b1f8c5dce4c552a8c01e71f2d58495f14b33b119f"},
		{"parquet, all options", func(o *Options) {
			o.Train, o.Label, o.Weight, o.Missing.Mode, o.Classes = []string{frame}, "3", "weight", layout.MissingMean, []string{"b", "a"}
		}, "71507d4e3936f5c758b899f64a1b8bc9186f5e035db20c0c7c0103437f728657"},
	} {
		o := Defaults()
		test.change(&o) // both csv cases read the same columns
		found := must(Sources(context.Background(), o))(t)
		if found[0].ID != test.want {
			t.Errorf("%s: %s, expected %s", test.name, found[0].ID, test.want)
		}
	}
}

// Each format of the table is complete, and no file name matches two formats.
func TestFormats(t *testing.T) {
	names := map[string]bool{}
	for _, f := range formats() {
		if f.Name == "" || names[f.Name] || len(f.Patterns) == 0 {
			t.Errorf("%q: expected a name of its own, and patterns", f.Name)
		}
		names[f.Name] = true
		if (f.Table == nil) == (f.Rows == nil) || f.Meaning == "" || f.Files < 1 || f.Files > 1 && f.WantFiles == "" {
			t.Errorf("%s: incomplete: %+v", f.Name, f)
		}
	}
	for _, name := range []string{"a-ubyte", "a.idx", "a.idx3", "a.csv", "a.libsvm", "a.svm", "a.svmlight", "a.arrow", "a.arrows",
		"a.feather", "a.parquet", "a.pq", "a.jsonl", "a.ndjson"} {
		claims := 0
		for _, f := range formats() {
			if f.Claims(name) {
				claims++
			}
		}
		if claims != 1 {
			t.Errorf("%s: %d formats", name, claims)
		}
	}
}
