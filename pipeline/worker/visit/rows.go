package visit

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/sink"
	"github.com/stagewise/stagewise/stages"
)

// rowShape is the common properties of a run's rows.
type rowShape struct {
	Sparse  bool
	Width   int              // of dense rows
	Columns examples.Columns // of the features, with the offsets of the run; nil: unknown
}

// decode decodes an accepted examples message of a partition for a run with rows of the given shape; nil if it is not known
// yet. It clears the values of forgotten rows.
func (r *Run) decode(forgotten coverage.Forgotten, number int, m protocol.Message, rows *rowShape) (*examples.Rows, error) {
	examples, err := examples.Decode(m.Value, r.Memory)
	if err != nil {
		return nil, err
	}
	if err := checkExamples(r.Plan, examples, rows); err != nil {
		return nil, err
	}
	if rows != nil {
		if err := examples.Align(rows.Columns); err != nil {
			return nil, err
		}
	}
	return examples.MissLabels(r.noLabels).Without(forgotten, number, m.Offset), nil
}

// checkExamples returns the reason why a run can't use examples, or nil.
func checkExamples(plan *schemas.Plan, batch *examples.Rows, rows *rowShape) error {
	sparse := batch.Sparse != nil
	switch {
	case sparse && plan.Chain != nil && len(model.CheckOccurring(plan.Stages)) > 0:
		return model.CheckOccurring(plan.Stages)[0]
	case batch.HasLists() && plan.Task() == examples.OneLabel:
		return examples.ErrLabelLists
	case rows != nil && sparse != rows.Sparse:
		kinds := map[bool]string{false: "dense", true: "sparse"}
		return fmt.Errorf("%w: %s rows, the first message of the run has %s ones", wire.ErrDamaged, kinds[sparse], kinds[rows.Sparse])
	case sparse && batch.Cols > examples.MaxColumns:
		return fmt.Errorf("%w: index %d: expected at most %d", wire.ErrDamaged, batch.Cols-1, examples.MaxColumns-1)
	case sparse && !(plan.Missing != layout.MissingMean && batch.Missing()):
		return nil
	case batch.Cols == 0:
		return fmt.Errorf("%w: examples without features", wire.ErrDamaged)
	case rows != nil && !sparse && batch.Cols != rows.Width:
		return fmt.Errorf("%w: %d features, the first message of the run has %d", wire.ErrDamaged, batch.Cols, rows.Width)
	case plan.Missing != layout.MissingMean && batch.Missing():
		return fmt.Errorf("%w: a feature is missing (examples.missing: error)", wire.ErrDamaged)
	}
	return nil
}

// concernsRun reports whether an error in a message ends the run. On other errors the message is quarantined.
func concernsRun(err error) bool {
	return errors.Is(err, examples.ErrLabelLists) || errors.As(err, &option.Problem{})
}

// readFeatures copies the features of dense examples to x (n × width).
func readFeatures(x *kernel.Dense, examples *examples.Rows) {
	if examples.Sparse == nil {
		x.Reshape(examples.Rows, examples.Cols)
		examples.Features(x.Data, examples.Cols)
	}
}

// RowsOf returns the weights and splits of a message's n rows, with space for their classes. number is the message's partition.
func RowsOf(plan *schemas.Plan, number int, offset int64, batch *examples.Rows) accumulate.Rows {
	n := batch.Rows
	rows := accumulate.Rows{Truth: link.Truth{Classes: make([]int32, n)}, Task: plan.Task(), Weights: make([]float32, n),
		Splits: make([]examples.Split, n), Fitted: make([]float32, n)}
	for i := range n {
		rows.Weights[i], rows.Splits[i] = batch.Weight(i), batch.Split(i)
		if rows.Splits[i] == examples.Train && isHeldOut(plan, number, offset, i) {
			rows.Splits[i] = examples.Holdout
		}
		if rows.Splits[i] == examples.Train {
			rows.Fitted[i] = rows.Weights[i]
		}
	}
	return rows
}

// isHeldOut reports whether a training row belongs to the holdout: its hash, as a fraction of 2^64, is below the plan's
// holdout fraction, or in the fold.
func isHeldOut(plan *schemas.Plan, number int, offset int64, row int) bool {
	if plan.Holdout == 0 {
		return false
	}
	hash := wire.Hash(plan.Seed, holdoutPurpose, uint64(number), uint64(offset), uint64(row))
	if plan.Fold != (examples.Fold{}) {
		return plan.Fold.Has(hash)
	}
	return float64(hash>>11)/(1<<53) < plan.Holdout
}

// holdoutPurpose makes the hashes of the holdout independent of those of the survey's sample.
const holdoutPurpose = 1

