package arrow

import (
	"context"
	"fmt"
	"io"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/schemas/stream"
)

// damaged converts a panic to an error, because the library does not validate streams. It must be deferred.
func damaged(err *error) {
	if cause := recover(); cause != nil {
		*err = fmt.Errorf("the stream is damaged: %v", cause)
	}
}

// wantedColumns are the names of the columns whose values are read.
type wantedColumns map[string]bool

// decode returns the rows of a value.
func (w wantedColumns) decode(_ context.Context, p format.Payload) (rows tabular.Cell, err error) {
	defer damaged(&err)
	s, err := readerOf(p.Value)
	if err != nil {
		return rows, err
	}
	return tabular.ListOf(messages{s, w}), nil
}

// messages are the rows of a stream, which are read once, batch by batch.
type messages struct {
	*stream.Reader
	wanted wantedColumns
}

// Parts implements tabular.Nested: rows have no paths.
func (r messages) Parts(*tabular.Step, func(*tabular.Step, tabular.Cell) error) error { return nil }

// Names implements tabular.Nested.
func (r messages) Names() []string { return fieldNames(r.Schema().Fields()) }

// Items implements tabular.Nested.
func (r messages) Items(put func(row tabular.Cell) error) (err error) {
	defer damaged(&err)
	defer r.Close()
	for {
		batch, err := r.Next(func(column int) bool { return r.wanted[r.Schema().Field(column).Name] })
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		rows := RowsOf(batch)
		for i := range int(batch.NumRows()) {
			if err := put(Nested{rows, i}.Cell()); err != nil {
				return err
			}
		}
		batch.Release()
	}
}
