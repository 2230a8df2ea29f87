package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// tileRows is the maximum number of rows predicted together, the tile size of the kernels.
const tileRows = 64

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
	work      *workspace // while it has a core
	encoder   encoder
	count     int            // number of predicted rows
	record    *record        // of the answers; nil: not written
	pieces    [][]byte       // of the answer
	unpacked  input.Unpacked // of Arrow so far
	again     int            // bytes of tensors, and of Arrow decompressed again, for record
	bodyBytes int64          // of the rows as they were sent, decompressed
	rowBytes  int64          // memory that the rows need
	held      claim          // memory for the rows
	answer    claim          // memory for the answer
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
	defer s.begin(r, true)()
	p.Server, p.record = s, record
	defer func() {
		p.held.release()
		p.answer.release()
	}()
	if err := p.compute(r.Context(), body); err != nil {
		return err
	}
	p.finish(w.Header())
	body.release()
	p.held.release()
	p.answer.shrink(int64(lengthsOf(p.pieces)))
	p.send(w)
	return nil
}

// compute computes the whole answer before any of it is sent: so any error in a request gives an error response, and a slow
// client holds neither a core nor its request.
func (p *prediction) compute(ctx context.Context, b *body) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.Server.options.Timeout, p.late)
	defer cancel()
	if p.version, err = p.versionFor(p.request); err != nil {
		return err
	}
	m, err := b.measure(int64(p.Server.options.MaxBody))
	if err != nil {
		return err
	}
	p.needs(m, b.packed)
	if p.held, err = p.hold(ctx, p.rowBytes); err != nil {
		return err
	}
	text, err := b.rows(m.bytes)
	if err != nil {
		return err
	}
	for { // until the rows have all of the memory that they need
		err := p.predictRows(ctx, text)
		if p.rowBytes <= p.held.bytes {
			return err
		}
		p.held.release()
		if p.held, err = p.hold(ctx, min(2*p.rowBytes, p.memory.maxRows())); err != nil {
			return err
		}
	}
}

// hold reserves memory for the rows, and waits for it. It returns an error for rows that need more than there is.
func (p *prediction) hold(ctx context.Context, bytes int64) (claim, error) {
	if most := p.memory.maxRows(); p.rowBytes > most {
		return claim{}, refuse(http.StatusRequestEntityTooLarge, "the rows take %d bytes when unpacked, and at most %d of serve.memory are for "+
			"that: send fewer rows or values at a time", p.rowBytes, most)
	}
	return p.claim(ctx, &p.memory.rows, bytes)
}

// predictRows predicts the rows of a body. If they need more memory than they have, it ends early.
func (p *prediction) predictRows(ctx context.Context, text []byte) (err error) {
	p.count, p.unpacked, p.again = 0, input.Unpacked{}, 0
	if p.work, err = p.enter(ctx); err != nil {
		return err
	}
	defer func() { p.leave(p.work) }()
	if p.rows, err = p.open(ctx, text); err != nil {
		return unusable(ctx, err)
	}
	if err := p.asks.check(p.version, p.memory.maxAnswer()); err != nil {
		return err
	}
	p.record.reset()
	p.encoder = newEncoder(p.version, p.kind, p.asks)
	if err := p.rows.read(p.asks.mostRows(p.version), func(rows *examples.Rows) error { return p.tile(ctx, rows) }); err != nil {
		return unusable(ctx, err)
	}
	if p.count == 0 {
		return refuse(http.StatusBadRequest, "no rows")
	}
	if p.pieces, err = p.encoder.whole(); err != nil {
		return err
	}
	return p.reserve(lengthsOf(p.pieces))
}

// tile appends the predictions of the next rows to the answer.
func (p *prediction) tile(ctx context.Context, rows *examples.Rows) (err error) {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	n := rows.Rows
	if p.count += n; p.count > p.Server.options.MaxRows {
		return p.manyRows()
	}
	if err := p.work.predict(p.version, rows, p.asks.contributions); err != nil {
		return err
	}
	top, written := p.asks.top, mostProbableWritten
	if top > 0 {
		written = min(top, written)
	}
	if p.record != nil {
		top = max(top, written)
	}
	for i := range n {
		row := p.work.row(p.version, i, top)
		if err := p.encoder.add(row); err != nil {
			return err
		}
		if p.record == nil {
			continue
		}
		p.record.add(p.version, row, written, func(dst []byte) []byte { return p.rows.features(dst, i) })
		if int64(p.record.bytes) > p.memory.maxAnswer() { // also of columns that the model does not have
			return refuse(http.StatusRequestEntityTooLarge, "the features of the rows have more than %d bytes as JSON, which serve.answers.topic "+
				"needs: send fewer rows at a time", p.memory.maxAnswer())
		}
	}
	return p.reserve(p.encoder.size())
}

// manyRows rejects a request with too many rows.
func (s *Server) manyRows() error {
	return refuse(http.StatusRequestEntityTooLarge, "more than %d rows: send fewer at a time", s.options.MaxRows)
}

// reserve reserves memory for the answer so far, of so many bytes.
func (p *prediction) reserve(answer int) error {
	answer += p.record.size()
	if int64(answer) > p.memory.maxAnswer() {
		return refuse(http.StatusRequestEntityTooLarge, "the answer would have more than %d bytes, a sixteenth of serve.memory: send fewer rows "+
			"at a time, or ask for the most probable labels with %q or fewer %q", p.memory.maxAnswer(), keyTop, keyContributions)
	}
	if !p.answer.grow(&p.memory.answers, int64(answer)) {
		return p.full()
	}
	return nil
}

