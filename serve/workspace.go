package serve

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/stagewise/stagewise/schemas/examples"
)

// workspace is reusable memory for predicting the rows of a request. There are as many as cores.
type workspace struct {
	predicted predicted
	rows      []byte // of the answer, of the last tile
}

// predicted is the predictions of a model for rows.
type predicted struct {
	probabilities []float32 // n × k
	numbers       []float64 // n × k: in regression, in place of probabilities
}

// keptValues and keptRows are the maximum numbers of values, and of bytes of answers, that a workspace keeps between
// requests.
const (
	keptValues = workspaceBytes / 4
	keptRows   = 1 << 20
)

// predict predicts rows.
func (p *predicted) predict(v *version, rows *examples.Rows) {
	values := rows.Rows * len(v.Labels())
	if v.predictsNumbers() {
		p.numbers = resized(p.numbers, values)
		if v.Sparse() {
			v.NumbersSparse(p.numbers, rows.Sparse)
		} else {
			v.Numbers(p.numbers, rows.Floats)
		}
		return
	}
	p.probabilities = resized(p.probabilities, values)
	if v.Sparse() {
		v.ProbabilitiesSparse(p.probabilities, rows.Sparse)
	} else {
		v.Probabilities(p.probabilities, rows.Floats)
	}
}

// resized returns a slice of n values that reuses memory if possible.
func resized[T any](values []T, n int) []T { return slices.Grow(values[:0], n)[:n] }

// enter waits for a core, and returns a workspace. The caller returns it with leave.
func (s *Server) enter(ctx context.Context) (*workspace, error) {
	timer := time.NewTimer(s.options.Timeout)
	defer timer.Stop()
	select {
	case work := <-s.cores:
		return work, nil
	case <-timer.C:
		return nil, refuse(http.StatusServiceUnavailable, "no core was free for %v: send it again", s.options.Timeout)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// leave returns a workspace.
func (s *Server) leave(work *workspace) {
	if values := cap(work.predicted.probabilities) + 2*cap(work.predicted.numbers); values > keptValues || cap(work.rows) > keptRows {
		work = &workspace{}
	}
	s.cores <- work
}