// ReadTargets returns the raw targets of a message's rows (n × k), and marks rows without targets as unlabelled.
func ReadTargets(plan *schemas.Plan, batch *examples.Rows, rows accumulate.Rows) ([]float64, error) {
	targets, known := make([]float64, batch.Rows*len(plan.Targets)), make([]bool, batch.Rows)
	if err := batch.CopyTargets(targets, known, plan.Targets); err != nil {
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

// readTruth returns the raw targets of a message's rows, or sets their classes or sets of labels, unless labels is nil. It marks rows
// without any as unlabelled. If open, as in a chain that may learn further labels, unknown is called with each label that is not a class.
// Otherwise such a label is an error.
func readTruth(plan *schemas.Plan, open bool, batch *examples.Rows, rows *accumulate.Rows, labels *examples.Labels,
	unknown func(label string)) (numbers []float64, err error) {
	switch {
	case plan.Task() == examples.Numbers:
		return ReadTargets(plan, batch, *rows)
	case labels == nil:
		return nil, nil
	}
	other := examples.UnknownLabel
	if open {
		other = func(_ int, label string) error {
			unknown(label)
			return nil
		}
	}
	if plan.Task() == examples.SeveralLabels {
		rows.Targets = kernel.NewDense(batch.Rows, labels.Len())
		return nil, batch.LabelSets(rows.Targets.Data, rows.Classes, labels, other)
	}
	return nil, batch.Classes(rows.Classes, labels, other)
}

// augment adds the plan's augmented training rows to a batch, after the rows of the message, and their raw features to
// raw. A row and its variants share its weight, so that sums over the rows are means over the variants of an image.
func (p *Processor) augment(b *Batch, raw *kernel.Dense) {
	variants, image := stages.Variants(p.Plan.Augment), p.visit.prepared.Image
	if len(variants) == 0 {
		return
	}
	share := float32(1) / float32(1+len(variants))
	for i := range b.Examples {
		if b.Fitted[i] == 0 {
			continue
		}
		b.Weights[i] *= share
		b.Fitted[i] *= share
		for range variants {
			b.Repeat(i)
		}
	}
	all, at := kernel.NewDense(len(b.Fitted), raw.Cols), b.Examples
	copy(all.Data, raw.Data)
	for i := range b.Examples {
		if b.Fitted[i] == 0 {
			continue
		}
		for _, v := range variants {
			v.Of(all.Row(at), raw.Row(i), image)
			at++
		}
	}
	*raw = all
}

// A row that overflows would make shared sums infinite. So it is treated as unlabelled: its message counts, but the row is
// not trained on. Whether a row overflows depends on the plan, the row and the survey's result, so each visit finds the
// same rows as the survey.
//
// The survey of a full run only checks features. If the inputs of a row overflow during preparation, each visit excludes
// the row. If its features of a stage overflow, they are set to 0: see [stages.Map.Expand]. If a score overflows, it keeps
// its value from before the stage: see [sink.TakeBack]. The survey of an update checks all of these.

// maxWeight is the maximum weight of a row: a tile of the Gram matrix has its product with the square of an input.
const maxWeight = 1 << 63

// named lists things in a reason: the first three, and the number of others.
func named(all []string) string {
	const most = 3
	if more := len(all) - most; more > 0 {
		all = append(slices.Clone(all[:most]), fmt.Sprintf("%d more", more))
	}
	return english.WordSeries(all, "and")
}

// overflowError returns the error for rows of a message that overflow, with the first ones. what is the overflowing quantity: "features".
func overflowError(what string, rows []int) error {
	var list []string
	for _, row := range rows {
		list = append(list, strconv.Itoa(row))
	}
	return fmt.Errorf("%s %s %s left out: the %s overflow", english.PluralWord(len(rows), "row", ""), named(list),
		english.PluralWord(len(rows), "is", "are"), what)
}

// Overflows finds rows that overflow. It keeps its memory between messages. The zero value is ready; it is not safe for concurrent use.
type Overflows struct {
	x kernel.Dense
}

// In returns the rows of a message whose features or weight overflow, when prepared with p.
func (o *Overflows) In(p schemas.Prepare, batch *examples.Rows) []int {
	if !batch.AreBytes() { // which need not be read
		readFeatures(&o.x, batch)
	}
	return overflowing(p, batch, o.x)
}

// overflowing is [Overflows.In] for dense features that are already in x.
func overflowing(p schemas.Prepare, examples *examples.Rows, x kernel.Dense) (rows []int) {
	for i := range examples.Rows {
		var values []float32 // bytes can't overflow
		switch {
		case examples.Sparse != nil:
			_, values = examples.Sparse.Row(i)
		case !examples.AreBytes():
			values = x.Row(i)
		}
		if stages.Overflows(p, values) || examples.Weight(i) > maxWeight {
			rows = append(rows, i)
		}
	}
	return rows
}

// leaveOutOverflows removes the labels of overflowing rows, and returns the rows. The features are as in overflowing.
func leaveOutOverflows(plan *schemas.Plan, examples *examples.Rows, x kernel.Dense) []int {
	rows := overflowing(plan.Prepare, examples, x)
	for _, i := range rows {
		examples.Unlabel(i)
	}
	return rows
}

// leaveOut treats overflowing rows of the current message as unlabelled, and records them. The error is that of
// noteOverflow.
func (p *surveyor) leaveOut(what string, overflowing []int, rows accumulate.Rows) error {
	for _, i := range overflowing {
		rows.Classes[i] = examples.Unlabelled
	}
	return p.noteOverflow(what, overflowing)
}

// noteOverflow records overflowing rows of the current message. It returns an error if the run is configured to stop at
// them.
func (p *surveyor) noteOverflow(what string, rows []int) error {
	rows = slices.DeleteFunc(slices.Clone(rows), func(row int) bool { return slices.Contains(p.leftOut, row) })
	if len(rows) == 0 {
		return nil
	}
	err := overflowError(what, rows)
	if p.Plan.OnBadMessage == schemas.StopOnBadMessage {
		return err
	}
	p.leftOut, p.reasons = append(p.leftOut, rows...), append(p.reasons, err.Error())
	p.found.PassedOver.Count(coverage.Overflowing, int64(len(rows)))
	return nil
}
