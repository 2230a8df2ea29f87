package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/stagewise/stagewise/ingest/format/arrow"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// tileRows is the maximum number of rows predicted together, the tile size of the kernels.
const tileRows = 64

// contributedRows is the maximum number of rows that have contributions computed together.
const contributedRows = 16 * tileRows

// tileValues is the approximate maximum number of values predicted together. A row is not split.
const tileValues = 1 << 15

// headerVersion is the response header with the version number.
const headerVersion = "Stagewise-Version"

// headerMissing is the response header with the number of columns of the model that rows of the request lack.
const headerMissing = "Stagewise-Missing-Columns"

// prediction is a prediction request that was received completely.
type prediction struct {
	*Server
	*version
	request   *http.Request
	asks      asked
	sent      string // content type or protocol of the rows
	kind      string // content type or protocol of the answer
	rows      rows
	answer    *answer        // nil: it is encoded, or none was computed yet
	text      text           // the answer
	header    http.Header    // of the answer
	record    record         // of the answers
	unpacked  arrow.Unpacked // of Arrow so far
	again     int            // bytes of columns of a request in JSON, of tensors, and of Arrow decompressed again, for record
	bodyBytes int64          // of the rows as they were sent, decompressed
	rowBytes  int64          // memory that the rows need
	held      claim          // memory for the rows
	answered  *claim         // memory for the answer
}

// predict handles a prediction request.
func (s *Server) predict(w http.ResponseWriter, r *http.Request) error {
	sent, err := contentType(r, typeJSON, typeArrow)
	if err != nil {
		return err
	}
	kind, err := answerType(r, sent)
	if err != nil {
		return err
	}
	asks, err := askedBy(r.Header)
	if err != nil {
		return err
	}
	return s.respond(w, &prediction{request: r, asks: asks, sent: sent, kind: kind})
}

// respond reads, predicts and answers a request.
func (s *Server) respond(w http.ResponseWriter, p *prediction) error {
	r := p.request
	record, err := s.record(w, r)
	if err != nil {
		return err
	}
	body, err := s.read(w, r)
	if err != nil {
		return err
	}
	defer body.release()
	defer s.connections.Begin(r, true)()
	var answered claim
	defer answered.release()
	p.Server, p.header, p.record, p.answered = s, w.Header(), record, &answered
	pieces, err := p.compute(r.Context(), body)
	if err != nil {
		return err
	}
	body.release()
	for _, piece := range pieces {
		if _, err := w.Write(piece); err != nil { // the client has disconnected, or was too slow
			panic(http.ErrAbortHandler)
		}
	}
	return nil
}

// compute computes the whole answer before any of it is sent: so any error in a request gives an error response, and a slow
// client holds neither a core nor its request, only the memory of the answer.
func (p *prediction) compute(ctx context.Context, b *body) (pieces [][]byte, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.Server.options.Timeout, p.late)
	defer cancel()
	if p.version, err = p.versionFor(p.request); err != nil {
		return nil, err
	}
	m, err := b.measure(int64(p.Server.options.MaxBody))
	if err != nil {
		return nil, err
	}
	p.needs(m, b.packed)
	defer p.held.release()
	var text []byte
	for bytes := p.rowBytes; ; bytes = min(2*p.rowBytes, p.memory.maxRows()) {
		if most := p.memory.maxRows(); p.rowBytes > most {
			return nil, refuse(http.StatusRequestEntityTooLarge, "the rows take %d bytes when unpacked, and at most %d of serve.memory are for "+
				"that: send fewer rows or values at a time", p.rowBytes, most)
		}
		if p.held, err = p.claim(ctx, &p.memory.rows, bytes); err != nil {
			return nil, err
		}
		if text == nil {
			if text, err = b.rows(m.bytes); err != nil {
				return nil, err
			}
		}
		if err = p.predictRows(ctx, text); p.rowBytes <= p.held.bytes {
			break
		}
		p.held.release() // the rows need more memory, and are read again
	}
	if err != nil {
		return nil, err
	}
	lacking, missing := p.rows.lacking()
	p.record.send()
	p.metrics.rows.Add(float64(p.answer.rows))
	p.metrics.missing.Add(float64(missing))
	p.header.Set("Content-Length", strconv.Itoa(p.text.bytes))
	p.header.Set(headerVersion, strconv.Itoa(p.Manifest.Version))
	p.header.Set(headerMissing, strconv.Itoa(lacking))
	p.answered.shrink(int64(p.text.bytes))
	return p.text.pieces, nil
}

