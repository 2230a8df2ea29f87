// Package explain computes what a model's predictions of labelled rows depend on, and where they are wrong:
//
//	model, labelled rows ──Explain──▶ Report: importance of columns, partial dependence, errors by slices, the rows with the largest loss
//
// The same rows, options and model give the same report, on any number of processors.
package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// Options are the options of an explanation.
type Options struct {
	Shuffles int      // permutations of each column
	Seed     uint64   // of the permutations
	Curves   int      // columns with partial dependence, and with slices if none are named: the most important ones
	Slices   []string // columns by whose values errors are shown
	Wrong    int      // number of rows with the largest loss
}

// Defaults returns the default options.
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
	own, err := p.measure(ctx, rows, func(int, []float32) {})
	if err != nil {
		return nil, err
	}
	r := &Report{
		Version: m.Manifest.Version, Labels: m.Labels(), Rows: rows.Len(), Unlabelled: rows.Unlabelled, Unknown: rows.Unknown,
		Measures: own.mean(rows.all()), Shuffles: o.Shuffles, Task: "classification",
	}
	if m.Task() == examples.Numbers {
		r.Task = Regression
	}
	if err := r.importance(ctx, m, blas, rows, columns, o); err != nil {
		return nil, err
	}
	first := columns[:min(o.Curves, len(columns))]
	if r.Dependence, err = dependence(ctx, m, blas, rows, first); err != nil {
		return nil, err
	}
	if len(sliced) == 0 {
		sliced = first
	}
	for _, c := range sliced {
		r.Slices = append(r.Slices, slicesOf(rows, c, own))
	}
	r.wrong(rows, own, o.Wrong)
	return r, nil
}

// importance measures the rows with each column permuted, and sorts the columns, the most important first. A column of words is
// permuted as a whole.
func (r *Report) importance(ctx context.Context, m *model.Model, blas *kernel.BLAS, rows *Rows, columns []*column, o Options) error {
	rises := make([]Measures, len(columns)*o.Shuffles)
	err := parallel(m, blas, len(rises), func(p *predictor, i int) error {
		c := columns[i/o.Shuffles]
		from := rand.New(rand.NewPCG(o.Seed, uint64(i))).Perm(rows.Len())
		shuffled, err := p.measure(ctx, rows, func(at int, row []float32) {
			copy(row[c.from:c.to], rows.Features.Row(from[at])[c.from:c.to])
		})
		if err == nil {
			rises[i] = shuffled.mean(rows.all())
			rises[i].add(r.Measures, -1)
		}
		return err
	})
	if err != nil {
		return err
	}
	for j, c := range columns {
		c.importance.Name = c.Name
		c.importance.Rise, c.importance.Deviation = spread(rises[j*o.Shuffles : (j+1)*o.Shuffles])
	}
	slices.SortStableFunc(columns, func(a, b *column) int { return cmp.Compare(b.importance.Rise.Loss, a.importance.Rise.Loss) })
	for _, c := range columns {
		r.Importance = append(r.Importance, c.importance)
	}
	return nil
}

// spread returns the means of measures and their standard deviations.
func spread(all []Measures) (mean, deviation Measures) {
	n := float64(len(all))
	for _, m := range all {
		mean.add(m, 1/n)
	}
	for _, m := range all { // a single one deviates by 0
		deviation.add(Measures{(m.Error - mean.Error) * (m.Error - mean.Error), (m.Loss - mean.Loss) * (m.Loss - mean.Loss)}, 1/max(1, n-1))
	}
	return mean, Measures{math.Sqrt(deviation.Error), math.Sqrt(deviation.Loss)}
}

