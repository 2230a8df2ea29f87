package tree

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestFindByDescent(t *testing.T) {
	for _, c := range []struct{ columns, words, trees, leaves int }{
		{1, 0, 1, 2}, {3, 1, 2, 31}, {4, 4, 31, 32}, {5, 2, 32, 33}, {28, 3, 33, 32},
		{7, 0, 16, 64}, {200, 5, 32, 32}, {300, 0, 17, 64}, {3, 0, 0, 8},
	} {
		s := sampleOf(3, 500, c.columns, 2, false)
		f := Grow(s, ordersOf(3, s, c.words), Shape{c.trees, c.leaves, 2, 0.5, 1}, 4, 5, 2)
		finder := NewFinder(f, c.columns)
		r := rand.New(rand.NewPCG(6, 6))
		var got Leaves
		for _, n := range []int{0, 1, 63, 64, 65} {
			codes := make([]uint8, n*c.columns)
			for i := range codes {
				codes[i] = uint8(r.IntN(256))
			}
			finder.Find(&got, codes)
			if got.Rows != n || got.Trees != c.trees {
				t.Fatalf("%+v: %d × %d leaves", c, got.Trees, got.Rows)
			}
			for i := range n {
				for tree := range c.trees {
					if leaf, want := int(got.Tree(tree)[i]), descend(f, tree, codes[i*c.columns:][:c.columns]); leaf != want {
						t.Fatalf("%+v: row %d is in leaf %d of tree %d, want %d", c, i, leaf, tree, want)
					}
				}
			}
		}
	}
}

// benchmarkTrees are 22 forests of 32 trees with 32 leaves each over 28 columns.
func benchmarkTrees() (finders []*Finder, codes []uint8) {
	s := sampleOf(8, 8192, 28, 1, false)
	r := rand.New(rand.NewPCG(6, 6))
	for i := range s.Codes {
		s.Codes[i] = uint8(1 + r.IntN(250))
	}
	for i := range s.Residuals {
		s.Residuals[i] = float32(r.NormFloat64()) + float32(s.Codes[i*28])/100 + float32(s.Codes[i*28+5])*float32(s.Codes[i*28+6])/1e4
	}
	for stage := range 22 {
		f := Grow(s, ordersOf(8, s, 0), Shape{32, 32, 5, 0.5, 1}, 1, uint64(stage), 2)
		finders = append(finders, NewFinder(f, 28))
	}
	return finders, s.Codes
}

func BenchmarkFind(b *testing.B) {
	finders, codes := benchmarkTrees()
	var l Leaves
	for b.Loop() {
		finders[0].Find(&l, codes)
	}
	b.ReportMetric(float64(l.Rows*b.N)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkPredict computes the scores of all 704 trees.
func BenchmarkPredict(b *testing.B) {
	finders, codes := benchmarkTrees()
	weights := make([]float32, 1024*2)
	for _, tile := range []int{64, 512, 4096} {
		b.Run(fmt.Sprintf("tile=%d", tile), func(b *testing.B) {
			var l Leaves
			scores := make([]float32, 8192*2)
			for b.Loop() {
				for from := 0; from < 8192; from += tile {
					for _, f := range finders {
						f.Find(&l, codes[from*28:(from+tile)*28])
						AddScores(scores[2*from:2*(from+tile)], l, 32, weights)
					}
				}
			}
			b.ReportMetric(float64(8192*b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

func BenchmarkNewFinder(b *testing.B) {
	s := sampleOf(8, 8192, 28, 1, false)
	f := Grow(s, ordersOf(8, s, 0), Shape{32, 32, 5, 0.5, 1}, 1, 1, 2)
	for b.Loop() {
		NewFinder(f, 28)
	}
}
