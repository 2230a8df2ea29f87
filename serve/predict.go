package serve

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/stagewise/stagewise/serve/answers"
)

// tileRows is the maximum number of rows predicted together, the tile size of the kernels.
const tileRows = 64

// HeaderVersion is the response header with the version number.
const HeaderVersion = "Stagewise-Version"

// prediction is a prediction request that was received completely.
type prediction struct {
	*Server
	*version
	rows    rows
	asks    asked
	kind    string     // content type of the answer
	work    *workspace // nil: it has none
	encoder encoder
	count   int              // number of predicted rows
	record  *answers.Request // of the answers; nil: not written
	order   []int32          // of classes, for record
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
	body, release, err := s.read(w, r)
	if err != nil {
		return err
	}
	defer release()
	defer s.begin(r, true)()
	p := &prediction{Server: s, asks: asks, kind: kind, record: record}
	if p.work, err = s.enter(r.Context()); err != nil {
		return err
	}
	defer p.abandon()
	if p.version, err = s.newest(); err != nil {
		return err
	}
	if p.rows, err = s.newRows(r.Context(), p.version, body, sent, record != nil, &p.asks); err != nil {
		return unusable(err)
	}
	defer p.rows.close()
	return p.answer(r.Context(), w)
}

// abandon replaces the workspace, if any, of a failed request, because its state is undefined.
func (p *prediction) abandon() {
	if p.work != nil {
		p.cores <- &workspace{}
	}
}

// answer predicts the rows and sends the answer: as a whole if it is short, otherwise in chunks.
func (p *prediction) answer(ctx context.Context, w http.ResponseWriter) error {
	for again := true; again; {
		short, err := p.collect(ctx)
		if errors.Is(err, errAgain) {
			continue
		}
		if err != nil {
			return err
		}
		if short {
			if again, err = p.rows.finish(); err != nil {
				return unusable(err)
			}
			if !again {
				return p.sendWhole(ctx, w)
			}
			continue
		}
		rest, more, err := p.rows.rest(p.work)
		if errors.Is(err, errAgain) {
			continue
		}
		if err != nil {
			return unusable(err)
		}
		if again = more; !again {
			return p.sendPieces(ctx, w, rest)
		}
	}
	return nil
}

// collect predicts rows until there are no more, or the answer is long.
func (p *prediction) collect(ctx context.Context) (short bool, err error) {
	if err := p.asks.check(p.version); err != nil {
		return false, err
	}
	p.record.Reset(p.Manifest.Version)
	p.encoder, p.count, p.work.rows = newEncoder(p.version, p.kind, p.asks), 0, p.work.rows[:0]
	for len(p.work.rows)+p.encoder.kept() < keptAnswer {
		n, err := p.tile(ctx)
		if err != nil || n == 0 {
			return true, err
		}
	}
	return false, nil
}

// tile predicts the next rows, and appends them to those of the workspace.
func (p *prediction) tile(ctx context.Context) (n int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	most := max(1, min(tileRows, pieceValues/len(p.Labels()), (1<<20)/max(p.Width(), 1)))
	if n, err = p.rows.next(p.work, most); errors.Is(err, errAgain) {
		return 0, err
	} else if err != nil {
		return 0, unusable(err)
	}
	if p.count += n; p.count > p.Server.options.MaxRows {
		return 0, tooMany(p.Server.options.MaxRows)
	}
	if n > 0 {
		p.work.rows, err = p.encoder.add(p.work.rows, &p.work.predicted, n)
		p.note(n)
	}
	return n, err
}

// head writes the headers of a response.
func (p *prediction) head(w http.ResponseWriter, length int) {
	w.Header().Set("Content-Type", p.kind)
	if length >= 0 {
		w.Header().Set("Content-Length", strconv.Itoa(length))
	}
	w.Header().Set(HeaderVersion, strconv.Itoa(p.Manifest.Version))
}
