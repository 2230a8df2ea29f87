package arrow

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"iter"
	"math"

	"github.com/apache/arrow/go/v17/arrow"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/stream"
)

// Sent are rows sent for prediction.
type Sent struct {
	Stream []byte       // an Arrow stream or file, which is not copied
	Record arrow.Record // the rows, instead of Stream; nil: Stream has them. It is not released.
}

// Unpacked is the size of unpacked rows, in addition to the bytes sent.
type Unpacked struct {
	Buffers int // decompressed bytes
	Texts   int // bytes of the texts of all rows; a text in a dictionary counts for each of its rows
	Values  int // values of sparse rows
}

// records returns the batches. reserve reserves memory for decompressed bytes; if it is nil, the limits of files apply.
func (s Sent) records(reserve func(Unpacked) error) (Records, error) {
	if s.Record != nil {
		return &single{Record: s.Record}, nil
	}
	r, err := readerOf(s.Stream)
	if err == nil && reserve != nil {
		r.Reserve(func(bytes int) error { return reserve(Unpacked{Buffers: bytes}) })
	}
	return batches{r}, err
}

// single is the batch of a single record.
type single struct {
	arrow.Record
	read bool
}

// Next implements Records.
func (s *single) Next(int, func(column int) bool) (arrow.Record, error) {
	if s.read {
		return nil, io.EOF
	}
	s.read = true
	s.Retain()
	return s.Record, nil
}

// Batches iterates over the features of the rows. name is used in errors. reserve reserves memory for the unpacked rows before they are
// unpacked; its error ends the iteration. If reserve is nil, the limits of files apply.
func (s Sent) Batches(ctx context.Context, name string, reserve func(Unpacked) error, o layout.Options,
	want layout.Features) iter.Seq2[*examples.Rows, error] {
	return func(yield func(*examples.Rows, error) bool) {
		f := Format()
		f.Table = func(_ *input.Content, o layout.Options, _ *layout.Features) (format.Table, error) {
			return s.table(reserve, o)
		}
		empty := &input.Content{Reader: bufio.NewReader(bytes.NewReader(nil)), Name: name}
		r, err := f.Open([]*input.Content{empty}, o, &want, nil)
		if err != nil {
			yield(nil, err)
			return
		}
		format.BatchesOf(ctx, r)(yield)
	}
}

// table returns the rows as a table.
func (s Sent) table(reserve func(Unpacked) error, o layout.Options) (format.Table, error) {
	records, err := s.records(reserve)
	if err != nil {
		return format.Table{}, err
	}
	of := newSource(records, o)
	of.reserve = reserve
	for i := range of.own {
		of.fields[i].Digits = of.fields[i].Kind == tabular.Text // numbers may be texts, as in JSON
	}
	return of.table()
}

// JSON returns the rows as JSON: objects of values by column name. It ends at an error, which Batches returns. reserve reserves memory for
// decompressed bytes.
func (s Sent) JSON(reserve func(Unpacked) error) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		records, err := s.records(reserve)
		if err != nil {
			return
		}
		if r, isStream := records.(batches); isStream {
			defer r.Close()
		}
		for {
			record, err := records.Next(math.MaxInt, func(int) bool { return true })
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
			row = stream.AppendJSON(append(append(row, name...), ':'), column, i)
		}
		if !yield(append(row, '}')) {
			return false
		}
	}
	return true
}
