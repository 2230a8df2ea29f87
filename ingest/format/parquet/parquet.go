// Package parquet reads Parquet files as Arrow records, so that their columns have the values of Arrow's.
package parquet

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/format/arrow"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
)

// Format is Apache Parquet (https://parquet.apache.org/docs/file-format).
func Format() format.Format {
	return format.Format{
		Name:     "parquet",
		Label:    format.Label,
		Meaning:  "columns of numbers and words, or one list of numbers or of index and value",
		Patterns: []string{"*.parquet", "*.pq"},
		Files:    1,
		Table:    open,
	}
}

// open opens a file.
func open(c *input.Content, o layout.Options, _ *layout.Features) (t format.Table, err error) {
	f, ok := c.File.ReadCloser.(interface { // to be read at any offset
		fs.File
		io.ReaderAt
	})
	if !ok || c.Kind != "" {
		return t, fmt.Errorf("a Parquet file compressed with %s: expected the plain file, whose columns are compressed", c.Kind)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		return t, err
	case info.Size() == 0 && info.Mode().IsRegular():
		return t, input.ErrEmpty
	case !info.Mode().IsRegular():
		return t, errors.New("a pipe: expected a file, because Parquet stores its schema at the end")
	}
	some := Wanted(o.Named())
	wanted := func(path string) bool { // a column is wanted as a whole if none within it is named
		column, _, _ := strings.Cut(path, ".")
		return some(path) || !some(column)
	}
	// The section has its own position. The digest covers the bytes that content reads.
	r, err := Open(io.NewSectionReader(f, 0, info.Size()), info.Size(), Columns{Own: true, Wanted: wanted})
	if err != nil {
		return t, err
	}
	return arrow.Table(r, o)
}
