package statistics

import (
	"fmt"
	"strings"

	"github.com/stagewise/stagewise/schemas/wire"
)

// counted says which values of a tensor of statistics are counts or sums of weights: those before a column, in rows of
// so many. What counts is never negative, and can't overflow: no sum of float32 weights reaches maxCount. Losses may,
// as scores overflow.
func counted(name string) (columns, of int) {
	switch strings.TrimPrefix(name, PartAverage+"/") {
	case FieldSplits: // how wrong numbers are is a distance, which overflows as losses do
		return 2, LossFields
	case FieldConfusion, FieldClasses, FieldRanking, FieldDecided, FieldHits,
		FieldRanks, FieldPresent, FieldLabelRows, FieldOverflow, FieldForgotten, FieldGramRows, FieldLeaveRows:
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

// CheckCounts returns an error for a record of statistics whose counts are none, as NaN: what is computed of them has
// no end, or no JSON. The error wraps [wire.ErrDamaged].
func CheckCounts(r *wire.Record[float64]) error {
	for _, tensor := range r.Tensors {
		columns, of := counted(tensor.Name)
		if columns == 0 {
			continue
		}
		if len(tensor.Text) > 0 {
			return fmt.Errorf("decode %v: %w: tensor %q has texts, expected numbers", r.Identity, wire.ErrDamaged, tensor.Name)
		}
		if tensor.Name == FieldOffered { // whose other columns are as many as the numbers that are predicted
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

// check returns an error unless the sums are such as rows have.
func (s Losses) check() error {
	if !isCount(s.Weight) || !isCount(s.Rows) || !isCount(s.Errors) || s.Errors > s.Weight*(1+1e-9) {
		return fmt.Errorf("%v wrong of %v rows that weigh %v", s.Errors, s.Rows, s.Weight)
	}
	return nil
}
