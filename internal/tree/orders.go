package tree

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// Codes is the number of different codes.
const Codes = 256

// Orders are what nodes compare: first the columns of numbers, in the order of their codes, then columns of words, in
// the order of the ranks of their codes. The zero value has none.
type Orders struct {
	// Columns is the column of each order.
	Columns []int32
	// Ranks are the ranks of the codes, [Codes] for each of the last len(Ranks)/Codes orders.
	Ranks []uint8
}

// Numbers returns the number of orders without ranks, which come first: those of columns of numbers.
func (o Orders) Numbers() int { return len(o.Columns) - len(o.Ranks)/Codes }

// Rank returns the rank of a code in an order.
func (o Orders) Rank(order int, code uint8) uint8 {
	if ranks := o.RanksOf(order); ranks != nil {
		return ranks[code]
	}
	return code
}

// RanksOf returns the ranks of the codes in an order; nil: each code is its own rank.
func (o Orders) RanksOf(order int) []uint8 {
	if order -= o.Numbers(); order < 0 {
		return nil
	}
	return o.Ranks[order*Codes:][:Codes]
}

// shrinkage is added to the curvature of a word, so that the mean of a rare word is close to the overall mean.
const shrinkage = 10

// NewOrders returns the orders of a stage: one per column of numbers, and two per column of words, or one for two
// classes. Words are ordered by Σ u·r / (Σ h + 10), a Newton step, for a direction u of the k outputs: (−1, 1) for two,
// otherwise k normal draws that depend on the seed and the stage. sums are over all training rows, per column of words and
// code: Σ w r of the k residuals, then Σ w h of the curvature (columns × [Codes] × (k+1)).
func NewOrders(numbers, words []int, sums []float64, seed, stage uint64) Orders {
	var o Orders
	for _, column := range numbers {
		o.Columns = append(o.Columns, int32(column))
	}
	for j, column := range words {
		each := len(sums) / len(words)
		direction := make([]float64, each/Codes-1)
		draws := rand.New(rand.NewPCG(mix(seed, stage), mix(wordDraws, uint64(column))))
		for range min(2, max(1, len(direction)-1)) {
			for c := range direction {
				if direction[c] = draws.NormFloat64(); len(direction) <= 2 {
					direction[c] = float64(2*c - 1) // −1 for a single output, equivalent to 1
				}
			}
			o.Columns = append(o.Columns, int32(column))
			o.Ranks = append(o.Ranks, ranksOf(sums[j*each:][:each], direction)...)
		}
	}
	return o
}

// ranksOf returns the ranks of the codes in a direction of the outputs, given their sums. Ties are in the order of the codes.
func ranksOf(sums, direction []float64) []uint8 {
	k, means, codes, ranks := len(direction), make([]float64, Codes), make([]uint8, Codes), make([]uint8, Codes)
	for code := range means {
		codes[code] = uint8(code)
		of := sums[code*(k+1):][:k+1]
		for c, u := range direction {
			means[code] += float64(u * of[c])
		}
		means[code] /= of[k] + shrinkage
	}
	slices.SortStableFunc(codes, func(a, b uint8) int { return cmp.Compare(means[a], means[b]) })
	for rank, code := range codes {
		ranks[code] = uint8(rank)
	}
	return ranks
}

// Purposes of draws. Draws of trees use the number of the tree.
const wordDraws = 1 << 32

// mix is a hash of two numbers, with the constants and shifts of SplitMix64.
func mix(a, b uint64) uint64 {
	for _, x := range []uint64{a, b} {
		a = x + 0x9e3779b97f4a7c15 + a*0xbf58476d1ce4e5b9
		a = (a ^ a>>30) * 0xbf58476d1ce4e5b9
		a = (a ^ a>>27) * 0x94d049bb133111eb
		a ^= a >> 31
	}
	return a
}
