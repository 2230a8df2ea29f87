package visit

import (
	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/sink"
)

// ReadTargets returns the raw targets of a message's rows (n × k), and marks rows without targets as unlabelled.
func ReadTargets(plan *schemas.Plan, batch *examples.Batch, rows accumulate.Rows) ([]float64, error) {
	targets, known := make([]float64, batch.Rows*len(plan.Targets)), make([]bool, batch.Rows)
	if err := batch.Targets(targets, known, plan.Targets); err != nil {
		return nil, err
	}
	for i := range rows.Classes {
		if rows.Classes[i] = 0; !known[i] {
			rows.Classes[i] = examples.Unlabelled
		}
	}
	return targets, nil
}

// standardizer is a preparation or a model with standardised targets.
type standardizer interface {
	Standardize(dst kernel.Dense, targets []float64)
}

// standardizeTargets returns targets (n × k) in the units of by's stages, and the rows in which they overflow and are set to 0.
func standardizeTargets(by standardizer, targets []float64, k int) (dst kernel.Dense, overflowed []int) {
	dst = kernel.NewDense(len(targets)/k, k)
	by.Standardize(dst, targets)
	return dst, sink.TakeBack(dst, kernel.NewDense(dst.Rows, k))
}

// readLabelSets finds the label sets of a message's rows (n × k). Unknown labels are handled as in readLabels.
func readLabelSets(open bool, batch *examples.Batch, rows *accumulate.Rows, labels *examples.Labels, unknown func(label string)) error {
	rows.Targets = kernel.NewDense(batch.Rows, labels.Len())
	return batch.LabelSets(rows.Targets.Data, rows.Classes, labels, unknownLabel(open, unknown))
}

// readLabels finds the classes of a message's rows, or marks rows as unlabelled. If open, as in a chain that may learn further
// labels, unknown is called with each label that is not a class. Otherwise such a label is an error.
func readLabels(open bool, batch *examples.Batch, rows accumulate.Rows, labels *examples.Labels, unknown func(label string)) error {
	return batch.Classes(rows.Classes, labels, unknownLabel(open, unknown))
}

// unknownLabel returns the function that readLabels calls for labels that are not classes.
func unknownLabel(open bool, unknown func(label string)) func(row int, label string) error {
	if !open {
		return examples.UnknownLabel
	}
	return func(_ int, label string) error {
		unknown(label)
		return nil
	}
}
