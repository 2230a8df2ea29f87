package explain

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
)

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
