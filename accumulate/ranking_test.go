package accumulate

import (
	"cmp"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// A probability is in a bin or above if and only if it is at least the bin's edge, and the edges ascend.
func TestGrid(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, histograms := range []int{1, 10, 100} {
		g := gridOf(histograms)
		probabilities := []float32{0, 1, 0.5, 1e-30, finest, 1 - finest, float32(math.NaN()), -1, 2, math.Nextafter32(0.5, 0), math.Nextafter32(0.5, 1),
			math.Nextafter32(1, 0), math.Nextafter32(finest, 0)}
		for range 2000 {
			odds := math.Exp(20 * (r.Float64() - 0.5))
			probabilities = append(probabilities, float32(odds/(1+odds)))
		}
		for b := 1; b < g.bins(); b++ {
			assert.Need(t, g.edge(b) > g.edge(b-1), "bin %d begins at %v, the one before at %v", b, g.edge(b), g.edge(b-1))
			at := float32(g.edge(b))
			probabilities = append(probabilities, at, math.Nextafter32(at, 0), math.Nextafter32(at, 1))
		}
		assert.Equal(t, g.edge(g.bins()/2), 0.5, "the middle")
		for _, p := range probabilities {
			bin := g.bin(p)
			assert.Need(t, bin >= 0 && bin < g.bins(), "%v is in bin %d of %d", p, bin, g.bins())
			for _, b := range []int{bin, min(bin+1, g.bins()-1), r.IntN(g.bins()-1) + 1} {
				assert.Need(t, b == 0 || (bin >= b) == (float64(p) >= g.edge(b)), "%v is in bin %d, and bin %d begins at %v", p, bin, b, g.edge(b))
			}
		}
	}
}

// ranked is rows of one label, whose probabilities are somewhat right.
func ranked(r *rand.Rand, n, k int, rare float64) predicted {
	p := predictions(r, n, k)
	for i := range n {
		class := r.IntN(k)
		if k == 2 {
			class = 0
			if r.Float64() < rare {
				class = 1
			}
		}
		p.Classes[i], p.Splits[i] = int32(class), examples.Test
		row, sum := p.probabilities.Row(i), 0.0
		scores := make([]float64, k)
		for c := range scores {
			scores[c] = math.Exp(1.5 * r.NormFloat64())
			if c == class {
				scores[c] *= 4
			}
			if k == 2 && c == 0 {
				scores[c] /= rare
			}
			sum += scores[c]
		}
		p.class[i] = 0
		for c := range row {
			row[c] = float32(scores[c] / sum)
		}
		p.class[i] = link.Largest(row)
	}
	return p
}

// curves returns the area under the ROC curve and the average precision by their definitions, and the part of the pairs of a
// row of the class and another whose probabilities are in one bin.
func curves(p predicted, column, class int, g grid) (auc, average, tied float64) {
	type row struct {
		p float32
		w float64
		y bool
	}
	var rows []row
	var positive, negative float64
	for i, c := range p.Classes {
		w := float64(p.Weights[i])
		rows = append(rows, row{p.probabilities.Row(i)[column], w, int(c) == class})
		if int(c) == class {
			positive += w
		} else {
			negative += w
		}
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(b.p, a.p) })
	var right, given float64
	for i := 0; i < len(rows); {
		var same, others float64
		from := i
		for ; i < len(rows) && rows[i].p == rows[from].p; i++ {
			if rows[i].y {
				same += rows[i].w
			} else {
				others += rows[i].w
			}
		}
		auc += others * (right + same/2)
		right, given = right+same, given+same+others
		if same > 0 {
			average += same / positive * right / given
		}
	}
	sums := map[int][2]float64{}
	for _, row := range rows {
		s := sums[g.bin(row.p)]
		if row.y {
			s[1] += row.w
		} else {
			s[0] += row.w
		}
		sums[g.bin(row.p)] = s
	}
	for _, s := range sums {
		tied += s[0] * s[1]
	}
	return auc / positive / negative, average, tied / positive / negative
}

