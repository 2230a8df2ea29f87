package kernel

import (
	"github.com/stagewise/stagewise/internal/assert"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// shapleySample is a tree with a definition of its values.
type shapleySample struct {
	ShapleyTree
	columns, places, outputs int
	passes                   [][2][codesOfColumn]bool // of each node
}

// newShapleySample draws a tree of the given number of nodes at so many points.
func newShapleySample(r *rand.Rand, nodes, count, outputs int) *shapleySample {
	s := &shapleySample{columns: 5, places: 3, outputs: outputs}
	const shares = 4
	s.Count, s.Leaves, s.Points = count, random(1, outputs*(nodes+1), 1).Data, random(1, shares*3*count, 2).Data
	for at := 0; at < len(s.Points); at += 3 {
		s.Points[at+1] = -s.Points[at]
	}
	s.Nodes = make([]ShapleyNode, nodes)
	next, leaf := 1, nodes
	for i := range s.Nodes {
		node := &s.Nodes[i]
		node.Column, node.Place, node.Points = r.Int32N(int32(s.columns)), r.Int32N(int32(s.places)), 3*r.Int32N(shares)
		node.Shares[0] = r.Float32()
		node.Shares[1] = 1 - node.Shares[0]
		var passes [2][codesOfColumn]bool
		for code := range codesOfColumn {
			if side := r.IntN(3); side < 2 {
				passes[side][code] = true
				node.Passing[side][code%8] |= 1 << (31 - code/8)
			}
		}
		s.passes = append(s.passes, passes)
		if above := &s.Nodes[node.Above]; i > 0 {
			side := slices.Index(above.Below[:], int32(i))
			node.AbovePoints, node.AboveShare = above.Points+int32(side), above.Shares[side]
		}
		for side := range node.Below {
			if next < nodes && (r.IntN(2) == 0 || side == 1 && next == i+1) {
				s.Nodes[next].Above = int32(i)
				node.Below[side], next = int32(next), next+1
			} else {
				node.Below[side], leaf = int32(leaf), leaf+1
			}
		}
	}
	return s
}

// mean returns the mean score below a node for a row with the given codes, and adds what the nodes contribute to the row's sums.
func (s *shapleySample) mean(node, out, point int, reached float64, codes []uint8, sums []float64) float64 {
	if leaf := node - len(s.Nodes); leaf >= 0 {
		return float64(s.Leaves[out*len(s.Leaves)/s.outputs+leaf])
	}
	n := &s.Nodes[node]
	share, effect := float64(n.Shares[0]), 0.0
	switch code := codes[n.Column]; {
	case s.passes[node][0][code]:
		effect = 1 - share
	case s.passes[node][1][code]:
		effect = -share
	}
	points := s.Points[point*len(s.Points)/s.Count+int(n.Points):]
	share += float64(points[0]) * effect
	left := s.mean(int(n.Below[0]), out, point, reached*share, codes, sums)
	right := s.mean(int(n.Below[1]), out, point, reached*(1-share), codes, sums)
	sums[n.Place] += effect * float64(points[2]) * reached * (left - right)
	return share*left + (1-share)*right
}

// Sums are those of the definition for each row and output.
func TestShapleyTree(t *testing.T) {
	withEachAcceleration(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 5))
		var scratch []float32
		for _, nodes := range []int{1, 2, 3, 7, 31, 63} {
			for _, count := range []int{1, 2, 5, 32} {
				for _, outputs := range []int{1, 3} {
					s := newShapleySample(r, nodes, count, outputs)
					const groups = 3
					codes, sums := make([]uint8, groups*s.columns*ShapleyRows), make([]float64, groups*outputs*s.places*ShapleyRows)
					for i := range codes {
						codes[i] = uint8(r.IntN(codesOfColumn))
					}
					for range 2 { // the second time to what is there
						s.Add(sums, codes, groups, outputs, &scratch)
					}
					for i := range groups * ShapleyRows {
						group, row := i/ShapleyRows, i%ShapleyRows
						of := make([]uint8, s.columns)
						for j := range of {
							of[j] = codes[(group*s.columns+j)*ShapleyRows+row]
						}
						for out := range outputs {
							want := make([]float64, s.places)
							for point := range count {
								s.mean(0, out, point, 1, of, want)
							}
							for place, v := range want {
								got := sums[((group*outputs+out)*s.places+place)*ShapleyRows+row] / 2
								assert.Need(t, math.Abs(got-v) <= 1e-5*(1+math.Abs(v)),
									"%d nodes at %d points: row %d, output %d, place %d: %g, want %g", nodes, count, i, out, place, got, v)
							}
						}
					}
				}
			}
		}
	})
}

// An index out of range panics, before memory past the end is read or written.
func TestShapleyTreeChecksIndices(t *testing.T) {
	for name, damage := range map[string]func(s *shapleySample){
		"column":       func(s *shapleySample) { s.Nodes[2].Column = 5 },
		"place":        func(s *shapleySample) { s.Nodes[2].Place = -1 },
		"points":       func(s *shapleySample) { s.Nodes[2].Points = 10 },
		"above":        func(s *shapleySample) { s.Nodes[2].Above = 2 },
		"its points":   func(s *shapleySample) { s.Nodes[2].AbovePoints = 12 },
		"below":        func(s *shapleySample) { s.Nodes[2].Below[0] = 2 },
		"leaf":         func(s *shapleySample) { s.Nodes[2].Below[1] = 15 },
		"no points":    func(s *shapleySample) { s.Count = 0 },
		"fewer leaves": func(s *shapleySample) { s.Leaves = s.Leaves[:7] },
	} {
		s := newShapleySample(rand.New(rand.NewPCG(1, 6)), 7, 3, 1)
		damage(s)
		var scratch []float32
		assert.True(t, panics(func() { s.Add(make([]float64, 3*ShapleyRows), make([]uint8, 5*ShapleyRows), 1, 1, &scratch) }),
			"%s: no panic", name)
	}
}
