package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/model"
)

// The content types of rows and answers.
const (
	typeJSON  = "application/json"
	typeArrow = "application/vnd.apache.arrow.stream"
)

// tileRows is how many rows of JSON are predicted together: as many as the kernels take at a time.
const tileRows = 64

// workspace is memory that a request uses while it is predicted, and the next one again. There are as many as cores.
type workspace struct {
	features    []float32 // rows of JSON
	predictions predictions
}

// keptValues is how many values of a workspace are kept from one request to the next.
const keptValues = 1 << 18

// HeaderVersion is the header of an answer that has the number of the version.
const HeaderVersion = "Stagewise-Version"

// predictions are the answer to the rows of a request.
type predictions struct {
	version       int
	numbers       bool                                   // the probabilities are numbers, and the classes say nothing
	classes       []int                                  // the most probable one of each row
	probabilities []float32                              // n × k
	given         func(probabilities []float32) []string // of several labels a row: those that a row has; nil: it has one
}

// add adds the answer to n rows of features (n × d), by a model. limit is how many rows there may be.
func (p *predictions) add(m *model.Model, features []float32, n, limit int) error {
	return p.extend(m, n, limit, func(added []float32) { m.Probabilities(added, features[:n*m.Width()]) })
}

// extend adds the answer to n rows, whose probabilities (n × k) predict writes. limit is how many rows there may be.
func (p *predictions) extend(m *model.Model, n, limit int, predict func(added []float32)) error {
	if len(p.classes)+n > limit {
		return refuse(http.StatusRequestEntityTooLarge, "more than %d rows: send fewer at a time", limit)
	}
	k, from := len(m.Labels()), len(p.probabilities)
	p.probabilities = slices.Grow(p.probabilities, n*k)[:from+n*k]
	added := p.probabilities[from:]
	predict(added)
	for i := range n {
		row, best := added[i*k:(i+1)*k], 0
		for c, v := range row {
			if v > row[best] {
				best = c
			}
		}
		p.classes = append(p.classes, best)
	}
	return nil
}

// predict answers a request for predictions.
func (s *Server) predict(w http.ResponseWriter, r *http.Request) error {
	sent, err := contentType(r)
	if err != nil {
		return err
	}
	answer, err := answerType(r, sent)
	if err != nil {
		return err
	}
	body, release, err := s.read(w, r)
	if err != nil {
		return err
	}
	defer release()
	defer s.quiet.begin(r)()
	work, err := s.enter(r.Context())
	if err != nil {
		return err
	}
	content, version, err := s.answer(r.Context(), work, body, sent, answer)
	s.leave(work)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", answer)
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	w.Header().Set(HeaderVersion, strconv.Itoa(version))
	_, _ = w.Write(content) // who asked may have gone
	return nil
}

// answer returns the answer to a body, and the version that it is of.
func (s *Server) answer(ctx context.Context, work *workspace, body []byte, sent, answer string) (content []byte, version int, err error) {
	v, err := s.version()
	if err != nil {
		return nil, 0, err
	}
	p := &work.predictions
	p.version, p.classes, p.probabilities = v.Manifest.Version, p.classes[:0], p.probabilities[:0]
	p.numbers, p.given = v.predictsNumbers(), v.given()
	switch {
	case v.Sparse() && sent == typeJSON:
		err = work.addSparse(ctx, v, body, s.options.MaxRows)
	case sent == typeArrow:
		err = p.addArrow(ctx, v, body, s.options.MaxRows, int(s.options.MaxBody))
	default:
		err = work.addJSON(ctx, v, body, s.options.MaxRows)
	}
	if err != nil {
		return nil, 0, err
	}
	s.metrics.rows.Add(float64(len(p.classes)))
	if answer == typeArrow {
		content, err = p.arrow(v.Labels())
	} else {
		content = p.appendJSON(make([]byte, 0, 64+16*(len(p.classes)+len(p.probabilities))), v.quoted)
	}
	return content, p.version, err
}