// wrong adds the rows with the largest losses.
func (r *Report) wrong(rows *Rows, own *each, n int) {
	order := rows.all()
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

// Regression is the task of a model of numbers.
const Regression = "regression"

// Report explains the predictions of a model for labelled rows.
type Report struct {
	Version    int        `json:"version"`
	Task       string     `json:"task"`   // classification or [Regression]
	Labels     []string   `json:"labels"` // or the names of numbers
	Rows       int        `json:"rows"`
	Unlabelled int64      `json:"unlabelled,omitempty"` // omitted rows without a label
	Unknown    int64      `json:"unknown,omitempty"`    // omitted rows with a label unknown to the model
	Measures   Measures   `json:"measures"`
	Shuffles   int        `json:"shuffles"`   // permutations of each column
	Importance []Column   `json:"importance"` // the most important column first
	Dependence []Curve    `json:"dependence"`
	Slices     []Slices   `json:"slices"`
	Wrong      []WrongRow `json:"wrong"` // the largest loss first
}

// Column is the importance of a column: the increase of the measures when the column has the values of other rows, as
// means and standard deviations over permutations.
type Column struct {
	Name      string   `json:"name"`
	Rise      Measures `json:"rise"`
	Deviation Measures `json:"deviation"`
}

// Curve is the partial dependence of predictions on a column: the mean prediction if all rows have a given value.
type Curve struct {
	Name   string       `json:"name"`
	Points []CurvePoint `json:"points"`
}

// CurvePoint is a point of a curve.
type CurvePoint struct {
	Value string    `json:"value"`
	Rows  int       `json:"rows"` // number of rows with the value, if it is a word or missing
	Mean  []float64 `json:"mean"` // probability of each label, or each number
}

// Slices are the measures of rows by the values of a column.
type Slices struct {
	Name   string  `json:"name"`
	Slices []Slice `json:"slices"`
}

// Slice is the measures of the rows with a value.
type Slice struct {
	Value string `json:"value"` // a word, or a range of numbers
	Rows  int    `json:"rows"`
	Measures
}

// WrongRow is a row with a large loss.
type WrongRow struct {
	Row         int64     `json:"row"` // of the table, from 0
	Label       string    `json:"label,omitempty"`
	Predicted   string    `json:"predicted,omitempty"`
	Probability float64   `json:"probability,omitempty"` // of the label
	Numbers     []float64 `json:"numbers,omitempty"`     // the targets
	Predictions []float64 `json:"predictions,omitempty"`
	Loss        float64   `json:"loss"`
}

// Rows are labelled rows of a table.
type Rows struct {
	Features kernel.Dense // raw (n × d); a missing one is NaN
	Classes  []int32      // of the labels, for a model of labels (n)
	Targets  []float64    // for a model of numbers (n × k, row-major)
	Numbers  []int64      // row numbers in the table, from 0 (n)
	// Unlabelled and Unknown count the omitted rows: those without a label, and those with a label unknown to the model.
	Unlabelled, Unknown int64
}

// Len returns the number of rows.
func (r *Rows) Len() int { return len(r.Numbers) }

// all returns the indices of all rows.
func (r *Rows) all() []int { return evenly(r.Len(), r.Len()) }

// ClassOf returns a function that returns the class of a label as written in a table; −1 if the model does not have the label.
func ClassOf(m *model.Model) func(text string) int32 {
	labels := examples.NewLabels(m.Labels())
	return func(text string) int32 {
		for _, spelling := range []string{text, value.NumberLabel(text)} {
			if class, known := labels.Find(spelling); known {
				return class
			}
		}
		return -1
	}
}

// column is a column of the table that the model was trained on, with its features and its importance.
type column struct {
	examples.Column
	from, to   int
	importance Column
}

// columnsOf returns the columns of a model. If their names are unknown, each feature is a column named by its number.
func columnsOf(m *model.Model) (columns []*column) {
	table := m.Columns()
	if table == nil {
		for j := range m.Width() {
			table = append(table, examples.Column{Name: strconv.Itoa(j)})
		}
	}
	from := 0
	for _, c := range table {
		columns = append(columns, &column{Column: c, from: from, to: from + c.Features()})
		from += c.Features()
	}
	return columns
}

const (
	otherWords = "other words" // those that the model does not have
	missing    = "missing"     // of cells without a value
)

// word returns the index of the word that features represent, and the word; −1 for a missing value.
func (c *column) word(features []float32) (place int, text string) {
	if features[0] != features[0] {
		return -1, missing
	}
	if place = slices.Index(features, 1); place >= 0 && place < len(c.Categories) {
		return place, c.Categories[place]
	}
	return len(c.Categories), otherWords
}

// number formats a number of the column as the table has it.
func (c *column) number(v float32) string {
	if c.Offset == 0 || c.Time != "" { // ages count from the offset
		return strconv.FormatFloat(float64(v)+0, 'g', -1, 32) // never -0
	}
	return strconv.FormatFloat(float64(v)+c.Offset, 'g', -1, 64)
}

// find returns the columns with these names.
func find(columns []*column, names []string) (found []*column, err error) {
	for _, name := range names {
		at := slices.IndexFunc(columns, func(c *column) bool { return c.Name == name })
		if at < 0 {
			return nil, fmt.Errorf("the model has no column %s", value.Quote(name))
		}
		found = append(found, columns[at])
	}
	return found, nil
}