// The area under the ROC curve is exact within half the part of the pairs that are in one bin, which is less than a hundredth; it
// and the average precision are much nearer than that to what their definitions say.
func TestRankingAgainstItsDefinitions(t *testing.T) {
	for _, c := range []struct {
		k             int
		rare          float64
		auc, averages float64 // how near
	}{{2, 0.5, 1e-5, 2e-3}, {2, 0.01, 1e-5, 4e-3}, {3, 0, 1e-4, 5e-3}, {20, 0, 5e-4, 2e-2}} {
		p := ranked(rand.New(rand.NewPCG(uint64(c.k), 3)), 20000, c.k, c.rare)
		sum := &Sum{}
		sum.AddRanking(p.Rows, p.probabilities, p.class, 0)
		sum.Pack()
		m := sum.MeasuresOf(examples.Test, c.k)
		h := histogramsOf(c.k)
		var auc, average, bound, weights float64
		for n := range h.count {
			class := h.first + n
			a, b, tied := curves(p, class, class, h.grid)
			w := 0.0
			for i, of := range p.Classes {
				if int(of) == class {
					w += float64(p.Weights[i])
				}
			}
			auc, average, bound, weights = auc+w*a, average+w*b, bound+w*tied/2, weights+w
		}
		auc, average, bound = auc/weights, average/weights, bound/weights
		t.Logf("%d classes: AUC %.7f, exactly %.7f, bound %.1e; average precision %.6f, exactly %.6f", c.k, *m.AUC, auc, bound, *m.AveragePrecision, average)
		d := math.Abs(*m.AUC - auc)
		assert.True(t, d <= bound && d <= c.auc && bound <= 0.01, "%d classes: AUC %v, exactly %v, bound %v", c.k, *m.AUC, auc, bound)
		d = math.Abs(*m.AveragePrecision - average)
		assert.True(t, d <= c.averages, "%d classes: average precision %v, exactly %v", c.k, *m.AveragePrecision, average)
	}
}

// Sums of parts of the rows, packed and merged, are those of all rows, however the rows are divided.
func TestRankingOfParts(t *testing.T) {
	for _, k := range []int{2, 3} {
		p := ranked(rand.New(rand.NewPCG(5, 3)), 1000, k, 0.2)
		whole := &Sum{}
		whole.AddRanking(p.Rows, p.probabilities, p.class, 0.25)
		whole.Pack()
		merged := &Sum{}
		for i, cut := range []int{0, 1, 400, 400, 999} {
			to := append([]int{1, 400, 400, 999}, 1000)[i]
			part := &Sum{Coverage: coverage.Coverage{Spans: coverage.Spans{{Partition: i, From: 0, To: 1}}}}
			part.AddRanking(p.Rows.Slice(cut, to), p.probabilities.Slice(cut, to), p.class[cut:to], 0.25)
			part.Pack()
			assert.NoError(t, merged.Merge(part))
		}
		assert.True(t, reflect.DeepEqual(merged.Tensors(), whole.Tensors()), "%d classes: the sums of parts are not those of the whole", k)
	}
}

