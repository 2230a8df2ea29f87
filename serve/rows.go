package serve

import (
	"context"
	"errors"
	"iter"

	"github.com/stagewise/stagewise/ingest/format/arrow"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/serve/answers"
)

// rows reads the rows of a request.
type rows interface {
	// next reads up to most rows, and writes their predictions to the workspace. n is 0 after the last row. The error may be
	// errAgain.
	next(work *workspace, most int) (n int, err error)
	// finish reads the members after the last row. again reports whether they change the meaning of rows, or the answer: next
	// starts again with the first row.
	finish() (again bool, err error)
	// features appends the features of row i of the last next, as JSON. It is called for each of them, in order.
	features(dst []byte, i int) []byte
	// named returns the model's columns in the rows; nil if all rows have all of them.
	named() *columns
	// close releases the reader.
	close()
}

// newRows returns the rows of a body with a content type, and reserves the memory for them.
func (p *prediction) newRows(ctx context.Context, body []byte, sent string) (_ rows, err error) {
	v := p.version
	if sent == typeArrow {
		reserve := func(add input.Unpacked) error { return p.unpacking.ofArrow(v, add) }
		want := layout.Features{Width: v.Width(), Columns: v.Columns(), Sparse: v.Sparse()}
		r := &arrowRows{version: v}
		if p.record != nil {
			r.text, r.endText = iter.Pull(answers.ArrowRows(body, func(bytes int) error { return reserve(input.Unpacked{Buffers: bytes}) }))
		}
		r.pull, r.stop = iter.Pull2(arrow.Stream(ctx, "the request", body, reserve, v.options, want))
		return r, nil
	}
	need, values := ofJSON(v, body)
	if err := p.unpacking.need(need); err != nil {
		return nil, err
	}
	l := v.layout
	if l == nil { // a reader of words has memory of its own
		if l, err = layout.NewRequest(v.options, layout.Features{Columns: v.Columns(), Sparse: true}); err != nil {
			return nil, err
		}
	}
	r, err := newJSONRows(body, l, v.names, &p.asks)
	if err != nil {
		return nil, err
	}
	return &jsonTiles{jsonRows: r, version: v, values: values}, nil
}

// jsonTiles reads rows in JSON.
type jsonTiles struct {
	*jsonRows
	*version
	values int // maximum number of values of sparse rows; 0: unknown
}

// tileCells is the maximum number of cells of a tile: a row is not split.
const tileCells = 1 << 14

// errAgain means that rows could not be read because of members after them, which change their meaning: reading starts
// again.
var errAgain = errors.New("the rows begin again")

func (r *jsonTiles) next(work *workspace, most int) (n int, err error) {
	r.places = r.places[:0]
	if valueBytes*r.values > workspaceBytes && cap(work.sparse.Values) < r.values { // so that nothing grows beyond what is reserved
		work.sparse.Indices, work.sparse.Values = make([]int32, 0, r.values), make([]float32, 0, r.values)
	}
	if n, err = r.read(work, max(1, min(most, tileCells/max(1, len(r.jsonRows.layout.Cells))))); err != nil {
		return 0, r.late(err)
	}
	switch {
	case n == 0:
	case r.Sparse():
		work.predicted.predictSparse(r.version, &work.sparse)
	default:
		work.predicted.predict(r.version, work.features)
	}
	return n, nil
}

// late returns the error of a row, or errAgain if a member after the rows has changed their meaning, or the error of such
// a member.
func (r *jsonTiles) late(wrong error) error {
	if r.known {
		return wrong
	}
	if r.At = r.start; r.Skip() != nil {
		return wrong
	}
	switch again, err := r.finish(); {
	case err != nil:
		return err
	case again:
		return errAgain
	}
	return wrong
}

func (r *jsonTiles) features(dst []byte, i int) []byte {
	return r.sent(dst, r.Between(r.places[i][0], r.places[i][1]))
}

func (r *jsonTiles) named() *columns { return r.columns }

func (r *jsonTiles) close() {}

// arrowRows reads rows in an Arrow stream.
type arrowRows struct {
	*version
	pull  func() (*examples.Rows, error, bool)
	stop  func()
	batch *examples.Rows
	at    int // number of rows of the batch returned by next

	text    func() ([]byte, bool) // returns the next row as JSON; nil: not needed
	endText func()
}

func (r *arrowRows) next(work *workspace, most int) (n int, err error) {
	for r.batch == nil || r.at == r.batch.Rows {
		batch, err, more := r.pull()
		if err != nil || !more {
			return 0, err
		}
		r.batch, r.at = batch, 0
	}
	n = min(most, r.batch.Rows-r.at)
	if s := r.batch.Sparse; s != nil {
		work.sparse.Reset()
		for i := range n {
			indices, values := s.Row(r.at + i)
			for j, index := range indices {
				work.sparse.Append(index, values[j])
			}
			work.sparse.End()
		}
		work.predicted.predictSparse(r.version, &work.sparse)
	} else {
		d := r.Width()
		work.predicted.predict(r.version, r.batch.Floats[r.at*d:(r.at+n)*d])
	}
	r.at += n
	return n, nil
}

func (r *arrowRows) finish() (again bool, err error) { return false, nil }

func (r *arrowRows) features(dst []byte, _ int) []byte {
	if text, ok := r.text(); ok {
		return append(dst, text...)
	}
	return append(dst, "null"...)
}

func (r *arrowRows) named() *columns { return nil }

func (r *arrowRows) close() {
	if r.stop(); r.endText != nil {
		r.endText()
	}
}
