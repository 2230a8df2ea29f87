package arrow

import (
	"bufio"
	"bytes"
	"context"
	"iter"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
)

// Stream is Format for rows that are sent as an Arrow stream or file, without a copy. name is used in errors. reserve
// reserves memory for what the rows unpack to.
func Stream(ctx context.Context, name string, value []byte, reserve func(input.Unpacked) error, o layout.Options,
	want layout.Features) iter.Seq2[*examples.Rows, error] {
	return func(yield func(*examples.Rows, error) bool) {
		c := &input.Content{Reader: bufio.NewReader(bytes.NewReader(nil)), Name: name, Value: value, Reserve: reserve}
		r, err := Format().OpenFeatures(c, o, want)
		if err != nil {
			yield(nil, err)
			return
		}
		format.BatchesOf(ctx, r)(yield)
	}
}
