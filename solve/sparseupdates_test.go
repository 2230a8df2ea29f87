package solve

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// The definition, on dense matrices: an update minimises the loss of its rows and the quadratic of D around its initial
// weights; then D grows by the curvature of its rows at the new weights, and N by their counts.
type plain struct {
	w, d, n, b []float64 // p × k
	k          int
}

const inputs = 7

func (o *plain) scores(x, w []float64) []float64 {
	s := make([]float64, o.k)
	for j, v := range x {
		for c := range s {
			s[c] += v * w[j*o.k+c]
		}
	}
	return s
}

// update minimises by many small gradient steps.
func (o *plain) update(rows [][]float64, classes []int) {
	start, offsets := slices.Clone(o.w), make([][]float64, len(rows))
	for i, x := range rows {
		offsets[i] = o.scores(x, o.b)
	}
	predicted := func(i int) []float64 {
		s := o.scores(rows[i], o.w)
		for c := range s {
			s[c] += offsets[i][c]
		}
		return softmax(s)
	}
	for range 4000 {
		gradient := make([]float64, len(o.w))
		for i := range gradient {
			gradient[i] = o.d[i] * (o.w[i] - start[i])
		}
		for i, x := range rows {
			p := predicted(i)
			p[classes[i]]--
			for j, v := range x {
				for c, r := range p {
					gradient[j*o.k+c] += v * r
				}
			}
		}
		for i, g := range gradient {
			o.w[i] -= g / (o.d[i] + float64(len(rows)))
		}
	}
	for i, x := range rows {
		p := predicted(i)
		for j, v := range x {
			for c := range p {
				o.d[j*o.k+c] += v * v * p[c] * (1 - p[c])
			}
			o.n[j*o.k+classes[i]] += v
		}
	}
	totals := make([]float64, o.k)
	for i, n := range o.n {
		totals[i%o.k] += n + ChainSmoothing
	}
	for j := range inputs {
		mean := 0.0
		for c, total := range totals {
			o.b[j*o.k+c] = math.Log((o.n[j*o.k+c] + ChainSmoothing) / total)
			mean += o.b[j*o.k+c] / float64(o.k)
		}
		for c := range totals {
			o.b[j*o.k+c] -= mean
		}
	}
}

// table makes a field of sums with a row for each input that occurs.
func table(name string, rows [][]float64, k int, add func(row []float64, x float64, i int)) wire.Tensor[float64] {
	var o statistics.Occurring
	for j := range inputs {
		sums, occurs := make([]float64, k), false
		for i, x := range rows {
			if x[j] != 0 {
				add(sums, x[j], i)
				occurs = true
			}
		}
		if occurs {
			o.Columns, o.Values = append(o.Columns, int32(j)), append(o.Values, sums...)
		}
	}
	return o.Tensor(name, k)
}

