//go:build python

package ingest

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/assert"
)

// Archives that pyarrow and fastavro write have the rows that these were given, with their offsets.
func TestPythonArchives(t *testing.T) {
	interpreter := os.Getenv("STAGEWISE_PYTHON")
	assert.Need(t, interpreter != "", "STAGEWISE_PYTHON is not set: run scripts/python.sh, which prints the value")
	command := exec.Command(interpreter, "testdata/archives.py", t.TempDir())
	command.Stderr = os.Stderr
	printed := assert.Must(command.Output())(t)
	archives := 0
	for line := range strings.Lines(string(printed)) {
		var of struct {
			Layout, Files string
			Rows          [][]*float64
		}
		assert.NoError(t, json.Unmarshal([]byte(line), &of))
		archives++
		o := ofTopic("json", func(o *Options) {
			o.Label, o.Columns.Use, o.Missing.Mode = "label", []string{"x", "place.y", "items.0.price", "at"}, layout.MissingMean
			o.Archive.Files, o.Archive.Layout, o.BatchRows = of.Files, of.Layout, len(of.Rows)
		})
		a, err := o.OpenArchive(t.Context())
		assert.NoError(t, err)
		v, offset := valuesOf(t, o), int64(0)
		for next, err := range a.Range(t.Context(), 0, 0, 1<<40, 0) {
			assert.Need(t, err == nil && next.Offset == offset, "%s: %v: offset %d expected", of.Layout, err, offset)
			for row := range next.Len() {
				value, decoded := next.Value(row)
				_, err := v.Add(t.Context(), TopicMessage{Offset: offset, Value: value, Row: decoded})
				assert.NoError(t, err)
				offset++
			}
		}
		batch := v.Take()
		assert.Need(t, batch != nil && batch.Rows == len(of.Rows), "%s: %d rows expected", of.Layout, len(of.Rows))
		for i, want := range of.Rows {
			for column, x := range want {
				got := batch.Floats[4*i+column]
				if x == nil && got == got || x != nil && got != float32(*x) {
					t.Fatalf("%s: row %d, column %d is %v, expected %v", of.Layout, i, column, got, want)
				}
			}
		}
	}
	assert.True(t, archives == 2, "%d archives", archives)
}
