package pipeline

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Retraining is the report of a chain of runs.
type Retraining struct {
	Name    string                   `json:"name"`
	Updates []*schemas.RetrainReport `json:"updates"`
	// percent, of all rows that were scored before training; null if there are none
	PrequentialError *float64 `json:"prequential_error"`
	// Curve is the prequential error along the log, in at most 400 bins.
	Curve         []statistics.ErrorBin `json:"curve,omitempty"`
	Rows          int64                 `json:"rows"` // training rows
	Seconds       float64               `json:"seconds"`
	RowsPerSecond float64               `json:"rows_per_second"`
	WeightsDigest wire.Digest           `json:"weights_digest"` // of the last version
	// LostColumns are rows of the followed topic that were quarantined because they lack a column that earlier rows had, by column.
	LostColumns map[string]int64 `json:"lost_columns,omitempty"`
	// LostMessages are the offsets of the followed topic that were not read: deleted before, or missing in its archive.
	LostMessages int64 `json:"lost_messages,omitempty"`
	// Confusion is the confusion matrix of the predictions before training: by label, then by prediction. Labels are in order.
	Labels    examples.ClassLabels `json:"labels,omitempty"`
	Confusion [][]int64            `json:"prequential_confusion,omitempty"`

	scored, wrong float64
}

// curveBins is the maximum number of bins of a chain's curve.
const curveBins = 400

// add adds the report of a run.
func (r *Retraining) add(report *schemas.Report) {
	if report.Retrain == nil {
		return
	}
	u := *report.Retrain
	r.Curve = statistics.Shorten(append(r.Curve, u.Curve...), curveBins)
	u.Curve = nil // a chain may have any number of runs
	r.Updates = append(r.Updates, &u)
	r.Rows += u.Rows
	if u.PrequentialError != nil {
		r.scored += float64(u.Rows)
		r.wrong += float64(u.Rows) * *u.PrequentialError / 100
		e := 100 * r.wrong / max(r.scored, 1)
		r.PrequentialError = &e
		r.addConfusion(report.Labels, report.Splits[examples.Train.String()].Confusion)
	}
	r.WeightsDigest = report.WeightsDigest
}

// addConfusion adds a confusion matrix. A full run may add classes.
func (r *Retraining) addConfusion(labels []string, confusion [][]int64) {
	if confusion == nil {
		return
	}
	var at []int // indices of the labels among those of the chain
	for _, label := range labels {
		i, found := slices.BinarySearchFunc(r.Labels, label, compareLabels)
		if !found {
			r.Labels = slices.Insert(r.Labels, i, label)
			for j := range r.Confusion {
				r.Confusion[j] = slices.Insert(r.Confusion[j], i, 0)
			}
			r.Confusion = slices.Insert(r.Confusion, i, make([]int64, len(r.Labels)))
		}
	}
	for _, label := range labels {
		i, _ := slices.BinarySearchFunc(r.Labels, label, compareLabels)
		at = append(at, i)
	}
	for i, row := range confusion {
		for j, n := range row {
			r.Confusion[at[i]][at[j]] += n
		}
	}
}

// compareLabels orders labels: numbers by value, then words.
func compareLabels(a, b string) int {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	switch {
	case errX == nil && errY == nil:
		return cmp.Or(cmp.Compare(x, y), cmp.Compare(a, b))
	case errX == nil:
		return -1
	case errY == nil:
		return 1
	}
	return cmp.Compare(a, b)
}