// predictRows predicts the rows of a body. If they need more memory than they have, it ends early.
func (p *prediction) predictRows(ctx context.Context, text []byte) (err error) {
	p.unpacked, p.again = arrow.Unpacked{}, 0
	if err := p.enter(ctx); err != nil {
		return err
	}
	defer p.leave()
	if p.rows, err = p.open(ctx, text); err != nil {
		return unusable(ctx, err)
	}
	if err := p.asks.check(p.version, p.memory.maxAnswer()); err != nil {
		return err
	}
	p.record.messages, p.record.bytes = nil, 0
	p.answer = &answer{version: p.version, asked: p.asks, ends: []int32{0}}
	if err := p.rows.read(p.asks.mostRows(p.version), func(rows *examples.Rows) error { return p.tile(ctx, rows) }); err != nil {
		return unusable(ctx, err)
	}
	if p.answer.rows == 0 {
		return refuse(http.StatusBadRequest, "no rows")
	}
	return p.encode()
}

// tile adds the predictions of the next rows to the answer.
func (p *prediction) tile(ctx context.Context, rows *examples.Rows) (err error) {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	n := rows.Rows
	if p.answer.rows+n > p.Server.options.MaxRows {
		return p.manyRows()
	}
	if err := p.answer.add(rows); err != nil {
		return err
	}
	for i := 0; i < n && p.record.writer != nil; i++ {
		p.record.add(p.answer, i, n, func(dst []byte) []byte { return p.rows.features(dst, i) })
		if int64(p.record.bytes) > p.memory.maxAnswer() { // also of columns that the model does not have
			return refuse(http.StatusRequestEntityTooLarge, "the features of the rows have more than %d bytes as JSON, which serve.answers.topic "+
				"needs: send fewer rows at a time", p.memory.maxAnswer())
		}
	}
	return p.reserve(0)
}

// encode encodes the answer, and sets its headers.
func (p *prediction) encode() (err error) {
	p.text = text{room: p.reserve}
	kind, length := typeJSON, 0
	switch p.kind {
	case typeArrow:
		kind, err = typeArrow, p.answer.encodeArrow(&p.text)
	case openInference:
		if length, err = p.answer.encodeTensors(&p.text, false); length > 0 {
			kind = typeBytes
		}
	case typeCall:
		kind = typeCall
		_, err = p.answer.encodeTensors(&p.text, true)
	default:
		err = p.answer.encode(&p.text, p.kind)
	}
	if err = cmp.Or(err, p.reserve(p.text.bytes)); err != nil {
		return err
	}
	p.header.Set(headerType, kind)
	if length > 0 {
		p.header.Set(headerLength, strconv.Itoa(length))
	}
	return nil
}

// manyRows rejects a request with too many rows.
func (s *Server) manyRows() error {
	return refuse(http.StatusRequestEntityTooLarge, "more than %d rows: send fewer at a time", s.options.MaxRows)
}

// reserve reserves memory for the answer so far: its columns, and a number of bytes of its text.
func (p *prediction) reserve(text int) error {
	text += p.record.bytes
	columns := p.answer.bytes()
	if int64(max(text, columns)) > p.memory.maxAnswer() {
		return refuse(http.StatusRequestEntityTooLarge, "the answer would have more than %d bytes, a sixteenth of serve.memory: send fewer rows "+
			"at a time, or ask for the most probable labels with %q or fewer %q", p.memory.maxAnswer(), keyTop, keyContributions)
	}
	if !p.answered.grow(&p.memory.answers, int64(text+columns)) {
		return p.full()
	}
	return nil
}

// enter waits for a core. The caller returns it with leave.
func (s *Server) enter(ctx context.Context) error {
	select {
	case s.cores <- struct{}{}:
		return nil
	case <-ctx.Done():
	}
	if cause := context.Cause(ctx); cause != s.late {
		return cause
	}
	return refuse(http.StatusServiceUnavailable, "no core was free for %v: send it again", s.options.Timeout)
}

// leave returns a core.
func (s *Server) leave() { <-s.cores }

// newest returns the current model, with precomputed data for answers.
func (s *Server) newest() (*version, error) {
	m := s.versions.Model()
	if m == nil {
		s.last.Store(nil)
		return nil, refuse(http.StatusServiceUnavailable, "there is no version")
	}
	if v := s.last.Load(); v != nil && v.Model == m {
		return v, nil
	}
	v := &version{Model: m, options: layout.TrainedAs(m.Manifest.Plan), quoted: m.LabelType().Values(m.Labels())}
	if m.LabelType() == examples.WholeLabels {
		v.wholeNumbers = examples.WholeNumbers(m.Labels())
	}
	v.list, _ = json.Marshal(v.quoted) // which is JSON
	s.last.Store(v)
	return v, nil
}

// predictsNumbers reports whether answers have predicted targets in place of labels and probabilities.
func (v *version) predictsNumbers() bool { return v.Task() == examples.Numbers }

// givesSeveral reports whether the model is multi-label.
func (v *version) givesSeveral() bool { return v.Task() == examples.SeveralLabels }

// Manifest returns the manifest of a model for JSON, with labels as in answers.
func Manifest(m *model.Model) any {
	return struct {
		*schemas.Manifest
		Labels []json.RawMessage `json:"labels"`
	}{m.Manifest, m.LabelType().Values(m.Manifest.Labels)}
}
