package explain

import (
	"cmp"
	"context"
	"math"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas/examples"
)

// Measures are means over rows.
type Measures struct {
	// Error is the percentage of rows whose label is not the most probable one; for numbers, the mean squared error in
	// percent of the variance of the training rows, as in a run's report.
	Error float64 `json:"error"`
	// Loss is the mean log loss; for numbers, the mean squared error in units of that variance.
	Loss float64 `json:"loss"`
}

// add adds other measures times a weight.
func (m *Measures) add(other Measures, weight float64) {
	m.Error += weight * other.Error
	m.Loss += weight * other.Loss
}

// logLoss returns the log loss of a row given the probability of its label, as in reports.
func logLoss(probability float64) float64 { return -math.Log(max(probability, link.LeastProbability)) }

// each holds the measures of each row.
type each struct {
	loss      []float64
	wrong     []float64 // 1 or 0; for numbers the loss
	predicted []int32   // the most probable class
	truth     []float64 // probability of the true class
	numbers   []float64 // predicted numbers (n × k)
}

// mean returns the means over the given rows.
func (e *each) mean(rows []int) (m Measures) {
	for _, i := range rows {
		m.add(Measures{e.wrong[i], e.loss[i]}, 1)
	}
	n := float64(len(rows))
	return Measures{100 * m.Error / n, m.Loss / n}
}

// tile is the number of rows predicted at a time.
const tile = 1024

// predictor predicts tiles of rows, which callers may change first.
type predictor struct {
	*model.Predictor
	tile examples.Rows
}

// predict predicts the listed rows a tile at a time. It calls change with a copy of each row, and then with with its
// predictions (k); at is the index of the row in the list.
func (p *predictor) predict(ctx context.Context, rows *Rows, list []int, change func(at int, row []float32),
	with func(at int, p []float32)) error {
	at := 0
	for some := range slices.Chunk(list, tile) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		p.tile = examples.Rows{Rows: len(some), Cols: rows.Features.Cols, Floats: p.tile.Floats[:0]}
		for i, from := range some {
			p.tile.Floats = append(p.tile.Floats, rows.Features.Row(from)...)
			change(at+i, p.tile.Floats[i*p.tile.Cols:])
		}
		for out := range slices.Chunk(p.Probabilities(&p.tile), len(p.Model().Labels())) {
			with(at, out)
			at++
		}
	}
	return nil
}

