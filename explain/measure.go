package explain

import (
	"cmp"
	"context"
	"maps"
	"math"
	"runtime"
	"slices"
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

const (
	curveRows   = 1000 // rows that a curve averages
	curvePoints = 9    // of a column of numbers: quantiles
	curveWords  = 10   // of a column of words: the most frequent
)

// dependence returns the curves of columns.
func dependence(ctx context.Context, m *model.Model, blas *kernel.BLAS, rows *Rows, columns []column, of []int) ([]Curve, error) {
	list := evenly(rows.Len(), curveRows)
	curves := make([]Curve, len(of))
	err := parallel(m, blas, len(of), func(p *predictor, i int) error {
		c := &columns[of[i]]
		curves[i].Name = c.Name
		for _, value := range valuesOf(rows, c) {
			mean := make([]float64, len(m.Labels()))
			err := p.predict(ctx, rows, list, func(_ int, row []float32) { copy(row[c.from:c.to], value.features) }, func(_ int, out []float32) {
				for k, v := range out {
					mean[k] += float64(v) / float64(len(list))
				}
			})
			if err != nil {
				return err
			}
			curves[i].Points = append(curves[i].Points, CurvePoint{Value: value.text, Rows: value.rows, Mean: mean})
		}
		return nil
	})
	return curves, err
}

// columnValue is a value of a column, and its features.
type columnValue struct {
	text     string
	rows     int
	features []float32
}

// valuesOf returns the values at which a curve has points.
func valuesOf(rows *Rows, c *column) (values []columnValue) {
	if c.isWords() {
		words, of := rowsByWord(rows, c)
		for _, place := range words[:min(len(words), curveWords)] {
			features := make([]float32, c.to-c.from)
			for j := range features {
				switch {
				case place < 0:
					features[j] = float32(math.NaN())
				case j == place:
					features[j] = 1
				}
			}
			values = append(values, columnValue{c.wordText(place), len(of[place]), features})
		}
		return values
	}
	sorted, lacking := numbersOf(rows, c)
	for _, v := range quantiles(sorted, curvePoints) {
		values = append(values, columnValue{text: c.number(v), features: []float32{v}})
	}
	if lacking > 0 {
		values = append(values, columnValue{missing, lacking, []float32{float32(math.NaN())}})
	}
	return values
}

// rowsByWord returns the places of the words that rows have, the most frequent first, and the rows with each.
func rowsByWord(rows *Rows, c *column) (words []int, of map[int][]int) {
	of = map[int][]int{}
	for i := range rows.Len() {
		place := c.word(rows.Features.Row(i))
		of[place] = append(of[place], i)
	}
	words = slices.SortedFunc(maps.Keys(of), func(a, b int) int { return cmp.Or(cmp.Compare(len(of[b]), len(of[a])), cmp.Compare(a, b)) })
	return words, of
}

// numbersOf returns the numbers of a column, sorted, and how many are missing.
func numbersOf(rows *Rows, c *column) (sorted []float32, lacking int) {
	for i := range rows.Len() {
		if v := rows.Features.Row(i)[c.from]; v == v {
			sorted = append(sorted, v)
		} else {
			lacking++
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

// evenly returns at most n of so many places, evenly spread.
func evenly(of, n int) []int {
	n = min(n, of)
	places := make([]int, n)
	for i := range places {
		places[i] = i * of / n
	}
	return places
}

const (
	sliceWords   = 10 // words with a slice of their own
	sliceNumbers = 4  // slices of numbers: quartiles, or values if there are no more
)

// slicesOf returns the measures of rows by the values of a column.
func slicesOf(rows *Rows, c *column, own *each) Slices {
	s := Slices{Name: c.Name}
	add := func(text string, of []int) {
		if len(of) > 0 {
			s.Slices = append(s.Slices, Slice{Value: text, Rows: len(of), Measures: own.mean(of)})
		}
	}
	if c.isWords() {
		words, of := rowsByWord(rows, c)
		var rest []int
		for i, place := range words {
			if i < sliceWords {
				add(c.wordText(place), of[place])
			} else {
				rest = append(rest, of[place]...)
			}
		}
		slices.Sort(rest)
		add("all others", rest)
		return s
	}
	sorted, _ := numbersOf(rows, c)
	bounds, texts := c.ranges(sorted)
	of, lacking := make([][]int, len(bounds)), []int(nil)
	for i := range rows.Len() {
		v := rows.Features.Row(i)[c.from]
		if v != v {
			lacking = append(lacking, i)
			continue
		}
		at, _ := slices.BinarySearch(bounds, v)
		of[at] = append(of[at], i)
	}
	for at, list := range of {
		add(texts[at], list)
	}
	add(missing, lacking)
	return s
}

// ranges divides numbers, sorted, into few ranges with about as many each. bounds are the largest number of each, and texts what people
// call it.
func (c *column) ranges(sorted []float32) (bounds []float32, texts []string) {
	if len(sorted) == 0 {
		return nil, nil
	}
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
