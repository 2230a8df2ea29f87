package arrow

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"iter"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/arrowvalue"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/stream"
)

// Stream is Format for rows that are sent as an Arrow stream or file, without a copy. name is used in errors. reserve
// reserves memory for what the rows unpack to.
func Stream(ctx context.Context, name string, value []byte, reserve func(input.Unpacked) error, o layout.Options,
	want layout.Features) iter.Seq2[*examples.Rows, error] {
	return func(yield func(*examples.Rows, error) bool) {
		c := &input.Content{Reader: bufio.NewReader(bytes.NewReader(nil)), Name: name, Value: value, Reserve: reserve}
		r, err := Format().Open([]*input.Content{c}, o, &want, nil)
		if err != nil {
			yield(nil, err)
			return
		}
		format.BatchesOf(ctx, r)(yield)
	}
}

// JSONRows returns the rows of an Arrow stream or file as JSON: objects of values by column name. It ends at an error, which Stream
// returns. reserve reserves memory for decompressed bytes.
func JSONRows(content []byte, reserve func(bytes int) error) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		from, file := arrowStreamOf(&input.Content{Value: content})
		r, err := stream.NewReader(from, file, memory.DefaultAllocator)
		if err != nil {
			return
		}
		defer r.Close()
		r.Reserve(reserve)
		for {
			record, err := r.Next(func(int) bool { return true })
			if err != nil || !yieldRows(record, yield) {
				return
			}
		}
	}
}

// yieldRows yields the rows of a record as JSON, and releases it.
func yieldRows(record arrow.Record, yield func([]byte) bool) bool {
	defer record.Release()
	for i := range int(record.NumRows()) {
		row := []byte{'{'}
		for j, column := range record.Columns() {
			name, _ := json.Marshal(record.ColumnName(j)) // a string can be encoded
			if j > 0 {
				row = append(row, ',')
			}
			row = arrowvalue.AppendJSON(append(append(row, name...), ':'), column, i)
		}
		if !yield(append(row, '}')) {
			return false
		}
	}
	return true
}
