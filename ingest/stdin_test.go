package ingest

import (
	"bytes"
	"context"
	"testing"

	"github.com/stagewise/stagewise/ingest/layout"
)

// The standard input has the ID and the rows of a file with the same bytes, in every format recognised by its first bytes
// or its end.
func TestStandardInputIsAFile(t *testing.T) {
	f := folder(t.TempDir())
	for format, content := range map[string][]byte{
		"csv":     []byte("0,1,2\n1,3,4\n"),
		"parquet": pandasFrame(t),
	} {
		read := func(o Options) (id string, rows int) {
			t.Helper()
			o.Format = format
			if format == "parquet" {
				o.Missing.Mode = layout.MissingMean
			}
			sources, err := Sources(context.Background(), o)
			if err != nil {
				t.Fatalf("%s: %v", format, err)
			}
			for batch, err := range sources[0].Batches(context.Background()) {
				if err != nil {
					t.Fatalf("%s: %v", format, err)
				}
				rows += batch.Rows
			}
			return sources[0].ID, rows
		}
		named, input := Defaults(), Defaults()
		named.Train, input.Train = []string{f.write(t, "a", content)}, []string{StandardInput}
		remove := must(input.Spool(context.Background(), bytes.NewReader(content)))(t)
		id, rows := read(input)
		if wantID, wantRows := read(named); id != wantID || rows != wantRows || rows == 0 {
			t.Errorf("%s: %d rows of %s, expected %d of %s", format, rows, id, wantRows, wantID)
		}
		if err := remove(); err != nil {
			t.Error(err)
		}
	}
}
