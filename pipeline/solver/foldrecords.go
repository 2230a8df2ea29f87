package solver

import (
	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// exactGram returns the Gram matrix in a record of double precision, with the weight of its rows.
func exactGram(r *wire.Record[float64]) (*accumulate.Sum, error) {
	g, err := statistics.ExactGramOf(r)
	if err != nil {
		return nil, err
	}
	return sumOf(g), nil
}

// singleGram returns the Gram matrix in a record of single precision, in memory that get returns, or its rows, with their weight.
func singleGram(r *wire.Record[float32], get func(size int) []float64) (*accumulate.Sum, error) {
	if r.Kind != statistics.KindGram {
		rows, err := statistics.GramRowsOf(r)
		return accumulate.NewSum(coverage.Coverage{}, rows), err
	}
	g, err := statistics.BlockGramOf(r, get)
	if err != nil {
		return nil, err
	}
	return sumOf(g), nil
}

func sumOf(g *statistics.Gram) *accumulate.Sum {
	weight := wire.Vector(statistics.FieldGramRows, []float64{g.Weight})
	return accumulate.NewSum(coverage.Coverage{}, append(g.Fields(), weight))
}

// negateSum gives the fields of a Gram matrix, or of rows, the names of those that leave the window.
func negateSum(sum *accumulate.Sum) {
	sum.Move(sum, statistics.FieldGram, statistics.FieldLeave)
	sum.Take(statistics.FieldGramRows)
	sum.Move(sum, statistics.FieldGramBatches, statistics.FieldLeaveBatches)
	sum.Move(sum, statistics.FieldGramBlock, statistics.FieldLeaveBlock)
}

// addGrams adds the Gram matrices of the new rows and of the leaving rows in a sum. leaving has the weights of their increments.
func addGrams(sum *accumulate.Sum, of *accumulate.GramOfRows, leaving []float64) error {
	added := sum.TakeGramRows(statistics.FieldGramBatches, statistics.FieldGramBlock)
	gram, err := of.Sum(added.Tensors(), nil)
	if err != nil {
		return err
	}
	sum.Move(gram, statistics.FieldGram, statistics.FieldGram)
	left := sum.TakeGramRows(statistics.FieldLeaveBatches, statistics.FieldLeaveBlock)
	if gram, err = of.Sum(left.Tensors(), leaving); err != nil {
		return err
	}
	sum.Move(gram, statistics.FieldGram, statistics.FieldLeave)
	return nil
}
