package tree

import "fmt"

const (
	// MaxEdges is the largest number of edges of a column, which has one more bin, and a bin for missing values.
	MaxEdges = 249
	// MaxWords is the largest number of words of a column with a code of their own.
	MaxWords = 254
)

// EdgesOf returns the edges of the bins of a column, given the values of a sample in ascending order: ascending numbers, at most
// [MaxEdges]; see [CodeOf]. Each distinct value gets a bin if there are at most 250. Otherwise a value that occurs in 1/250 of the
// rows ends a bin, and the other values share the remaining bins equally, as in LightGBM (Ke et al. 2017). Bins at quantiles leave few
// bins for the tail of a column of zeros with a heavy tail: on Adult, the log loss is 0.290 with them, and 0.288 with these.
func EdgesOf(sorted []float32) (edges []float32) {
	const bins = MaxEdges + 1
	values, counts := distinct(sorted)
	frequent := func(count int) bool { return count*bins >= len(sorted) }
	rest, room := len(sorted), bins // rows and bins of infrequent values
	for _, count := range counts {
		if frequent(count) {
			rest, room = rest-count, room-1
		}
	}
	seen, ended := 0, 0 // rows of infrequent values so far, and the number of their bins that have ended
	for i, count := range counts[:max(0, len(counts)-1)] {
		ends := len(values) <= bins || frequent(count)
		if !frequent(count) {
			seen += count
			if full := seen * room / rest; full > ended {
				ends, ended = true, full
			}
		}
		if ends {
			edges = append(edges, between(values[i], values[i+1]))
		}
	}
	return edges
}

// distinct returns the distinct values among ascending ones, and the count of each.
func distinct(sorted []float32) (values []float32, counts []int) {
	for i, x := range sorted {
		if i == 0 || x != sorted[i-1] {
			values, counts = append(values, x), append(counts, 0)
		}
		counts[len(counts)-1]++
	}
	return values, counts
}

// between returns an edge between two values: it is at least a, and less than b.
func between(a, b float32) float32 {
	if middle := float32((float64(a) + float64(b)) / 2); a < middle && middle < b {
		return middle
	}
	return a
}

// WordEdges returns the edges of a column of words. A word is encoded as its index 0, 1, … among the known words, and
// the word of index i has the code 1 + i. Unknown words are NaN, so they share the code of missing values, as do those after the first
// [MaxWords].
func WordEdges(words int) []float32 {
	edges := make([]float32, max(0, min(words, MaxWords)-1))
	for i := range edges {
		edges[i] = float32(i)
	}
	return edges
}

// CheckEdges returns an error if the edges of a column are not ascending numbers, or are too many. The edges of
// [EdgesOf] and [WordEdges] are valid.
func CheckEdges(edges []float32) error {
	for i, edge := range edges {
		if edge != edge || i > 0 && edge <= edges[i-1] || i >= MaxWords-1 {
			return fmt.Errorf("edge %d is not above the edge before it, or not one of at most %d", i, MaxWords-1)
		}
	}
	return nil
}

// CodeOf returns the code of a value among the edges of its column: 0 for a missing value (NaN), otherwise 1 + the number of edges that
// are below it. The search is branch-free, as the branches of random values are unpredictable.
func CodeOf(edges []float32, x float32) uint8 {
	if x != x {
		return 0
	}
	below := 0
	for n := len(edges); n > 0; n /= 2 {
		if half := (n + 1) / 2; edges[below+half-1] < x {
			below += half
		}
	}
	return uint8(1 + below)
}
