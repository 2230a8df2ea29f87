package accumulate

import (
	"slices"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// Tempered sums the losses of holdout rows at several temperatures. The zero value is ready. It is not safe for concurrent
// use.
type Tempered struct {
	truth     link.Truth
	weights   []float64
	scores    kernel.Dense
	tempered  kernel.Dense
	loss      []float32
	predicted []int32
	scratch   link.Scratch
}

// Add adds the losses of the labelled holdout rows among rows to a sum, at each of [link.Temperatures]. scores (n × k) are
// those that the predictions are made of.
func (t *Tempered) Add(sum *Sum, rows Rows, scores kernel.Dense, l link.Link) {
	t.take(rows, scores)
	n, temperatures := t.scores.Rows, link.Temperatures()
	sums := sum.Field(statistics.FieldTempered, len(temperatures))
	if n == 0 {
		return
	}
	t.loss, t.predicted = slices.Grow(t.loss[:0], n)[:n], slices.Grow(t.predicted[:0], n)[:n]
	for i, temperature := range temperatures {
		t.tempered.Reshape(n, t.scores.Cols)
		copy(t.tempered.Data, t.scores.Data)
		link.Temper(t.tempered, temperature)
		l.Measure(t.tempered, t.truth, t.loss, t.predicted, &t.scratch)
		for row, loss := range t.loss {
			sums[i] += t.weights[row] * float64(loss)
		}
	}
}

// take copies what it needs of the labelled holdout rows.
func (t *Tempered) take(rows Rows, scores kernel.Dense) {
	k := scores.Cols
	t.weights, t.scores.Data = t.weights[:0], t.scores.Data[:0]
	t.truth.Classes, t.truth.Targets.Data = t.truth.Classes[:0], t.truth.Targets.Data[:0]
	for i, class := range rows.Classes {
		if rows.Splits[i] != examples.Holdout || class < 0 || rows.Weights[i] == 0 {
			continue
		}
		t.weights, t.truth.Classes = append(t.weights, float64(rows.Weights[i])), append(t.truth.Classes, class)
		if t.scores.Data = append(t.scores.Data, scores.Row(i)...); rows.Targets.Rows > 0 {
			t.truth.Targets.Data = append(t.truth.Targets.Data, rows.Targets.Row(i)...)
		}
	}
	t.scores.Rows, t.scores.Cols = len(t.weights), k
	if t.truth.Targets.Rows, t.truth.Targets.Cols = 0, k; rows.Targets.Rows > 0 {
		t.truth.Targets.Rows = len(t.weights)
	}
}

// TemperedOf returns the temperature with the lowest loss of the holdout rows, and the loss, from the sums of
// [Tempered.Add] and AddLosses; false without such sums.
func (s *Sum) TemperedOf() (temperature, loss float64, ok bool) {
	temperatures, weight := link.Temperatures(), statistics.LossesOf(s.fields)[examples.Holdout].Weight
	sums, err := s.Tensors().Shaped(statistics.FieldTempered, len(temperatures))
	if err != nil || weight == 0 {
		return 0, 0, false
	}
	least := slices.Min(sums)
	at := slices.Index(sums, least)
	if at < 0 { // scores that have overflown give losses that are no numbers
		return 0, 0, false
	}
	return temperatures[at], least / weight, true
}