// measure measures all rows, each after change may have changed it.
func (p *predictor) measure(ctx context.Context, rows *Rows, change func(at int, row []float32)) (*each, error) {
	n, k := rows.Len(), len(p.Model().Labels())
	e := &each{loss: make([]float64, n), wrong: make([]float64, n)}
	if p.Model().Task() == examples.Numbers {
		scale := p.Model().TargetScale()
		e.numbers = make([]float64, n*k)
		return e, p.predict(ctx, rows, rows.all(), change, func(i int, out []float32) {
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
	return e, p.predict(ctx, rows, rows.all(), change, func(i int, out []float32) {
		e.predicted[i], e.truth[i] = link.Largest(out), float64(out[rows.Classes[i]])
		e.loss[i] = logLoss(e.truth[i])
		if e.predicted[i] != rows.Classes[i] {
			e.wrong[i] = 1
		}
	})
}

// parallel calls do for 0 … n−1 on all processors. No two that run together have the same predictor.
func parallel(m *model.Model, blas *kernel.BLAS, n int, do func(p *predictor, i int) error) error {
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	free := sync.Pool{New: func() any { return &predictor{Predictor: m.Predictor(blas)} }}
	for i := range n {
		group.Go(func() error {
			p := free.Get().(*predictor)
			defer free.Put(p)
			return do(p, i)
		})
	}
	return group.Wait()
}

const (
	curveRows   = 1000 // rows that a curve averages
	curvePoints = 9    // of a column of numbers: quantiles
	ownWords    = 10   // of a column of words: the most frequent have a point or a slice of their own
)

// dependence returns the curves of columns.
func dependence(ctx context.Context, m *model.Model, blas *kernel.BLAS, rows *Rows, columns []*column) ([]Curve, error) {
	list := evenly(rows.Len(), curveRows)
	curves := make([]Curve, len(columns))
	return curves, parallel(m, blas, len(columns), func(p *predictor, i int) error {
		c := columns[i]
		curves[i].Name = c.Name
		for _, v := range valuesOf(rows, c) {
			point := CurvePoint{Value: v.text, Rows: len(v.rows), Mean: make([]float64, len(m.Labels()))}
			err := p.predict(ctx, rows, list, func(_ int, row []float32) { copy(row[c.from:c.to], v.features) }, func(_ int, out []float32) {
				for k, v := range out {
					point.Mean[k] += float64(v) / float64(len(list))
				}
			})
			if err != nil {
				return err
			}
			curves[i].Points = append(curves[i].Points, point)
		}
		return nil
	})
}

// columnValue is a value of a column, its features, and the rows that have it, if it is a word or missing.
type columnValue struct {
	text     string
	features []float32
	rows     []int
}

// valuesOf returns the values at which a curve has points.
func valuesOf(rows *Rows, c *column) (values []columnValue) {
	if len(c.Categories) > 0 {
		values = wordsOf(rows, c)
		return values[:min(len(values), ownWords)]
	}
	sorted, lacking := numbersOf(rows, c)
	for _, v := range quantiles(sorted, curvePoints) {
		values = append(values, columnValue{text: c.number(v), features: []float32{v}})
	}
	if len(lacking) > 0 {
		values = append(values, columnValue{missing, []float32{float32(math.NaN())}, lacking})
	}
	return values
}

// wordsOf returns the words of the rows, the most frequent first.
func wordsOf(rows *Rows, c *column) (words []columnValue) {
	words = make([]columnValue, len(c.Categories)+2) // missing, those of the model, and others
	for i := range rows.Len() {
		own := rows.Features.Row(i)[c.from:c.to]
		place, text := c.word(own)
		w := &words[1+place]
		if w.text, w.rows = text, append(w.rows, i); len(w.rows) == 1 {
			w.features = own
		}
	}
	words = slices.DeleteFunc(words, func(w columnValue) bool { return len(w.rows) == 0 })
	slices.SortStableFunc(words, func(a, b columnValue) int { return cmp.Compare(len(b.rows), len(a.rows)) })
	return words
}

// numbersOf returns the numbers of a column, sorted, and the rows that have none.
func numbersOf(rows *Rows, c *column) (sorted []float32, lacking []int) {
	for i := range rows.Len() {
		if v := rows.Features.Row(i)[c.from]; v == v {
			sorted = append(sorted, v)
		} else {
			lacking = append(lacking, i)
		}
	}
	slices.Sort(sorted)
	return sorted, lacking
}

// quantiles returns different values of sorted numbers: all, if there are at most n, or else those at n quantiles from 2.5 % to 97.5 %. If
// most rows have the same value, they are quantiles of the different values.
func quantiles(sorted []float32, n int) (values []float32) {
	all := slices.Compact(slices.Clone(sorted))
	if len(all) <= n {
		return all
	}
	for _, of := range [][]float32{sorted, all} {
		values = values[:0]
		for i := range n {
			q := 0.025 + 0.95*float64(i)/float64(n-1)
			values = append(values, of[int(q*float64(len(of)-1)+0.5)])
		}
		if values = slices.Compact(values); len(values) > n/2 {
			break
		}
	}
	return values
}

// evenly returns at most n evenly spaced numbers of 0 … of−1.
func evenly(of, n int) []int {
	places := make([]int, min(n, of))
	for i := range places {
		places[i] = i * of / len(places)
	}
	return places
}

// sliceNumbers is the maximum number of slices of a column of numbers: one per value, or else quartiles.
const sliceNumbers = 4

// slicesOf returns the measures of rows by the values of a column.
func slicesOf(rows *Rows, c *column, own *each) Slices {
	s := Slices{Name: c.Name}
	add := func(text string, of []int) {
		if len(of) > 0 {
			s.Slices = append(s.Slices, Slice{Value: text, Rows: len(of), Measures: own.mean(of)})
		}
	}
	if len(c.Categories) > 0 {
		var rest []int
		for i, word := range wordsOf(rows, c) {
			if i < ownWords {
				add(word.text, word.rows)
			} else {
				rest = append(rest, word.rows...)
			}
		}
		slices.Sort(rest)
		add("all others", rest)
		return s
	}
	sorted, lacking := numbersOf(rows, c)
	bounds, texts := c.ranges(sorted)
	of := make([][]int, len(bounds))
	for i := range rows.Len() {
		if v := rows.Features.Row(i)[c.from]; v == v {
			at, _ := slices.BinarySearch(bounds, v)
			of[at] = append(of[at], i)
		}
	}
	for at, list := range of {
		add(texts[at], list)
	}
	add(missing, lacking)
	return s
}

// ranges divides sorted numbers into a few ranges with about the same number of rows. bounds are the largest number of
// each range, and texts their descriptions.
func (c *column) ranges(sorted []float32) (bounds []float32, texts []string) {
	if bounds = slices.Compact(slices.Clone(sorted)); len(bounds) <= sliceNumbers {
		for _, v := range bounds {
			texts = append(texts, c.number(v))
		}
		return bounds, texts
	}
	bounds = bounds[:0:0]
	for q := 1; q <= sliceNumbers; q++ {
		bounds = append(bounds, sorted[q*len(sorted)/sliceNumbers-1])
	}
	bounds = slices.Compact(bounds)
	for i, v := range bounds {
		switch {
		case i == 0:
			texts = append(texts, "at most "+c.number(v))
		case i == len(bounds)-1:
			texts = append(texts, "above "+c.number(bounds[i-1]))
		default:
			texts = append(texts, c.number(bounds[i-1])+" to "+c.number(v))
		}
	}
	return bounds, texts
}
