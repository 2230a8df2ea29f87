package tree

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// leavesOf returns random leaves.
func leavesOf(seed uint64, rows, trees, leaves int) (l Leaves) {
	r := rand.New(rand.NewPCG(seed, 2))
	l.Reshape(rows, trees)
	for i := range l.Data {
		l.Data[i] = uint8(r.IntN(leaves))
	}
	return l
}

func values(seed uint64, n int) []float32 {
	r, x := rand.New(rand.NewPCG(seed, 3)), make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// rows returns the leaves of some rows.
func (l Leaves) rows(from, to int) (part Leaves) {
	part.Reshape(to-from, l.Trees)
	for t := range l.Trees {
		copy(part.Tree(t), l.Tree(t)[from:to])
	}
	return part
}

// Sums add the rows in order, however they are divided into calls: they are bitwise identical to the definition.
func TestSumsAsDefined(t *testing.T) {
	for _, c := range []struct{ rows, trees, leaves, outputs int }{
		{1, 1, 2, 1}, {63, 3, 31, 2}, {300, 5, 32, 3}, {500, 3, 64, 1}, {0, 2, 3, 2}, {64, 32, 32, 2},
	} {
		l, h, r := leavesOf(1, c.rows, c.trees, c.leaves), values(2, c.rows), values(3, c.rows*c.outputs)
		p, k := c.trees*c.leaves, c.outputs
		w, before := values(4, p*k), values(5, c.rows*k)
		gram, cross, scores := make([]float64, p*(p+1)/2), make([]float64, p*k), slices.Clone(before)
		for i := range c.rows {
			for a := range c.trees {
				at := a*c.leaves + int(l.Tree(a)[i])
				for b := range a + 1 {
					gram[at*(at+1)/2+b*c.leaves+int(l.Tree(b)[i])] += float64(h[i])
				}
				for output := range k {
					cross[at*k+output] += float64(r[i*k+output])
					scores[i*k+output] += w[at*k+output]
				}
			}
		}
		for _, part := range []int{c.rows, 1, 100} {
			gotGram, gotCross, gotScores := make([]float64, len(gram)), make([]float64, len(cross)), slices.Clone(before)
			for from := 0; from < c.rows; from += part {
				to := min(from+part, c.rows)
				AddPairs(gotGram, l.rows(from, to), c.leaves, h[from:to])
				AddResiduals(gotCross, l.rows(from, to), c.leaves, r[from*k:to*k])
				AddScores(gotScores[from*k:to*k], l.rows(from, to), c.leaves, w)
			}
			if !slices.Equal(gotGram, gram) {
				t.Errorf("%+v, %d rows a call: the pairs differ", c, part)
			}
			if !slices.Equal(gotCross, cross) {
				t.Errorf("%+v, %d rows a call: the cross moments differ", c, part)
			}
			if !slices.Equal(gotScores, scores) {
				t.Errorf("%+v, %d rows a call: the scores differ", c, part)
			}
		}
	}
}