// Precision, recall, F1, the balanced error and that of the commonest training class weigh the rows.
func TestMeasuresOfClasses(t *testing.T) {
	p := predictions(rand.New(rand.NewPCG(1, 1)), 8, 3)
	p.Classes = []int32{0, 0, 0, 1, 1, 2, 1, 1}
	p.class = []int32{0, 0, 1, 1, 0, 1, 0, 0}
	p.Weights = []float32{1, 2, 1, 1, 0.5, 1, 1, 1}
	p.Splits = slices.Repeat([]examples.Split{examples.Test}, 8)
	p.Splits[6], p.Splits[7] = examples.Train, examples.Train
	sum := &Sum{}
	sum.AddRanking(p.Rows, p.probabilities, p.class, 0)
	sum.Pack()
	m := sum.MeasuresOf(examples.Test, 3)
	near := func(what string, got, want []float64) {
		t.Helper()
		for c := range want {
			assert.Near(t, got[c], want[c], 1e-12, "%s of class %d", what, c)
		}
	}
	near("precision", m.Precision, []float64{3 / 3.5, 1.0 / 3, 0})
	near("recall", m.Recall, []float64{0.75, 1 / 1.5, 0})
	near("F1", m.F1, []float64{0.8, 4.0 / 9, 0})
	near("balanced error", []float64{*m.BalancedError}, []float64{100 * (1 - (0.75+2.0/3)/3)})
	near("error of the commonest class", []float64{*m.MajorityError}, []float64{100 * (1 - 1.5/6.5)})
	assert.Equal(t, sum.MajorityOf(3), 1, "the commonest training class")
	m = sum.MeasuresOf(examples.Train, 3)
	assert.True(t, m.AUC == nil && *m.MajorityError == 0, "rows of one class have %+v", m)
	m = sum.MeasuresOf(examples.Holdout, 3)
	assert.True(t, reflect.DeepEqual(m, statistics.ClassMeasures{}) && (&Sum{}).MajorityOf(3) == -1, "no rows have %+v", m)
}

// The threshold with the least cost is one that no other has less, and decides as its probabilities say.
func TestThreshold(t *testing.T) {
	p := ranked(rand.New(rand.NewPCG(9, 3)), 1000, 2, 0.1)
	decide := func(threshold float64) (d statistics.Decision) {
		for i, class := range p.Classes {
			given := 0
			if float64(p.probabilities.Row(i)[1]) >= threshold {
				given = 1
			}
			d[class][given] += float64(p.Weights[i])
		}
		return d
	}
	sum := &Sum{}
	sum.AddRanking(p.Rows, p.probabilities, p.class, 0)
	sum.Pack()
	for name, cost := range map[string]func(statistics.Decision) float64{
		"F1":   func(d statistics.Decision) float64 { return -d.F1() },
		"cost": func(d statistics.Decision) float64 { return d[0][1] + 20*d[1][0] },
		"any":  func(statistics.Decision) float64 { return 0 },
	} {
		threshold, ok := sum.ThresholdOf(examples.Test, cost)
		got, want := sum.DecisionAt(examples.Test, threshold), decide(threshold)
		assert.True(t, ok && got == want, "%s: at %v the sums decide %v, the rows %v", name, threshold, got, want)
		for bin := 1; bin < gridOf(1).bins(); bin += 5 {
			other := gridOf(1).edge(bin)
			assert.Need(t, cost(decide(other)) >= cost(decide(threshold)), "%s: the threshold is %v, and %v has less", name, threshold, other)
		}
		assert.True(t, name != "any" || threshold == 0.5, "of thresholds that cost the same it is %v", threshold)
	}
	exact := &Sum{}
	exact.AddRanking(p.Rows, p.probabilities, p.class, 0.3)
	assert.Equal(t, exact.DecisionAt(examples.Test, 0.3), decide(0.3), "the decision at 0.3 by the sums, and by the rows")
	threshold, ok := sum.ThresholdOf(examples.Holdout, func(statistics.Decision) float64 { return 0 })
	assert.True(t, !ok && threshold == 0.5, "the threshold of no rows is %v", threshold)
}

// With very many classes there is no ranking, and with more yet no measure.
func TestRankingOfManyClasses(t *testing.T) {
	for k, want := range map[int]bool{maxRanked + 1: true, maxConfusionClasses + 1: false} {
		p := predictions(rand.New(rand.NewPCG(1, 1)), 50, k)
		sum := &Sum{}
		sum.AddRanking(p.Rows, p.probabilities, p.class, 0)
		sum.Pack()
		m := sum.MeasuresOf(examples.Train, k)
		assert.True(t, m.AUC == nil && m.BalancedError != nil == want, "%d classes have %v, %v", k, m.AUC, m.BalancedError)
	}
}
