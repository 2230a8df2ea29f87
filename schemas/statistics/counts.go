package statistics

import (
	"fmt"
	"strings"

	"github.com/stagewise/stagewise/schemas/wire"

	"github.com/apache/arrow/go/v17/arrow/memory"
)

// counted returns the number of leading columns of a tensor of statistics that are counts or sums of weights, and the
// length of its rows. These are never negative and can't overflow: no sum of float32 weights reaches maxCount. Losses
// can overflow, because scores can.
func counted(name string) (columns, of int) {
	switch strings.TrimPrefix(name, PartAverage+"/") {
	case FieldSplits: // errors of regression are distances, which overflow like losses
		return 2, LossFields
	case FieldConfusion, FieldClasses, FieldRanking, FieldDecided, FieldHits,
		FieldRanks, FieldPresent, FieldLabelRows, FieldOverflow, FieldForgotten, FieldGramRows:
		return 1, 1
	case FieldBins:
		return 1, 3
	case FieldOffered:
		return 1, 2
	}
	return 0, 1
}

// maxCount is above any sum of weights.
const maxCount = 1e100

func isCount(v float64) bool { return v >= 0 && v <= maxCount }

// Collector assembles records of statistics, and of the state of a chain, in double precision: records in single precision are widened.
// The zero value is ready to use. See [wire.Collector] for its memory.
type Collector struct {
	doubles wire.Collector[float64]
	singles wire.Collector[float32]
}

// Add adds a message. It returns the record if the message completes it, and otherwise nil. The error wraps [wire.ErrDamaged]. Invalid
// counts, such as NaN, are an error, as computations with them may not terminate, or have no JSON.
func (c *Collector) Add(m wire.Message, mem memory.Allocator) (*wire.Record[float64], error) {
	if wire.IsSingle(m) {
		r, err := c.singles.Add(m, mem)
		if err != nil || r == nil {
			return nil, err
		}
		return wire.Widened(r), nil
	}
	r, err := c.doubles.Add(m, mem)
	if err == nil && r != nil {
		err = checkCounts(r)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

func checkCounts(r *wire.Record[float64]) error {
	for _, tensor := range r.Tensors {
		columns, of := counted(tensor.Name)
		if columns == 0 {
			continue
		}
		if len(tensor.Text) > 0 {
			return fmt.Errorf("decode %v: %w: tensor %q has texts, expected numbers", r.Identity, wire.ErrDamaged, tensor.Name)
		}
		if tensor.Name == FieldOffered { // its other columns are the targets
			of = max(len(tensor.Data), 1)
		}
		for i, v := range tensor.Data {
			if i%of < columns && !isCount(v) {
				return fmt.Errorf("decode %v: %w: tensor %q has %v at %d, expected a count", r.Identity, wire.ErrDamaged, tensor.Name, v, i)
			}
		}
	}
	return nil
}

// check returns an error unless the sums are possible for rows.
func (s Losses) check() error {
	if !isCount(s.Weight) || !isCount(s.Rows) || !isCount(s.Errors) || s.Errors > s.Weight*(1+1e-9) {
		return fmt.Errorf("%v wrong of %v rows that weigh %v", s.Errors, s.Rows, s.Weight)
	}
	return nil
}
