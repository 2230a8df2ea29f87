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
func (p *prediction) newRows(ctx context.Context, body []byte, sent string) (rows, error) {
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
	if v.Sparse() {
		r, err := newSparseRows(body, v.options, v.Columns(), &p.asks)
		if err != nil {
			return nil, err
		}
		return newSparseTiles(v, r, values), nil
	}
	r, err := newJSONRows(body, v, &p.asks)
	if err != nil {
		return nil, err
	}
	return newDenseTiles(v, r), nil
}

// jsonTiles reads rows in JSON.
type jsonTiles struct {
	*document
	read    func(work *workspace, most int) (n int, err error) // reads up to most rows into the workspace
	predict func(work *workspace, n int)
	sent    func(dst, row []byte) []byte // appends a row as sent, from its text
}

func newDenseTiles(v *version, r *jsonRows) *jsonTiles {
	d := v.Width()
	return &jsonTiles{
		document: &r.document, sent: r.sent,
		read: func(work *workspace, most int) (n int, err error) {
			work.features = resized(work.features, most*d)
			for ; n < most; n++ {
				if more, err := r.next(work.features[n*d : (n+1)*d]); err != nil || !more {
					return n, err
				}
			}
			return n, nil
		},
		predict: func(work *workspace, n int) { work.predicted.predict(v, work.features[:n*d]) },
	}
}

// newSparseTiles returns the tiles of sparse rows, which have at most so many values in total; 0: unknown.
func newSparseTiles(v *version, r *sparseRows, values int) *jsonTiles {
	return &jsonTiles{
		document: &r.document, sent: r.sent,
		read: func(work *workspace, most int) (n int, err error) {
			if valueBytes*values > workspaceBytes && cap(work.sparse.Values) < values { // so that nothing grows beyond what is reserved
				work.sparse.Indices, work.sparse.Values = make([]int32, 0, values), make([]float32, 0, values)
			}
			for work.sparse.Reset(); n < most; n++ {
				if more, err := r.next(&work.sparse); err != nil || !more {
					return n, err
				}
			}
			return n, nil
		},
		predict: func(work *workspace, _ int) { work.predicted.predictSparse(v, &work.sparse) },
	}
}

// errAgain means that rows could not be read because of members after them, which change their meaning: reading starts
// again.
var errAgain = errors.New("the rows begin again")

func (r *jsonTiles) next(work *workspace, most int) (n int, err error) {
	r.places = r.places[:0]
	if n, err = r.read(work, most); err != nil {
		return 0, r.late(err)
	}
	if n > 0 {
		r.predict(work, n)
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
