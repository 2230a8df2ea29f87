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

// orders are the measures that runs may be sorted by, as people name them and as tables do.
var orders = []struct {
	name, words string
	value       func(s schemas.SplitReport) *float64
	descending  bool // the greatest is the best
}{
	{"error", "error", func(s schemas.SplitReport) *float64 { return &s.Error }, false},
	{"loss", "log loss", func(s schemas.SplitReport) *float64 {
		if s.LogLoss != nil {
			return s.LogLoss
		}
		return &s.Loss // of numbers, which have no log loss, what the last stage minimises
	}, false},
	{"auc", "AUC", func(s schemas.SplitReport) *float64 { return s.AUC }, true},
	{"average_precision", "average precision", func(s schemas.SplitReport) *float64 { return s.AveragePrecision }, true},
	{"balanced_error", "balanced error", func(s schemas.SplitReport) *float64 { return s.BalancedError }, false},
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

// at returns the place of the order's measure among all.
func (o Order) at() int {
	return max(slices.Index(Orders(), o.By), 0)
}

// Measure returns what tables call the order's measure.
func (o Order) Measure() string { return orders[o.at()].words }

// Text returns the measure of the rows of a report, of the order's split, or None.
func (o Order) Text(r *schemas.Report) string {
	if r != nil {
		if v := orders[o.at()].value(r.Splits[o.Split]); v != nil && r.Splits[o.Split].Rows > 0 {
			return number(*v)
		}
	}
	return None
}

// value returns the measure of rows, the least of which is the best; false: they have none.
func (o Order) value(s schemas.SplitReport) (float64, bool) {
	by := orders[o.at()]
	v := by.value(s)
	switch {
	case v == nil:
		return math.Inf(1), false
	case by.descending:
		return -*v, true
	}
	return *v, true
}

// Best returns which of runs has the best predictions, the first of several; −1: none has any.
func (o Order) Best(runs []Run) int {
	if ranks := o.Ranks(runs); len(ranks) > 0 && o.any(runs[ranks[0]], o.split(runs)) {
		return ranks[0]
	}
	return -1
}

// Ranks returns the indices of runs, the best first, and those without predictions last.
func (o Order) Ranks(runs []Run) []int {
	split := o.split(runs)
	ranks := make([]int, len(runs))
	for i := range ranks {
		ranks[i] = i
	}
	slices.SortStableFunc(ranks, func(a, b int) int {
		first, second := o.measures(runs[a], split)
		than, then := o.measures(runs[b], split)
		return cmp.Or(cmp.Compare(first, than), cmp.Compare(second, then))
	})
	return ranks
}

// Words describes an order.
func (o Order) Words(runs []Run) string {
	return o.Measure() + " of the " + o.split(runs) + " rows"
}

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

// Sorted returns runs by their ranks.
func (o Order) Sorted(runs []Run) (sorted []Run) {
	for _, i := range o.Ranks(runs) {
		sorted = append(sorted, runs[i])
	}
	return sorted
}

// any reports whether a run has predictions of a split.
func (o Order) any(r Run, split string) bool {
	first, _ := o.measures(r, split)
	return !math.IsInf(first, 1)
}

// measures returns what a run is sorted by; infinite if it has no such rows.
func (o Order) measures(r Run, split string) (first, second float64) {
	if r.Report == nil {
		return math.Inf(1), math.Inf(1)
	}
	s, any := r.Report.Splits[split]
	if !any || s.Rows == 0 {
		return math.Inf(1), math.Inf(1)
	}
	first, _ = o.value(s)
	then := Order{By: "loss"} // of runs that have the same
	if o.By == then.By {
		then.By = "error"
	}
	second, _ = then.value(s)
	return first, second
}
