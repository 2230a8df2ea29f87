package serve

import (
	"context"
	"iter"
	"net/http"

	"github.com/stagewise/stagewise/ingest/format/arrow"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/serve/answers"
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
	switch p.sent {
	case typeArrow:
		return p.openStream(ctx, body), nil
	case openInference:
		stream, err := p.tensorStream(body)
		return p.openStream(ctx, stream), err
	}
	m, err := membersOf(body, p.sent)
	if err != nil {
		return nil, err
	}
	if m.rows[0] == '{' {
		stream, err := p.columnStream(m.rows)
		return p.openStream(ctx, stream), err
	}
	r, err := p.reader()
	if err != nil {
		return nil, refuse(http.StatusInternalServerError, "%v", err)
	}
	return newJSONRows(m, p.version, r, &p.asks)
}

// openStream returns the rows of an Arrow stream, which reserve memory while they are read.
func (p *prediction) openStream(ctx context.Context, body []byte) rows {
	r := &arrowRows{}
	if p.record != nil {
		r.texts = answers.ArrowRows(body, func(bytes int) error {
			p.again += bytes
			return p.unpack(input.Unpacked{})
		})
	}
	want := layout.Features{Width: p.Width(), Columns: p.Columns(), Sparse: p.Sparse()}
	r.batches = arrow.Stream(ctx, "the request", body, p.unpack, p.version.options, want)
	return r
}

// arrowRows are the rows of an Arrow stream.
type arrowRows struct {
	batches iter.Seq2[*examples.Rows, error]
	texts   iter.Seq[[]byte] // the rows as JSON; nil: not needed
	text    func() ([]byte, bool)
}

// read implements rows.
func (r *arrowRows) read(most int, tile func(*examples.Rows) error) error {
	if r.texts != nil {
		next, stop := iter.Pull(r.texts)
		defer stop()
		r.text = next
	}
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
func (r *arrowRows) features(dst []byte, _ int) []byte {
	if text, ok := r.text(); ok {
		return append(dst, text...)
	}
	return append(dst, "null"...)
}

// lacking implements rows: Arrow has all columns, or is refused.
func (r *arrowRows) lacking() (columns, all int) { return 0, 0 }

// WriteAnswers makes the server write its answers to the topic in its options. It must be called before Serve, which ends
// it.
func (s *Server) WriteAnswers(ctx context.Context, log answers.Log) (err error) {
	s.answers, err = answers.Open(ctx, s.options.Answers, log, s.register, func(text string) { s.notice(text) })
	return err
}

// closeAnswers writes the buffered answers after the last response.
func (s *Server) closeAnswers(ctx context.Context) {
	if s.answers == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.Timeout)
	defer cancel()
	if err := s.answers.Close(ctx); err != nil {
		s.notice(err.Error())
	}
}

// record returns the record of the answers to a request, and sets the id in the response; nil if answers are not written,
// or the request is not sampled.
func (s *Server) record(w http.ResponseWriter, r *http.Request) (*answers.Request, error) {
	if s.answers == nil {
		return nil, nil
	}
	id := r.Header.Get(answers.Header)
	if id == "" {
		id = answers.DrawID()
	}
	if !answers.ValidID(id) {
		return nil, refuse(http.StatusBadRequest, "%s %.40q: expected up to 200 printable ASCII characters without spaces", answers.Header, id)
	}
	w.Header().Set(answers.Header, id)
	return s.answers.Begin(id, r.Header), nil
}

// note records the prediction of row i of the tile.
func (p *prediction) note(i int, row *predictedRow) error {
	if p.record == nil {
		return nil
	}
	of := answers.Predicted{Classes: p.quoted, Several: p.givesSeveral(), Numbers: row.numbers, Values: row.probabilities}
	if !p.predictsNumbers() {
		for _, class := range row.given {
			of.Labels = append(of.Labels, p.quoted[class])
		}
		of.Top = row.top[:min(len(row.top), answers.MostProbable(p.asks.top))]
	}
	p.record.Add(func(dst []byte) []byte { return p.rows.features(dst, i) }, of)
	if int64(p.record.Bytes()) > p.memory.maxAnswer() { // also of columns that the model does not have
		return refuse(http.StatusRequestEntityTooLarge, "the features of the rows have more than %d bytes as JSON, which serve.answers.topic "+
			"needs: send fewer rows at a time", p.memory.maxAnswer())
	}
	return nil
}
