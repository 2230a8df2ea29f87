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

// singleGram returns the Gram matrix in a record of single precision, in memory that get returns, with the weight of its rows.
func singleGram(r *wire.Record[float32], get func(size int) []float64) (*accumulate.Sum, error) {
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

// leavingSum gives the Gram matrix of a sum the name of that of rows that leave the window, whose weight the window has.
func leavingSum(sum *accumulate.Sum) {
	sum.Move(sum, statistics.FieldGram, statistics.FieldLeave)
	sum.Take(statistics.FieldGramRows)
}