// finish counts the rows, sets the header of the answer, and keeps only the pieces of the answer.
func (p *prediction) finish(h http.Header) {
	lacking, missing := p.rows.lacking()
	p.record.send()
	p.metrics.rows.Add(float64(p.count))
	p.metrics.missing.Add(float64(missing))
	p.encoder.announce(h)
	h.Set("Content-Length", strconv.Itoa(lengthsOf(p.pieces)))
	h.Set(headerVersion, strconv.Itoa(p.Manifest.Version))
	h.Set(headerMissing, strconv.Itoa(lacking))
	p.rows, p.record, p.encoder = nil, nil, nil
}

// send sends the answer.
func (p *prediction) send(w http.ResponseWriter) {
	for _, piece := range p.pieces {
		if _, err := w.Write(piece); err != nil { // the client has disconnected, or was too slow
			panic(http.ErrAbortHandler)
		}
	}
}

// workspace is reusable memory for the predictions of a tile of rows. There are as many as cores.
type workspace struct {
	probabilities []float32 // n × k
	numbers       []float64 // n × k: in regression, in place of probabilities
	contributions []string  // n, as JSON: if they are asked for
	current       predictedRow
}

// predictedRow is the prediction of a row.
type predictedRow struct {
	numbers       []float64 // in regression, in place of the others
	probabilities []float32
	given         []int32 // classes that the model decides for, in order
	top           []int32 // most probable classes, if asked for
	contributions string  // as JSON, if asked for
}

// row returns the prediction of row i, with a number of most probable classes. It is valid until the next call.
func (p *workspace) row(v *version, i, top int) *predictedRow {
	k, r := len(v.Labels()), &p.current
	if r.contributions = ""; p.contributions != nil {
		r.contributions = p.contributions[i]
	}
	if v.predictsNumbers() {
		r.numbers, r.probabilities = p.numbers[i*k:(i+1)*k], nil
		return r
	}
	r.numbers, r.probabilities = nil, p.probabilities[i*k:(i+1)*k]
	r.given = v.given(r.given, r.probabilities)
	if top > 0 {
		r.top = mostProbable(r.top, r.probabilities, top)
	}
	return r
}

// contributed is what columns add to a score, with its label encoded as in answers.
type contributed struct {
	Label json.RawMessage `json:"label"`
	model.Contributions
}

// keptValues is the maximum number of values that a workspace keeps between requests.
const keptValues = workspaceBytes / 4

// predict predicts rows, with so many contributions to each score.
func (p *workspace) predict(v *version, rows *examples.Rows, contributions int) error {
	if p.contributions = nil; contributions > 0 {
		var failed error
		scores := make([]contributed, len(v.quoted))
		err := v.Contributions(rows, contributions, func(_ int, of []model.Contributions) {
			for out, score := range of {
				scores[out] = contributed{v.quoted[out], score}
			}
			text, e := json.Marshal(scores)
			failed = cmp.Or(failed, e)
			p.contributions = append(p.contributions, string(text))
		})
		if err = cmp.Or(err, failed); err != nil {
			return err
		}
	}
	values := rows.Rows * len(v.Labels())
	if v.predictsNumbers() {
		p.numbers = resized(p.numbers, values)
		v.Numbers(p.numbers, rows)
		return nil
	}
	p.probabilities = resized(p.probabilities, values)
	v.Probabilities(p.probabilities, rows)
	return nil
}

// resized returns a slice of n values that reuses memory if possible.
func resized[T any](values []T, n int) []T { return slices.Grow(values[:0], n)[:n] }

// enter waits for a core, and returns a workspace. The caller returns it with leave.
func (s *Server) enter(ctx context.Context) (*workspace, error) {
	select {
	case work := <-s.cores:
		return work, nil
	case <-ctx.Done():
	}
	if cause := context.Cause(ctx); cause != s.late {
		return nil, cause
	}
	return nil, refuse(http.StatusServiceUnavailable, "no core was free for %v: send it again", s.options.Timeout)
}

// leave returns a workspace.
func (s *Server) leave(work *workspace) {
	if values := cap(work.probabilities) + 2*cap(work.numbers); values > keptValues {
		work = &workspace{}
	}
	s.cores <- work
}

// predictsNumbers reports whether answers have predicted targets in place of labels and probabilities.
func (v *version) predictsNumbers() bool { return v.Task() == examples.Numbers }

// givesSeveral reports whether the model is multi-label.
func (v *version) givesSeveral() bool { return v.Task() == examples.SeveralLabels }

// given returns the predicted classes of a row, in order: the one that the model decides for, or in a multi-label task those
// whose probability is above the threshold. It uses the memory of classes.
func (v *version) given(classes []int32, probabilities []float32) []int32 {
	classes = classes[:0]
	if !v.givesSeveral() {
		return append(classes, v.Decide(probabilities))
	}
	for class, p := range probabilities {
		if float64(p) >= v.Threshold() {
			classes = append(classes, int32(class))
		}
	}
	return classes
}

// wholeNumbers returns the labels as integers if all of them are, otherwise nil.
func wholeNumbers(m *model.Model) []int64 {
	if m.LabelType() != examples.WholeLabels {
		return nil
	}
	return examples.WholeNumbers(m.Labels())
}

// Manifest returns the manifest of a model for JSON, with labels as in answers.
func Manifest(m *model.Model) any {
	return struct {
		*schemas.Manifest
		Labels []json.RawMessage `json:"labels"`
	}{m.Manifest, m.LabelType().Values(m.Manifest.Labels)}
}
