package arrow

import (
	"context"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/message"
	"github.com/stagewise/stagewise/schemas/arrowvalue"
	"github.com/stagewise/stagewise/schemas/stream"
)

// streams is the name of this format, also for files.
const streams = "arrow"

// Messages is the Arrow stream or file format for messages with arbitrary columns.
func Messages() message.Format {
	return message.Format{
		Name:     streams,
		Meaning:  "an Arrow stream or file, with rows of any columns",
		Label:    message.Label,
		Unframed: true,
		Open: func(o message.Options) (message.Reader, error) {
			r := &messages{wanted: map[string]bool{}}
			r.rows = message.NewRows[Nested](o, r.Names)
			for _, name := range append(message.Columns(o.Options), o.Rows) {
				r.wanted[name], r.wanted[message.Path(name)[0]] = true, true
			}
			return r, nil
		},
	}
}

// messages reads streams.
type messages struct {
	rows   *message.Rows[Nested]
	wanted map[string]bool   // columns of a batch with values that are read
	last   *arrow.StructType // columns of the last stream, or of the file with the last row; nil: nothing was read
}

// Names implements message.Reader.
func (r *messages) Names() (names []string) {
	if r.last != nil {
		for _, f := range r.last.Fields() {
			names = append(names, f.Name)
		}
	}
	return names
}

// Read implements message.Reader.
func (r *messages) Read(_ context.Context, p message.Payload) (rows [][]tabular.Cell, err error) {
	defer func() {
		if cause := recover(); cause != nil { // the library does not validate streams
			err = fmt.Errorf("the stream is damaged: %v", cause)
		}
	}()
	if p.Row != nil {
		row := Nested{p.Row.Of.(*arrowvalue.Values), p.Row.At}
		r.last, _ = row.Of.Column.DataType().(*arrow.StructType)
		return r.rows.Read(row)
	}
	from, file := arrowStreamOf(&input.Content{Value: p.Value})
	s, err := stream.NewReader(from, file, memory.DefaultAllocator)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	r.last = arrow.StructOf(s.Schema().Fields()...)
	r.rows.Begin()
	for {
		batch, err := s.Next(func(column int) bool { return r.wanted[r.last.Field(column).Name] })
		switch {
		case err == io.EOF:
			return r.rows.All(), nil
		case err != nil:
			return nil, err
		}
		if err := r.add(batch); err != nil {
			return nil, err
		}
	}
}

// add adds the rows of a batch.
func (r *messages) add(batch arrow.Record) error {
	defer batch.Release()
	rows := RowsOf(batch)
	for i := range int(batch.NumRows()) {
		if err := r.rows.Add(Nested{rows, i}); err != nil {
			return err
		}
	}
	return nil
}
