package explain

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas/examples"
)

// Options say how much is explained.
type Options struct {
	Shuffles int      // permutations of each column
	Seed     uint64   // of the permutations
	Curves   int      // columns with partial dependence, and with slices if none are named: the most important ones
	Slices   []string // columns by whose values errors are shown
	Wrong    int      // rows that are most wrong
}

// Defaults returns the options of an explanation of which nothing is known.
func Defaults() Options { return Options{Shuffles: 5, Seed: 1, Curves: 3, Wrong: 10} }

// CheckModel returns an error for a model whose predictions can't be explained: one of sparse rows, or of several labels.
func CheckModel(m *model.Model) error {
	switch {
	case m.Sparse():
		return errors.New("the model was trained on sparse rows: explain supports only the columns of tables")
	case m.Task() == examples.SeveralLabels:
		return errors.New("the model predicts several labels per row: explain supports only models of one label or of numbers")
	}
	return nil
}

// Explain explains the predictions of a model that passes CheckModel. blas may be nil. It returns an error if there are no rows, if a
// column of the options is not one of the model, or if ctx ends.
func Explain(ctx context.Context, m *model.Model, blas *kernel.BLAS, rows *Rows, o Options) (*Report, error) {
	columns := columnsOf(m)
	sliced, err := find(columns, o.Slices)
	if err != nil {
		return nil, err
	}
	if rows.Len() == 0 {
		return nil, errors.New("no row has a label of the model")
	}
	p := &predictor{Predictor: m.Predictor(blas)}
	own, err := p.measure(ctx, rows, nil)
	if err != nil {
		return nil, err
	}
	r := &Report{
		Version: m.Manifest.Version, Task: "classification", Labels: m.Labels(), Rows: rows.Len(), Unlabelled: rows.Unlabelled,
		Unknown: rows.Unknown, Measures: own.mean(nil), Shuffles: o.Shuffles,
	}
	if m.Task() == examples.Numbers {
		r.Task = Regression
	}
	order, err := r.importance(ctx, m, blas, rows, columns, own, o)
	if err != nil {
		return nil, err
	}
	first := order[:min(o.Curves, len(order))]
	if r.Dependence, err = dependence(ctx, m, blas, rows, columns, first); err != nil {
		return nil, err
	}
	if len(sliced) == 0 {
		sliced = first
	}
	for _, at := range sliced {
		r.Slices = append(r.Slices, slicesOf(rows, &columns[at], own))
	}
	r.wrong(rows, own, o.Wrong)
	return r, nil
}

// importance measures the rows with each column permuted, and returns the columns, the most important first. A column of words is
// permuted as a whole.
func (r *Report) importance(ctx context.Context, m *model.Model, blas *kernel.BLAS, rows *Rows, columns []column, own *each,
	o Options) (order []int, err error) {
	base := own.mean(nil)
	rises := make([]Measures, len(columns)*o.Shuffles)
	err = parallel(m, blas, len(rises), func(p *predictor, i int) error {
		c := columns[i/o.Shuffles]
		from := rand.New(rand.NewPCG(o.Seed, uint64(i))).Perm(rows.Len())
		shuffled, err := p.measure(ctx, rows, func(at int, row []float32) {
			copy(row[c.from:c.to], rows.Features.Row(from[at])[c.from:c.to])
		})
		if err == nil {
			rises[i] = shuffled.mean(nil)
			rises[i].add(base, -1)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	all := make([]Column, len(columns))
	for j, c := range columns {
		all[j].Name = c.Name
		all[j].Rise, all[j].Deviation = spread(rises[j*o.Shuffles : (j+1)*o.Shuffles])
		order = append(order, j)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(all[b].Rise.Loss, all[a].Rise.Loss) })
	for _, j := range order {
		r.Importance = append(r.Importance, all[j])
	}
	return order, nil
}

// spread returns the means of measures and their standard deviations.
func spread(all []Measures) (mean, deviation Measures) {
	n := float64(len(all))
	for _, m := range all {
		mean.add(m, 1/n)
	}
	if n < 2 {
		return mean, deviation
	}
	for _, m := range all {
		deviation.add(Measures{(m.Error - mean.Error) * (m.Error - mean.Error), (m.Loss - mean.Loss) * (m.Loss - mean.Loss)}, 1/(n-1))
	}
	return mean, Measures{math.Sqrt(deviation.Error), math.Sqrt(deviation.Loss)}
}

// wrong adds the rows with the largest losses.
func (r *Report) wrong(rows *Rows, own *each, n int) {
	order := make([]int, rows.Len())
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(own.loss[b], own.loss[a]) })
	k := len(r.Labels)
	for _, i := range order[:min(n, len(order))] {
		w := WrongRow{Row: rows.Numbers[i], Loss: own.loss[i]}
		if own.numbers != nil {
			w.Numbers, w.Predictions = rows.Targets[i*k:(i+1)*k], own.numbers[i*k:(i+1)*k]
		} else {
			w.Label, w.Predicted, w.Probability = r.Labels[rows.Classes[i]], r.Labels[own.predicted[i]], own.truth[i]
		}
		r.Wrong = append(r.Wrong, w)
	}
}
