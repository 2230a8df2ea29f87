package worker

import (
	"errors"
	"fmt"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
)

// shape is what the rows of a run have in common.
type shape struct {
	sparse bool
	width  int // of dense rows
}

// decode reads an accepted examples message of a partition for a run whose rows have that shape; nil if it is not known yet. Of forgotten rows it
// leaves no value. The caller releases the examples.
func decode(c run.Codec, plan *schemas.Plan, forgotten schemas.Forgotten, number int, m partition.Message, rows *shape) (*schemas.Examples, error) {
	examples, err := c.DecodeExamples(m.Value)
	if err != nil {
		return nil, err
	}
	if err := checkExamples(plan, examples, rows); err != nil {
		examples.Release()
		return nil, err
	}
	return examples.Without(forgotten, number, m.Offset), nil
}

// checkExamples returns why a run can't use examples, or nil.
func checkExamples(plan *schemas.Plan, examples *schemas.Examples, rows *shape) error {
	switch {
	case examples.Sparse && plan.Chain != nil:
		return errSparse
	case examples.HasLists() && plan.Task() == schemas.OneLabel:
		return schemas.LabelListError{}
	case rows != nil && examples.Sparse != rows.sparse:
		kinds := map[bool]string{false: "dense", true: "sparse"}
		return fmt.Errorf("%w: %s rows, the first message of the run has %s ones", schemas.ErrDamaged, kinds[examples.Sparse], kinds[rows.sparse])
	case examples.Sparse && examples.Width > schemas.MaxColumns:
		return fmt.Errorf("%w: index %d: expected at most %d", schemas.ErrDamaged, examples.Width-1, schemas.MaxColumns-1)
	case examples.Sparse:
		return nil
	case examples.Width == 0:
		return fmt.Errorf("%w: examples without features", schemas.ErrDamaged)
	case rows != nil && examples.Width != rows.width:
		return fmt.Errorf("%w: %d features, the first message of the run has %d", schemas.ErrDamaged, examples.Width, rows.width)
	case plan.Missing != ingest.MissingMean && examples.Missing():
		return fmt.Errorf("%w: a feature is missing (examples.missing: error)", schemas.ErrDamaged)
	}
	return nil
}

// errSparse says what this program can't do yet. The data is not at fault, so it ends the run.
var errSparse = errors.New("a chain of updates can't be trained on sparse rows yet: `train` can")

// concernsRun reports whether an error about a message ends the whole run. Other errors put the message into quarantine.
func concernsRun(err error) bool {
	return errors.Is(err, errSparse) || errors.As(err, &schemas.LabelListError{})
}

// features writes the features of examples (n × width) into dst, which it reshapes.
func features(dst *kernel.Dense, examples *schemas.Examples, width int) {
	dst.Reshape(examples.Rows, width)
	if bytes := examples.Bytes(); bytes != nil {
		kernel.FromBytes(dst.Data, bytes)
		return
	}
	examples.Features(dst.Data, width)
}

// readFeatures reads the features of dense examples into dense (n × width), those of sparse ones into sparse.
func readFeatures(dense *kernel.Dense, sparse *schemas.SparseRows, examples *schemas.Examples) {
	if examples.Sparse {
		examples.SparseFeatures(sparse)
		return
	}
	features(dense, examples, examples.Width)
}

// rowsOf returns the weights and splits of a message's n rows, with memory for their classes, and the weights with which the rows
// are fitted (n): 0 for those that are not for training. number is the message's partition.
func rowsOf(plan *schemas.Plan, number int, offset int64, examples *schemas.Examples) (rows accumulate.Rows, fitted []float32) {
	n := examples.Rows
	rows = accumulate.Rows{Truth: link.Truth{Classes: make([]int32, n)}, Task: plan.Task(), Weights: make([]float32, n), Splits: make([]schemas.Split, n)}
	fitted = make([]float32, n)
	for i := range n {
		rows.Weights[i], rows.Splits[i] = examples.Weight(i), examples.Split(i)
		if rows.Splits[i] == schemas.Train && isHeldOut(plan, number, offset, i) {
			rows.Splits[i] = schemas.Holdout
		}
		if rows.Splits[i] == schemas.Train {
			fitted[i] = rows.Weights[i]
		}
	}
	return rows, fitted
}

// isHeldOut reports whether a training row belongs to the holdout: its hash, as a fraction of 2^64, is below the fraction that
// the plan holds out.
func isHeldOut(plan *schemas.Plan, number int, offset int64, row int) bool {
	if plan.Holdout == 0 {
		return false
	}
	hash := schemas.Hash(plan.Seed, holdoutPurpose, uint64(number), uint64(offset), uint64(row))
	return float64(hash>>11)/(1<<53) < plan.Holdout
}

// holdoutPurpose keeps the choice of the holdout apart from the survey's sample.
const holdoutPurpose = 1
