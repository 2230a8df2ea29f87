package tree

import (
	"fmt"
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

// RanksOf returns the ranks of the codes in an order; nil: each code is its own rank.
func (o Orders) RanksOf(order int) []uint8 {
	if order -= o.Numbers(); order < 0 {
		return nil
	}
	return o.Ranks[order*Codes:][:Codes]
}

// Words is a column of words, with sums over all training rows by code. Sums may be a slice of a larger array.
type Words struct {
	Column int
	Sums   []float64 // per code: Σ w r of the k residuals, then Σ w h of the curvature (Codes × (k+1))
}

// outputs returns k.
func (s *Words) outputs() int { return len(s.Sums)/Codes - 1 }

// of returns the sums of a code: of its residuals, and of its curvatures.
func (s *Words) of(code int) (residuals []float64, curvature *float64) {
	k := s.outputs()
	sums := s.Sums[code*(k+1):][:k+1]
	return sums[:k], &sums[k]
}

// AddWords adds the residuals (n × k) and the curvatures (n) of rows, both times the rows' weights, to the words of
// their codes (n × columns).
func (s *Words) AddWords(codes []uint8, columns int, residuals, curvatures []float32) {
	n, k := len(curvatures), s.outputs()
	if len(codes) != n*columns || len(residuals) != n*k || k < 0 || len(s.Sums) != Codes*(k+1) {
		panic(fmt.Sprintf("tree: AddWords: %d codes of %d columns, %d residuals and %d curvatures into %d sums",
			len(codes), columns, len(residuals), n, len(s.Sums)))
	}
	for i, h := range curvatures {
		sums, curvature := s.of(int(codes[i*columns+s.Column]))
		*curvature += float64(h)
		for c, r := range residuals[i*k:][:k] {
			sums[c] += float64(r)
		}
	}
}

// shrinkage is added to the curvature of a word, so that the mean of a rare word is close to the overall mean.
const shrinkage = 10

// NewOrders returns the orders of a stage: one per column of numbers, and two per column of words, or one for two
// classes. Words are ordered by Σ u·r / (Σ h + 10), a Newton step, for a direction u of the k outputs: (−1, 1) for two,
// otherwise k normal draws that depend on the seed and the stage.
func NewOrders(numbers []int, words []Words, seed, stage uint64) Orders {
	var o Orders
	for _, column := range numbers {
		o.Columns = append(o.Columns, int32(column))
	}
	for _, w := range words {
		k := w.outputs()
		draws := rand.New(rand.NewPCG(mix(seed, stage), mix(wordDraws, uint64(w.Column))))
		for range min(2, max(1, k-1)) {
			direction := make([]float64, k)
			for c := range direction {
				if direction[c] = draws.NormFloat64(); k <= 2 {
					direction[c] = float64(2*c - 1) // −1 for a single output, equivalent to 1
				}
			}
			o.Columns = append(o.Columns, int32(w.Column))
			o.Ranks = append(o.Ranks, w.ranks(direction)...)
		}
	}
	return o
}

// ranks returns the ranks of the codes in a direction of the outputs. Ties are in the order of the codes.
func (s *Words) ranks(direction []float64) []uint8 {
	means, codes := make([]float64, Codes), make([]uint8, Codes)
	for code := range means {
		codes[code] = uint8(code)
		residuals, curvature := s.of(code)
		for c, u := range direction {
			means[code] += float64(u * residuals[c])
		}
		means[code] /= *curvature + shrinkage
	}
	slices.SortStableFunc(codes, func(a, b uint8) int {
		switch {
		case means[a] < means[b]:
			return -1
		case means[a] > means[b]:
			return 1
		}
		return 0
	})
	ranks := make([]uint8, Codes)
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
