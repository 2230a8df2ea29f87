package explain

import (
	"context"
	"math"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas/examples"
)

// Measures are the means of rows.
type Measures struct {
	// Error is the part of the rows whose label is not the most probable one, in percent. Of numbers it is the mean squared error in percent
	// of the variance of the training rows, as in a run's report.
	Error float64 `json:"error"`
	// Loss is the mean log loss. Of numbers it is the mean squared error in units of that variance.
	Loss float64 `json:"loss"`
}

// add adds parts of other measures.
func (m *Measures) add(other Measures, weight float64) {
	m.Error += weight * other.Error
	m.Loss += weight * other.Loss
}

// logLoss returns the log loss of a row by the probability of its label, as reports have it.
func logLoss(probability float64) float64 { return -math.Log(max(probability, link.LeastProbability)) }

// each is what is measured of each row.
type each struct {
	loss      []float64
	wrong     []float64 // 1 or 0; of numbers the loss
	predicted []int32   // the most probable class
	truth     []float64 // probability of the class
	numbers   []float64 // that are predicted (n × k)
}

// mean returns the means of rows; of all without a list.
func (e *each) mean(rows []int) (m Measures) {
	if rows == nil {
		rows = evenly(len(e.loss), len(e.loss))
	}
	for _, i := range rows {
		m.add(Measures{e.wrong[i], e.loss[i]}, 1)
	}
	n := float64(len(rows))
	return Measures{100 * m.Error / n, m.Loss / n}
}

// tile is how many rows are predicted at a time.
const tile = 1024

// predictor predicts tiles of rows, which it may change before.
type predictor struct {
	*model.Predictor
	tile kernel.Dense
}

// predict calls change with copies of the rows, a tile at a time, and then with with their predictions (n × k). A nil list stands for
// all rows.
func (p *predictor) predict(ctx context.Context, rows *Rows, list []int, change func(at int, row []float32),
	with func(at int, p []float32)) error {
	if list == nil {
		list = evenly(rows.Len(), rows.Len())
	}
	n, k := len(list), len(p.Model().Labels())
	for from := 0; from < n; from += tile {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		to := min(from+tile, n)
		p.tile.Reshape(to-from, rows.Features.Cols)
		for i := from; i < to; i++ {
			row := p.tile.Row(i - from)
			copy(row, rows.Features.Row(list[i]))
			if change != nil {
				change(i, row)
			}
		}
		out := p.Probabilities(p.tile)
		for i := from; i < to; i++ {
			with(i, out.Data[(i-from)*k:(i-from+1)*k])
		}
	}
	return nil
}

// measure measures rows, which change may change before.
func (p *predictor) measure(ctx context.Context, rows *Rows, change func(at int, row []float32)) (*each, error) {
	n, k := rows.Len(), len(p.Model().Labels())
	e := &each{loss: make([]float64, n), wrong: make([]float64, n)}
	if p.Model().Task() == examples.Numbers {
		scale := p.Model().TargetScale()
		e.numbers = make([]float64, n*k)
		return e, p.predict(ctx, rows, nil, change, func(i int, out []float32) {
			for c, v := range out {
				e.numbers[i*k+c] = float64(v)
				d := float64(v) - rows.Targets[i*k+c]
				if scale[c] > 0 {
					d /= float64(scale[c])
				}
				e.loss[i] += d * d / float64(k)
			}
			e.wrong[i] = e.loss[i]
		})
	}
	e.predicted, e.truth = make([]int32, n), make([]float64, n)
	return e, p.predict(ctx, rows, nil, change, func(i int, out []float32) {
		e.predicted[i], e.truth[i] = link.Largest(out), float64(out[rows.Classes[i]])
		e.loss[i] = logLoss(e.truth[i])
		if e.predicted[i] != rows.Classes[i] {
			e.wrong[i] = 1
		}
	})
}

// parallel calls do with the numbers below n and a predictor of its own for each process, until an error.
func parallel(m *model.Model, blas *kernel.BLAS, n int, do func(p *predictor, i int) error) error {
	var group errgroup.Group
	var next atomic.Int64
	for range min(runtime.GOMAXPROCS(0), n) {
		group.Go(func() error {
			p := &predictor{Predictor: m.Predictor(blas)}
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				if err := do(p, int(i)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}
