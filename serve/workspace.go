package serve

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/stagewise/stagewise/schemas/examples"
)

// workspace is memory that a request uses while rows of it are predicted, and the next one again. There are as many as cores.
type workspace struct {
	features  []float32 // rows of JSON
	sparse    examples.SparseRows
	predicted predicted
	rows      []byte // of the answer
}

// predicted is what a model predicts of rows.
type predicted struct {
	probabilities []float32 // n × k
	numbers       []float64 // n × k: of a model of numbers, in place of probabilities
}

// keptValues is how many values of a workspace are kept from one request to the next.
const keptValues = 1 << 18

// predict predicts rows of features (n × d).
func (p *predicted) predict(v *version, features []float32) {
	values := len(features) / v.Width() * len(v.Labels())
	if v.predictsNumbers() {
		p.numbers = resized(p.numbers, values)
		v.Numbers(p.numbers, features)
		return
	}
	p.probabilities = resized(p.probabilities, values)
	v.Probabilities(p.probabilities, features)
}

// predictSparse predicts sparse rows.
func (p *predicted) predictSparse(v *version, rows *examples.SparseRows) {
	values := rows.Len() * len(v.Labels())
	if v.predictsNumbers() {
		p.numbers = resized(p.numbers, values)
		v.NumbersSparse(p.numbers, rows)
		return
	}
	p.probabilities = resized(p.probabilities, values)
	v.ProbabilitiesSparse(p.probabilities, rows)
}

// resized returns so many values in the memory of others, or in more.
func resized[T any](values []T, n int) []T { return slices.Grow(values[:0], n)[:n] }

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

// leave gives a workspace back.
func (s *Server) leave(work *workspace) {
	if cap(work.features)+cap(work.predicted.probabilities)+2*cap(work.predicted.numbers)+2*cap(work.sparse.Values) > keptValues ||
		cap(work.rows) > 2*keptAnswer {
		work = &workspace{}
	}
	s.cores <- work
}
