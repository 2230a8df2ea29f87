package compare

import (
	"cmp"
	"math"
	"slices"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// Order sorts runs by a measure of the rows of a split.
type Order struct {
	Split string // "": the first of holdout, test and train rows that a run has
	By    string // one of [Orders]; "": the first
}

// orders are the measures that runs may be sorted by, with their names in tables.
var orders = []struct {
	name, words string
	value       func(s schemas.SplitReport) *float64
	sign        float64 // −1: the greatest is the best
}{
	{"error", "error", func(s schemas.SplitReport) *float64 { return &s.Error }, 1},
	// Predictions of numbers have no log loss. They are sorted by the loss of the last stage.
	{"loss", "log loss", func(s schemas.SplitReport) *float64 { return cmp.Or(s.LogLoss, &s.Loss) }, 1},
	{"auc", "AUC", func(s schemas.SplitReport) *float64 { return s.AUC }, -1},
	{"average_precision", "average precision", func(s schemas.SplitReport) *float64 { return s.AveragePrecision }, -1},
	{"balanced_error", "balanced error", func(s schemas.SplitReport) *float64 { return s.BalancedError }, 1},
}

// Orders returns the measures that runs may be sorted by: error, loss, and those that only rows of one label have.
func Orders() (names []string) {
	for _, o := range orders {
		names = append(names, o.name)
	}
	return names
}

// OfEveryTask reports whether predictions of every task have a measure.
func OfEveryTask(by string) bool { return by == orders[0].name || by == orders[1].name }

// at returns the index of the order's measure in orders.
func (o Order) at() int { return max(slices.Index(Orders(), o.By), 0) }

// Measure returns the name of the order's measure in tables.
func (o Order) Measure() string { return orders[o.at()].words }

// Text returns the measure of a report's rows, of the order's split, or None.
func (o Order) Text(r *schemas.Report) string {
	if r == nil || r.Splits[o.Split].Rows == 0 {
		return None
	}
	if v := orders[o.at()].value(r.Splits[o.Split]); v != nil {
		return number(*v)
	}
	return None
}

// Words describes an order.
func (o Order) Words(runs []Run) string { return o.Measure() + " of the " + o.split(runs) + " rows" }

// split returns the split of an order, given the runs.
func (o Order) split(runs []Run) string {
	if o.Split != "" {
		return o.Split
	}
	for _, split := range []examples.Split{examples.Holdout, examples.Test} {
		for _, r := range runs {
			if r.Report != nil && r.Report.Splits[split.String()].Rows > 0 {
				return split.String()
			}
		}
	}
	return examples.Train.String()
}

// key returns the measures by which a run is sorted, the least first: the order's own, and another one for runs that have the same. They
// are infinite without rows.
func (o Order) key(r Run, split string) (key [2]float64) {
	others := [2]int{o.at(), 1}
	if o.at() == 1 {
		others[1] = 0
	}
	for i, at := range others {
		key[i] = math.Inf(1)
		if r.Report == nil || r.Report.Splits[split].Rows == 0 {
			continue
		}
		if v := orders[at].value(r.Report.Splits[split]); v != nil {
			key[i] = orders[at].sign * *v
		}
	}
	return key
}

// Ranks returns the indices of runs, the best first, and those without predictions last.
func (o Order) Ranks(runs []Run) (ranks []int) {
	keys, split := make([][2]float64, len(runs)), o.split(runs)
	for i, r := range runs {
		ranks, keys[i] = append(ranks, i), o.key(r, split)
	}
	slices.SortStableFunc(ranks, func(a, b int) int { return slices.Compare(keys[a][:], keys[b][:]) })
	return ranks
}

// Best returns the index of the run with the best predictions, the first of several; −1 if no run has predictions.
func (o Order) Best(runs []Run) int {
	if ranks := o.Ranks(runs); len(ranks) > 0 && !math.IsInf(o.key(runs[ranks[0]], o.split(runs))[0], 1) {
		return ranks[0]
	}
	return -1
}

// Sorted returns runs by their ranks.
func (o Order) Sorted(runs []Run) (sorted []Run) {
	for _, i := range o.Ranks(runs) {
		sorted = append(sorted, runs[i])
	}
	return sorted
}
