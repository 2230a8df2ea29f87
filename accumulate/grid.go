package accumulate

import "math"

// grid is the bins that probabilities are told apart by: so many for each halving of a probability, or of what it lacks of
// 1, down to 2⁻²⁰. So the probabilities of a rare class are told apart too. A probability is in bin b or above if and only
// if it is at least edge(b).
type grid struct{ perHalving int }

const (
	// finest is where the grid ends: about the probability that the log loss is clipped at.
	finest = 1.0 / (1 << 20)
	// halvings is how many there are from 1/2 to finest.
	halvings = 19
)

// gridOf returns the grid of so many histograms: of more it is coarser, as they are in memory for every segment.
func gridOf(histograms int) grid {
	switch {
	case histograms <= 1:
		return grid{256}
	case histograms <= 10:
		return grid{64}
	}
	return grid{16}
}

// bins is the number of bins.
func (g grid) bins() int { return 2*halvings*g.perHalving + 2 }

// steps returns how many bins a number from finest to 1/2 is above finest. The bits of a positive float32 ascend as the number does.
func (g grid) steps(bits uint32) int {
	return int(uint64(bits-math.Float32bits(finest)) * uint64(g.perHalving) >> 23)
}

// bin returns the bin of a probability.
func (g grid) bin(p float32) int {
	switch rest := 1 - p; { // exact if p ≥ 1/2
	case !(p >= finest): // also of a NaN, which comes of scores that have overflown
		return 0
	case p < 0.5:
		return 1 + g.steps(math.Float32bits(p))
	case rest <= finest:
		return g.bins() - 1
	default: // one bit less, as it is the smaller end of what is lacking that is part of the bin above
		return g.bins() - 2 - g.steps(math.Float32bits(rest)-1)
	}
}

// edge returns the least probability of a bin.
func (g grid) edge(bin int) float64 {
	step := func(n int) float64 {
		return float64(math.Float32frombits(math.Float32bits(finest) + uint32(n<<23/g.perHalving)))
	}
	half := halvings * g.perHalving
	switch {
	case bin == 0:
		return 0
	case bin <= half:
		return step(bin - 1)
	}
	return 1 - step(2*half+1-bin)
}
