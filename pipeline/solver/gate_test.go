package solver

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/schemas"
)

// predictions is a version for two classes: its logits are the true ones plus a linear function of the row with the given length.
type gatePredictions struct {
	direction [8]float64
}

func newPredictions(r *rand.Rand, length float64) (p gatePredictions) {
	norm := 0.0
	for i := range p.direction {
		p.direction[i] = r.NormFloat64()
		norm += p.direction[i] * p.direction[i]
	}
	for i := range p.direction {
		p.direction[i] *= length / math.Sqrt(norm)
	}
	return p
}

// loss returns the log loss of a row, given its true logit and its label.
func (p gatePredictions) loss(x [8]float64, logit float64, positive bool) float64 {
	for i, v := range x {
		logit += p.direction[i] * v
	}
	if positive {
		logit = -logit
	}
	return math.Log1p(math.Exp(logit))
}

// compared compares two versions on new rows of the newest increment, and of others.
func compared(r *rand.Rand, newest, revisited int, offered, made gatePredictions) *gateComparison {
	return compareGroups(predicted(r, newest, offered, made), predicted(r, revisited, offered, made))
}

// predicted returns the groups of new rows.
func predicted(r *rand.Rand, rows int, offered, made gatePredictions) []gateGroup {
	var before, after [2 * schemas.GateGroups]float64
	for row := range rows {
		var x [8]float64
		logit := 1.0
		for i := range x {
			x[i] = r.NormFloat64()
			logit += x[i] * 0.9
		}
		positive := r.Float64() < 1/(1+math.Exp(-logit))
		g := 2 * schemas.GateGroup(int64(row/64), row%64)
		for _, of := range []struct {
			sums *[2 * schemas.GateGroups]float64
			gatePredictions
		}{{&before, offered}, {&after, made}} {
			of.sums[g]++
			of.sums[g+1] += of.loss(x, logit, positive)
		}
	}
	return newestGroups(before[:], after[:])
}

// The gate withholds by chance at most one of 50 versions that are as good as the offered one, with any number of rows, and at least 45 of
// 50 that are worse by a tenth of their loss, with 1,000 rows: of the newest increment, or also of revisited ones.
func TestGateWithholdsBeyondChance(t *testing.T) {
	if testing.Short() {
		t.Skip("long: with -short, shorter tests start the same goroutines")
	}
	const chains, versions, margin = 8, 50, 0.002
	for _, rows := range []int{5, 30, 100, 200, 1000, 4000} {
		for _, others := range []int{0, 4} {
			withheld := 0
			for seed := range uint64(chains) {
				r := rand.New(rand.NewPCG(seed, uint64(rows)))
				offered := newPredictions(r, 0.3)
				for range versions {
					made := newPredictions(r, 0.3)
					if compared(r, rows, others*rows, offered, made).worse(margin) {
						withheld++
					} else {
						offered = made
					}
				}
			}
			assert.True(t, withheld <= chains,
				"%d rows and %d others: %d of %d versions are withheld that are as good", rows, others*rows, withheld, chains*versions)
		}
	}
	for newest, revisited := range map[int]int{1000: 0, 200: 800, 100: 900} {
		withheld, worse := 0, 0.0
		for seed := range uint64(chains) {
			r := rand.New(rand.NewPCG(seed, 17))
			offered := newPredictions(r, 0.1)
			for range versions {
				c := compared(r, newest, revisited, offered, newPredictions(r, 0.83))
				if worse += (c.made - c.offered) / c.offered / (chains * versions); c.worse(margin) {
					withheld++
				}
			}
		}
		assert.Near(t, worse, 0.1, 0.005, "the share of their loss by which the versions are worse")
		assert.True(t, withheld >= chains*45,
			"%d rows and %d others: %d of %d versions are withheld that are worse by a tenth", newest, revisited, withheld, chains*versions)
	}
}

// Rows of older increments are ignored if the version is better on the newest ones.
func TestGateOffersWhatTheNewestRowsFindBetter(t *testing.T) {
	older := []gateGroup{{50, 10, 30}, {50, 11, 29}, {50, 9, 31}, {50, 10, 30}}
	for name, test := range map[string]struct {
		newest []gateGroup
		worse  bool
	}{
		"worse":                            {[]gateGroup{{10, 4, 6}, {10, 5, 6}}, true},
		"better by less than chance makes": {[]gateGroup{{10, 4, 6}, {10, 7, 4}}, true},
		"better":                           {[]gateGroup{{10, 6, 3}, {10, 6, 2}}, false},
	} {
		c := compareGroups(test.newest, older)
		assert.True(t, c.worse(0.002) == test.worse, "%s: worse is %v: %+v", name, !test.worse, c)
	}
	c := compareGroups(nil, older)
	assert.True(t, c == nil, "without rows of the newest increment: %+v", c)
}

// The standard error is that of the paired differences: for similar versions it is far below that of a loss.
func TestComparison(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	offered, made := newPredictions(r, 0.1), newPredictions(r, 0.15)
	var deviations, differences []float64
	for range 400 {
		c := compared(r, 100, 400, offered, made)
		deviations, differences = append(deviations, c.deviation), append(differences, c.made-c.offered)
	}
	mean, squares := 0.0, 0.0
	for i := range differences {
		mean += differences[i] / float64(len(differences))
		squares += deviations[i] * deviations[i] / float64(len(deviations))
	}
	variance := 0.0
	for _, d := range differences {
		variance += (d - mean) * (d - mean) / float64(len(differences)-1)
	}
	ratio := math.Sqrt(squares / variance)
	assert.True(t, ratio >= 0.9 && ratio <= 1.1, "standard errors are %v times the spread of the differences", ratio)

	nan := math.NaN()
	for name, test := range map[string]struct {
		offered, made []float64
		worse, good   bool
	}{
		"no rows":                     {[]float64{0, 0, 0, 0}, []float64{0, 0, 0, 0}, false, false},
		"the same":                    {[]float64{2, 1, 3, 2}, []float64{2, 1, 3, 2}, false, true},
		"worse in each group":         {[]float64{2, 1, 3, 2}, []float64{2, 3, 3, 5}, true, false},
		"worse in one group alone":    {[]float64{2, 1, 0, 0}, []float64{2, 9, 0, 0}, false, false},
		"worse by chance":             {[]float64{2, 1, 2, 1}, []float64{2, 9, 2, 0}, false, false},
		"rows that only one measured": {[]float64{2, 1, 3, 2}, []float64{3, 9, 3, 1}, false, true},
		"a loss that overflows":       {[]float64{2, 1, 3, 2}, []float64{2, nan, 3, 2}, true, false},
		"the offered one's overflows": {[]float64{2, nan, 3, 2}, []float64{2, 1, 3, 2}, false, false},
	} {
		c := compareGroups(newestGroups(test.offered, test.made), nil)
		assert.Equal(t, c.worse(0), test.worse, "%s: worse", name)
		assert.Equal(t, c.good(0), test.good, "%s: good", name)
	}
}
