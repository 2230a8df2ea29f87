// Package oracle has reference implementations for tests, slow and plain: the definitions of kernels in float64, of
// hashed words, and of the leaves of rows in trees. Only tests import it.
//
//	definition, inputs ──▶ expected values
package oracle

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"

	"github.com/stagewise/stagewise/internal/kernel"
)

// Normals returns a rows × cols matrix of independent normal values with mean 0 and that standard deviation. The same seed
// gives the same values.
func Normals(seed uint64, rows, cols int, deviation float64) kernel.Dense {
	r, x := rand.New(rand.NewPCG(seed, 1)), kernel.NewDense(rows, cols)
	for i := range x.Data {
		x.Data[i] = float32(deviation * r.NormFloat64())
	}
	return x
}

// Wide returns a copy of a row in float64.
func Wide(row []float32) []float64 {
	out := make([]float64, len(row))
	for i, v := range row {
		out[i] = float64(v)
	}
	return out
}

// Simplex returns the point of the probability simplex that is nearest to v. It finds the threshold by bisection.
func Simplex(v []float64) []float64 {
	low, high := slices.Min(v)-1, slices.Max(v)
	for range 100 {
		middle, sum := (low+high)/2, 0.0
		for _, x := range v {
			sum += max(x-middle, 0)
		}
		if sum > 1 {
			low = middle
		} else {
			high = middle
		}
	}
	p := make([]float64, len(v))
	for c, x := range v {
		p[c] = max(x-low, 0)
	}
	return p
}

// HashedColumns returns how often each of so many columns counts for words and phrases: the column is the FNV-1a hash modulo their number.
func HashedColumns(columns int, phrases ...string) map[int32]float32 {
	counts := map[int32]float32{}
	for _, phrase := range phrases {
		h := fnv.New64a()
		h.Write([]byte(phrase))
		counts[int32(h.Sum64()%uint64(columns))]++
	}
	return counts
}
