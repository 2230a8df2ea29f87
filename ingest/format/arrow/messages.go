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
			r.rows = message.NewRows[nested](o, r.Names)
			for _, name := range append(message.Columns(o.Options), o.Rows) {
				r.wanted[name], r.wanted[message.Path(name)[0]] = true, true
			}
			return r, nil
		},
	}
}

// messages reads streams.
type messages struct {
	rows   *message.Rows[nested]
	wanted map[string]bool // columns of a batch with values that are read
	names  []string        // of the columns of the last stream
}

// Names implements message.Reader.
func (r *messages) Names() []string { return r.names }

// Read implements message.Reader.
func (r *messages) Read(_ context.Context, p message.Payload) (rows [][]tabular.Cell, err error) {
	defer func() {
		if cause := recover(); cause != nil { // the library does not validate streams
			err = fmt.Errorf("the stream is damaged: %v", cause)
		}
	}()
	from, file := arrowStreamOf(&input.Content{Value: p.Value})
	s, err := stream.NewReader(from, file, memory.DefaultAllocator)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	r.names = nil
	for _, f := range s.Schema().Fields() {
		r.names = append(r.names, f.Name)
	}
	r.rows.Begin()
	for {
		batch, err := s.Next(func(column int) bool { return r.wanted[r.names[column]] })
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
	rows := rowsOf(batch)
	for i := range int(batch.NumRows()) {
		if err := r.rows.Add(nested{rows, i}); err != nil {
			return err
		}
	}
	return nil
}
