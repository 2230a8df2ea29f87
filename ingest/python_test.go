//go:build python

package ingest

import (
	"encoding/json"
	"io"
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
		v, rows := valuesOf(t, o), a.Range(0, 0, 1<<40, 0)
		for offset := int64(0); err == nil; {
			next, e := rows.Next(t.Context())
			if err = e; err == nil {
				assert.Need(t, next.Offset == offset, "%s: offset %d, expected %d", of.Layout, next.Offset, offset)
			}
			for row := 0; err == nil && row < next.Len(); row++ {
				value, decoded := next.Value(row)
				_, err = v.Add(t.Context(), TopicMessage{Offset: offset, Value: value, Row: decoded})
				offset++
			}
		}
		batch := v.Take()
		assert.Need(t, err == io.EOF && batch != nil && batch.Rows == len(of.Rows), "%s: %v, %d rows expected", of.Layout, err, len(of.Rows))
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