// A stream of updates matches the definition in weights, curvature and counts, and so in the scores of rows before it learns them.
func TestUpdatesAreTheDefinition(t *testing.T) {
	const k, batches, rowsOfBatch = 3, 6, 12
	r := rand.New(rand.NewPCG(3, 4))
	o := &plain{w: make([]float64, inputs*k), d: make([]float64, inputs*k), n: make([]float64, inputs*k), b: make([]float64, inputs*k), k: k}
	for i := range o.d {
		o.d[i] = 0.5
	}
	shape := Shape{Columns: inputs, Penalised: inputs, Classes: k, Sparse: true, Chained: true}
	columns := []int32{2, 3, 5, 8, 13, 21, 34} // of the examples
	curvature, counts := NewSparseSums(k, 0.5, math.Exp2(-30)), NewSparseSums(k, 0, math.Exp2(-30))
	w, b := make([]float32, inputs*k), make([]float32, inputs*k)
	before := &CountsBefore{Totals: counts.Totals(), Inputs: inputs}
	for range batches {
		var rows [][]float64
		var classes []int
		for range rowsOfBatch {
			x, class := make([]float64, inputs), r.IntN(k)
			x[class] = float64(float32(r.Float64()))
			x[3+r.IntN(inputs-3)] = float64(float32(r.Float64()))
			rows, classes = append(rows, x), append(classes, class)
		}
		visit := func(w []float64) wire.Tensors[float64] {
			loss := 0.0
			predictions := make([][]float64, len(rows))
			for i, x := range rows {
				s := o.scores(x, w)
				for c, v := range o.scores(x, o.b) { // the counts before the rows
					s[c] += v
				}
				predictions[i] = softmax(s)
				loss -= math.Log(predictions[i][classes[i]])
			}
			splits := make([]float64, examples.Splits*statistics.LossFields)
			copy(splits, []float64{rowsOfBatch, rowsOfBatch, 0, loss})
			return wire.Tensors[float64]{wire.Matrix(statistics.FieldSplits, examples.Splits, statistics.LossFields, splits),
				table(statistics.FieldGradient, rows, k, func(row []float64, x float64, i int) {
					for c, p := range predictions[i] {
						row[c] -= x * p
					}
					row[classes[i]] += x
				}),
				table(statistics.FieldCurvature, rows, k, func(row []float64, x float64, i int) {
					for c, p := range predictions[i] {
						row[c] += x * x * p * (1 - p)
					}
				}),
				table(statistics.FieldReach, rows, 1, func(row []float64, x float64, i int) {
					for _, v := range rows[i] {
						row[0] += math.Abs(x * v)
					}
				}),
				table(statistics.FieldCounted, rows, k, func(row []float64, x float64, i int) { row[classes[i]] += x }),
			}
		}
		counted := NewCountsUpdate(schemas.Stage{Features: schemas.Features{Weight: 1}}, shape, counts, columns, before)
		assert.Must(counted.Observe(0, Step{}, visit(o.w)))(t)
		step := assert.Must(counted.Next())(t)
		apply(b, step, k)
		before = &CountsBefore{Totals: counts.Totals(), Inputs: inputs}

		fit := NewSparseUpdate(schemas.Stage{Link: "softmax"}, shape, curvature, columns, 60)
		for number, step := 0, (Step{W: w}); ; number++ {
			at := slices.Clone(w)
			apply(at, step, k)
			assert.Must(fit.Observe(number, step, visit(wide(at))))(t)
			step = assert.Must(fit.Next())(t)
			if step.Final {
				apply(w, step, k)
				break
			}
		}
		_, weight := fit.After()
		assert.Need(t, weight == rowsOfBatch, "the rows weigh %v, expected %v", weight, rowsOfBatch)
		o.update(rows, classes)
		for j := range inputs {
			d, n := curvature.Row(columns[j]), counts.Row(columns[j])
			for c := range k {
				i := j*k + c
				got := []float64{float64(w[i]), float64(b[i]), 0.5, 0}
				if d != nil {
					got[2] += d[c]
				}
				if n != nil {
					got[3] = n[c]
				}
				for what, want := range []float64{o.w[i], o.b[i], o.d[i], o.n[i]} {
					assert.Near(t, got[what], want, 2e-3, "%s of input %d, class %d", []string{"W", "B", "D", "N"}[what], j, c)
				}
			}
		}
	}
}

// apply sets weights to those of a step.
func apply(w []float32, step Step, k int) {
	if step.Shift != nil {
		for i := range w {
			w[i] += step.Shift[i%k]
		}
	}
	for i, column := range step.Occurring {
		copy(w[int(column)*k:][:k], step.Rows[i*k:])
	}
}

// SparseSums are exact: for any order of additions and removals, the rest is bitwise the sum of what stays.
func TestSumsForgetWhatLeaves(t *testing.T) {
	const k = 2
	r := rand.New(rand.NewPCG(5, 6))
	sums, direct := NewSparseSums(k, 0, GridOf(100, 10)), NewSparseSums(k, 0, GridOf(100, 10))
	var all []statistics.Occurring
	for range 40 {
		o := statistics.Occurring{}
		for j := range 20 {
			if r.IntN(3) == 0 {
				o.Columns, o.Values = append(o.Columns, int32(j)), append(o.Values, r.ExpFloat64(), 1000*r.ExpFloat64())
			}
		}
		columns := make([]int32, 20)
		for j := range columns {
			columns[j] = int32(3 * j)
		}
		terms := sums.Terms(o, columns, 1)
		sums.Add(1, terms)
		all = append(all, terms)
	}
	for _, i := range r.Perm(len(all)) {
		if i%4 > 0 {
			sums.Add(-1, all[i])
		} else {
			direct.Add(1, all[i])
		}
	}
	for j := range 20 {
		want := direct.Row(int32(3 * j))
		for c, v := range sums.Row(int32(3 * j)) {
			if want == nil && v != 0 || want != nil && v != want[c] {
				t.Errorf("column %d, class %d: %v, expected %v", j, c, v, want)
			}
		}
	}
	assert.Equal(t, sums.Totals(), direct.Totals(), "the totals")
}

// SparseSums have the row of each column, however many there are, and forget all of them.
func TestSumsOfManyColumns(t *testing.T) {
	const k = 2
	sums := NewSparseSums(k, 0, 1)
	for range 2 {
		columns := 2*rowsAtOnce + 65
		for column := range columns {
			sums.Add(1, statistics.Occurring{Columns: []int32{int32(3 * column)}, Values: []float64{float64(column), 1}})
		}
		for column := range columns {
			row := sums.Row(int32(3 * column))
			assert.Need(t, slices.Equal(row, []float64{float64(column), 1}), "the sums of column %d are %v", 3*column, row)
			row = sums.Row(int32(3*column + 1))
			assert.Need(t, row == nil, "column %d has sums %v", 3*column+1, row)
		}
		sums.Clear()
	}
}