// addJSON adds the answer to rows of JSON.
func (w *workspace) addJSON(ctx context.Context, v *version, body []byte, limit int) error {
	rows, err := newJSONRows(body, v.places)
	if err != nil {
		return unusable(err)
	}
	p, d := &w.predictions, v.Width()
	w.features = slices.Grow(w.features[:0], tileRows*d)[:tileRows*d]
	features := w.features
	for again := true; again; {
		p.classes, p.probabilities = p.classes[:0], p.probabilities[:0]
		if err := rows.begin(); err != nil {
			return unusable(err)
		}
		for more := true; more; {
			n := 0
			for ; n*d < len(features); n++ {
				if more, err = rows.next(features[n*d : (n+1)*d]); err != nil {
					return unusable(err)
				} else if !more {
					break
				}
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := p.add(v.Model, features, n, limit); err != nil {
				return err
			}
		}
		if again, err = rows.finish(); err != nil {
			return unusable(err)
		}
	}
	return nil
}

// addArrow adds the answer to rows of Arrow. unpacked is how many bytes a compressed batch may have.
func (p *predictions) addArrow(ctx context.Context, v *version, body []byte, limit, unpacked int) error {
	want := ingest.Features{Width: v.Width(), Columns: v.Columns(), Sparse: v.Sparse()}
	for rows, err := range ingest.Stream(ctx, "the request", body, unpacked, v.options, want) {
		if err != nil {
			return unusable(err)
		}
		if rows.Sparse != nil {
			err = p.extend(v.Model, rows.Rows, limit, func(added []float32) { v.ProbabilitiesSparse(added, rows.Sparse) })
		} else {
			err = p.add(v.Model, rows.Floats, rows.Rows, limit)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unusable refuses a body for a reason.
func unusable(err error) error { return refuse(http.StatusBadRequest, "%s", err) }

// contentType returns how the rows of a request are sent.
func contentType(r *http.Request) (string, error) {
	sent := r.Header.Get("Content-Type")
	switch name, _, err := mime.ParseMediaType(sent); {
	case err == nil && (name == typeJSON || name == typeArrow):
		return name, nil
	case sent == "":
		return "", refuse(http.StatusUnsupportedMediaType, "no Content-Type: expected %s or %s", typeJSON, typeArrow)
	}
	return "", refuse(http.StatusUnsupportedMediaType, "Content-Type %.80q: expected %s or %s", sent, typeJSON, typeArrow)
}

// answerType returns how the answer to a request is sent: as it accepts, or else as the rows were sent.
func answerType(r *http.Request, sent string) (string, error) {
	accepted := strings.Join(r.Header.Values("Accept"), ",")
	if accepted == "" {
		return sent, nil
	}
	var types []string
	for part := range strings.SplitSeq(accepted, ",") {
		name, _, _ := strings.Cut(part, ";")
		types = append(types, strings.ToLower(strings.TrimSpace(name)))
	}
	other := map[string]string{typeJSON: typeArrow, typeArrow: typeJSON}[sent]
	switch {
	case slices.Contains(types, sent) || slices.Contains(types, "*/*") || slices.Contains(types, "application/*"):
		return sent, nil
	case slices.Contains(types, other):
		return other, nil
	}
	return "", refuse(http.StatusNotAcceptable, "Accept %.80q: expected %s or %s", accepted, typeJSON, typeArrow)
}

// firstRead is how many bytes of a body are read at first.
const firstRead = 16 << 10

// keptBytes is the largest buffer of a body that is kept for the next request.
const keptBytes = 1 << 20

// read reads the body of a request. The caller calls release when nothing needs it any more.
func (s *Server) read(w http.ResponseWriter, r *http.Request) (body []byte, release func(), err error) {
	limit := s.options.MaxBody
	tooLarge := func() error {
		return refuse(http.StatusRequestEntityTooLarge, "more than %d bytes: send fewer rows at a time", limit)
	}
	if r.ContentLength > limit {
		return nil, nil, tooLarge()
	}
	pooled, _ := s.bodies.Get().(*[]byte)
	if pooled == nil || !s.memory.TryAcquire(int64(cap(*pooled))) {
		pooled = new([]byte)
	}
	body = (*pooled)[:0]
	held := int64(cap(body))
	defer func() {
		if err != nil {
			s.memory.Release(held)
		}
	}()
	from := http.MaxBytesReader(w, r.Body, limit)
	for {
		if len(body) == cap(body) { // memory grows with what has come, whatever length was announced
			size := min(max(firstRead, 4*int64(len(body))), limit+1)
			if !s.memory.TryAcquire(size - held) {
				return nil, nil, refuse(http.StatusServiceUnavailable, "other requests take all %d bytes that there are for requests: send it again", s.options.Memory)
			}
			held = size
			body = append(make([]byte, 0, size), body...)
		}
		n, err := from.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case err == nil:
		case err == io.EOF:
			return body, func() {
				s.memory.Release(held)
				if *pooled = body; cap(body) <= keptBytes {
					s.bodies.Put(pooled)
				}
			}, nil
		case errors.As(err, new(*http.MaxBytesError)):
			return nil, nil, tooLarge()
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, nil, refuse(http.StatusRequestTimeout, "the body did not come within %v", s.options.Timeout)
		default:
			return nil, nil, refuse(http.StatusBadRequest, "the body can't be read: %v", err)
		}
	}
}

// enter waits for a core, and returns a workspace. The caller gives it to leave when it is done.
func (s *Server) enter(ctx context.Context) (*workspace, error) {
	timer := time.NewTimer(s.options.Timeout)
	defer timer.Stop()
	select {
	case work := <-s.cores:
		return work, nil
	case <-timer.C:
		return nil, refuse(http.StatusServiceUnavailable, "no core was free for %v: send it again", s.options.Timeout)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *Server) leave(work *workspace) {
	if cap(work.features)+cap(work.predictions.probabilities)+cap(work.predictions.classes) > keptValues {
		work = &workspace{}
	}
	s.cores <- work
}

// refusal is an answer that says why there is no other.
type refusal struct {
	status int
	reason string
}

func (r *refusal) Error() string { return r.reason }

func refuse(status int, format string, values ...any) error {
	return &refusal{status, fmt.Sprintf(format, values...)}
}
