package serve

import (
	"context"
	"iter"

	"github.com/stagewise/stagewise/ingest/format/arrow"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
)

// rows are the rows of a request.
type rows interface {
	// read calls tile with the features of at most so many rows, which are valid during the call, until it has read all rows.
	read(most int, tile func(*examples.Rows) error) error
	// features appends the features of row i of the tile, as JSON. It is called for each of them, in order.
	features(dst []byte, i int) []byte
	// lacking returns the number of columns of the model that rows lack, and their number summed over the rows.
	lacking() (columns, all int)
}

// open returns the rows of a body.
func (p *prediction) open(ctx context.Context, body []byte) (rows, error) {
	want := layout.Features{Width: p.Width(), Columns: p.Columns(), Sparse: p.Sparse()}
	switch p.sent {
	case typeArrow:
		return &batchRows{batches: arrow.Stream(ctx, "the request", body, p.unpack, p.version.options, want),
			texts: arrow.JSONRows(body, func(bytes int) error {
				p.again += bytes
				return p.unpack(input.Unpacked{})
			})}, nil
	case openInference:
		t, err := p.openTensors(body)
		if err != nil {
			return nil, err
		}
		return &batchRows{batches: t.batches(ctx, p.version.options, want), texts: t.texts}, nil
	}
	r, err := p.reader()
	if err != nil {
		return nil, err
	}
	f, err := frameOf(body, p.sent, r.layout, &p.asks)
	if err != nil {
		return nil, err
	}
	return newJSONRows(f, p.version, r)
}

// batchRows are the rows of an Arrow stream, or of tensors.
type batchRows struct {
	batches iter.Seq2[*examples.Rows, error]
	texts   iter.Seq[[]byte]      // the rows as JSON
	text    func() ([]byte, bool) // the next of them; nil: none was asked for
	stop    func()
}

// read implements rows.
func (r *batchRows) read(most int, tile func(*examples.Rows) error) error {
	defer func() {
		if r.stop != nil {
			r.stop()
		}
	}()
	for batch, err := range r.batches {
		if err != nil {
			return err
		}
		for from := 0; from < batch.Rows; from += most {
			if err := tile(slice(batch, from, min(from+most, batch.Rows))); err != nil {
				return err
			}
		}
	}
	return nil
}

// slice returns the features of some rows of a batch.
func slice(batch *examples.Rows, from, to int) *examples.Rows {
	part := &examples.Rows{Rows: to - from}
	if s := batch.Sparse; s != nil {
		part.Sparse = s.Slice(from, to)
		return part
	}
	d := len(batch.Floats) / batch.Rows
	part.Floats = batch.Floats[from*d : to*d]
	return part
}

// features implements rows.
func (r *batchRows) features(dst []byte, _ int) []byte {
	if r.text == nil {
		r.text, r.stop = iter.Pull(r.texts)
	}
	if text, ok := r.text(); ok {
		return append(dst, text...)
	}
	return append(dst, "null"...)
}

// lacking implements rows: a batch has all columns, or is refused.
func (r *batchRows) lacking() (columns, all int) { return 0, 0 }
