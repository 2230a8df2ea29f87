package libsvm

import (
	"bytes"
	"io"
	"slices"

	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
)

// addExtent adds the indices of the rows of a file, which it reads completely.
func addExtent(c *input.Content, o layout.Options, found *layout.FoundExtent) error {
	r, err := newLIBSVMReader(c, o)
	if err != nil {
		return err
	}
	for {
		if err := r.read(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		_, rest, field := r.cutLabel()
		for ; len(rest) > 0; field++ {
			var token []byte
			if token, rest = cutField(rest); bytes.HasPrefix(token, []byte(queryField)) {
				continue
			}
			index, _, err := parsePair(token)
			if err != nil {
				return r.fail(field, err)
			}
			found.Add(index)
		}
	}
}

// appendZeros appends a dense row of zeros; nil: rows are sparse.
func (r *libsvmReader) appendZeros(b *examples.Rows) []float32 {
	if r.dense.Width == 0 {
		return nil
	}
	base := len(b.Floats)
	b.Floats = slices.Grow(b.Floats, b.Cols)[:base+b.Cols]
	clear(b.Floats[base:])
	return b.Floats[base:]
}
