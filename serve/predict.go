package serve

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/stagewise/stagewise/serve/answers"
)

// tileRows is the maximum number of rows predicted together, the tile size of the kernels.
const tileRows = 64

// tileValues is the approximate maximum number of values predicted together. A row is not split.
const tileValues = 1 << 15

// HeaderVersion is the response header with the version number.
const HeaderVersion = "Stagewise-Version"

// prediction is a prediction request that was received completely.
type prediction struct {
	*Server
	*version
	rows      rows
	asks      asked
	kind      string     // content type of the answer
	work      *workspace // nil: it has none
	encoder   encoder
	count     int              // number of predicted rows
	record    *answers.Request // of the answers; nil: not written
	order     []int32          // of classes, for record
	unpacking unpacking
	lacking   int      // columns that rows lack
	missing   int      // number of those of each row
	pieces    [][]byte // of the answer
	bytes     int      // of the pieces
	held      [2]int64 // memory for the answer, of memory.small and memory.answers
}

// predict handles a prediction request.
func (s *Server) predict(w http.ResponseWriter, r *http.Request) error {
	sent, err := contentType(r)
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
	p := &prediction{Server: s, asks: asks, kind: kind, record: record, unpacking: unpacking{Server: s}}
	defer p.releaseAnswer()
	if err := p.compute(r.Context(), body.text, sent); err != nil {
		return err
	}
	body.release()
	p.send(w)
	return nil
}

// compute computes the whole answer before any of it is sent: so any error in a request gives an error response, and a slow
// client holds neither a core nor its request.
func (p *prediction) compute(ctx context.Context, body []byte, sent string) (err error) {
	defer p.unpacking.release()
	if p.work, err = p.enter(ctx); err != nil {
		return err
	}
	defer p.leave()
	ctx, cancel := context.WithTimeoutCause(ctx, p.Server.options.Timeout, p.late)
	defer cancel()
	if p.version, err = p.newest(); err != nil {
		return err
	}
	for {
		err := p.answer(ctx, body, sent)
		short, ok := errors.AsType[*shortageError](err)
		if !ok {
			return err
		}
		p.leave()
		if err := p.unpacking.wait(ctx, short); err != nil {
			return err
		}
		if p.work, err = p.enter(ctx); err != nil {
			return err
		}
	}
}

// answer reads and predicts the rows, and completes the answer.
func (p *prediction) answer(ctx context.Context, body []byte, sent string) (err error) {
	p.unpacking.begin()
	if p.rows, err = p.newRows(ctx, body, sent); err != nil {
		return unusable(ctx, err)
	}
	defer p.rows.close()
	for again := true; again; {
		if err := p.collect(ctx); errors.Is(err, errAgain) {
			continue
		} else if err != nil {
			return err
		}
		if again, err = p.rows.finish(); err != nil {
			return unusable(ctx, err)
		}
	}
	if p.count == 0 {
		return refuse(http.StatusBadRequest, "no rows")
	}
	if named := p.rows.named(); named != nil {
		if err := named.check(); err != nil {
			return refuse(http.StatusBadRequest, "%s: the request has none of the model's columns", err)
		}
		p.lacking, p.missing = named.lacking(), named.missing
	}
	if p.pieces, err = p.encoder.whole(p.pieces); err != nil {
		return err
	}
	p.bytes = 0
	for _, piece := range p.pieces {
		p.bytes += len(piece)
	}
	return p.hold(ctx)
}

// collect predicts the rows.
func (p *prediction) collect(ctx context.Context) error {
	if err := p.asks.check(p.version); err != nil {
		return err
	}
	p.record.Reset(p.Manifest.Version)
	p.encoder, p.count, p.pieces = newEncoder(p.version, p.kind, p.asks), 0, nil
	p.bytes = 0
	for {
		n, err := p.tile(ctx)
		if err != nil || n == 0 {
			return err
		}
	}
}

// tile predicts the next rows, and appends them to the answer.
func (p *prediction) tile(ctx context.Context) (n int, err error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	most := max(1, min(tileRows, tileValues/len(p.Labels()), (1<<20)/max(p.Width(), 1)))
	if n, err = p.rows.next(p.work, most); errors.Is(err, errAgain) {
		return 0, err
	} else if err != nil {
		return 0, unusable(ctx, err)
	}
	if p.count += n; p.count > p.Server.options.MaxRows {
		return 0, refuse(http.StatusRequestEntityTooLarge, "more than %d rows: send fewer at a time", p.Server.options.MaxRows)
	}
	if n == 0 {
		return 0, nil
	}
	if p.work.rows, err = p.encoder.add(p.work.rows[:0], &p.work.predicted, n); err != nil {
		return 0, err
	}
	if len(p.work.rows) > 0 {
		p.pieces = append(p.pieces, bytes.Clone(p.work.rows))
		p.bytes += len(p.work.rows)
	}
	if err := p.note(n); err != nil {
		return 0, err
	}
	return n, p.hold(ctx)
}

// hold reserves memory for the answer so far. If it must wait, it gives the core back in the meantime.
func (p *prediction) hold(ctx context.Context) (err error) {
	bytes := int64(p.bytes + p.encoder.kept() + p.record.Bytes())
	missing := bytes - p.held[0] - p.held[1]
	switch {
	case missing <= 0:
		return nil
	case bytes > p.memory.maxAnswer():
		return refuse(http.StatusRequestEntityTooLarge, "the answer would have more than %d bytes, a sixteenth of serve.memory: send fewer rows "+
			"at a time, or ask for the most probable labels with %q", p.memory.maxAnswer(), keyTop)
	}
	from, part := 0, p.memory.ofAnswer(bytes)
	if part == p.memory.answers {
		from = 1
	}
	if !part.TryAcquire(missing) {
		p.leave()
		if !p.reserve(ctx, part, missing) {
			return p.full()
		}
		p.work, err = p.enter(ctx)
	}
	p.held[from] += missing
	return err
}

// releaseAnswer releases the memory of the answer.
func (p *prediction) releaseAnswer() {
	p.pieces = nil
	p.memory.small.Release(p.held[0])
	p.memory.answers.discard(p.held[1])
}

// leave returns the workspace, if there is one.
func (p *prediction) leave() {
	if p.work != nil {
		work := p.work
		p.work = nil
		p.Server.leave(work)
	}
}

// send sends the answer.
func (p *prediction) send(w http.ResponseWriter) {
	p.record.Send(p.count)
	p.metrics.rows.Add(float64(p.count))
	p.metrics.missing.Add(float64(p.missing))
	w.Header().Set("Content-Type", p.kind)
	w.Header().Set("Content-Length", strconv.Itoa(p.bytes))
	w.Header().Set(HeaderVersion, strconv.Itoa(p.Manifest.Version))
	w.Header().Set(headerMissing, strconv.Itoa(p.lacking))
	of := p.memory.small
	if p.held[1] > 0 {
		of = p.memory.answers
	}
	to := of.clients.begin(func() { _ = http.NewResponseController(w).SetWriteDeadline(past) })
	defer to.end()
	for _, piece := range p.pieces {
		var err error
		if to.waits(func() { _, err = w.Write(piece) }); err != nil { // the client has disconnected, or was too slow
			panic(http.ErrAbortHandler)
		}
	}
}
