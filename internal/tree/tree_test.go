package tree

import (
	"math/rand/v2"
	"slices"
)

// sampleOf returns a sample of random codes, with integer residuals, so that their sums are exact, that depend on a few
// columns. Columns of numbers come first, columns of words last.
func sampleOf(seed uint64, n, columns, outputs int, weighted bool) Sample {
	r := rand.New(rand.NewPCG(seed, 1))
	s := Sample{Columns: columns, Outputs: outputs, Codes: make([]uint8, n*columns), Residuals: make([]float32, n*outputs)}
	for i := range s.Codes {
		s.Codes[i] = uint8(r.IntN(2 + i%columns*60%255)) // columns of 2 values to all
	}
	for i := range s.Residuals {
		s.Residuals[i] = float32(r.IntN(9)-4) + float32(s.Codes[i/outputs*columns]%4) - float32(s.Codes[i/outputs*columns+columns-1]/64)
	}
	if weighted {
		s.Weights = make([]float32, n)
		for i := range s.Weights {
			s.Weights[i] = float32(1 + r.IntN(3))
		}
	}
	return s
}

// ordersOf returns orders of columns, the last of which are of words.
func ordersOf(seed uint64, s Sample, words int) Orders {
	var numbers []int
	for j := range s.Columns - words {
		numbers = append(numbers, j)
	}
	var sums []Words
	for j := s.Columns - words; j < s.Columns; j++ {
		w := Words{Column: j, Sums: make([]float64, Codes*(s.Outputs+1))}
		w.AddWords(s.Codes, s.Columns, s.Residuals, slices.Repeat([]float32{0.25}, s.rows()))
		sums = append(sums, w)
	}
	return NewOrders(numbers, sums, seed, 0)
}

// descend returns the leaf of a row by descending from node to node of a tree, given its first node.
func descend(f Forest, t int, codes []uint8) int {
	first := 0
	for _, size := range f.Sizes[:t] {
		first += int(size)
	}
	node, nodes, leaf := first, int(f.Sizes[t]), 0
	for nodes > 0 {
		order := int(f.Compared[node])
		rank := codes[f.Orders.Columns[order]]
		if ranks := f.Orders.RanksOf(order); ranks != nil {
			rank = ranks[rank]
		}
		if left := int(f.Lefts[node]); rank <= f.Cuts[node] {
			node, nodes = node+1, left
		} else {
			node, nodes, leaf = node+1+left, nodes-1-left, leaf+left+1
		}
	}
	return leaf
}
