package tree

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
)

// plainTree is a reference implementation of a tree.
type plainTree struct {
	rows        []int
	order       int
	cut         int
	gain        float64
	left, right *plainTree
}

// plainGrow grows a tree as Grow documents, with the same draws.
func plainGrow(s Sample, o Orders, shape Shape, seed, stage, number uint64) *plainTree {
	draws := rand.NewPCG(mix(seed, stage), number)
	below := func(n int) int { high, _ := bitsMul(draws.Uint64(), uint64(n)); return int(high) }
	permutation := make([]int, len(o.Columns))
	for j := range permutation {
		permutation[j] = j
	}
	rank := func(row, order int) int {
		code := s.Codes[row*s.Columns+int(o.Columns[order])]
		if ranks := o.RanksOf(order); ranks != nil {
			return int(ranks[code])
		}
		return int(code)
	}
	explained := func(rows []int) float64 {
		weight, total := 0.0, 0.0
		sums := make([]float64, s.Outputs)
		for _, row := range rows {
			w := 1.0
			if s.Weights != nil {
				w = float64(s.Weights[row])
			}
			weight += w
			for c := range sums {
				sums[c] += w * float64(s.Residuals[row*s.Outputs+c])
			}
		}
		for _, x := range sums {
			total += x * x
		}
		return total / weight
	}
	newLeaf := func(rows []int) *plainTree {
		l := &plainTree{rows: rows}
		if len(rows) < 2*shape.Rows {
			return l
		}
		differ := false
		for from := range permutation {
			if differ && from >= max(1, int(shape.Share*float64(len(permutation)))) {
				break
			}
			to := from + below(len(permutation)-from)
			permutation[from], permutation[to] = permutation[to], permutation[from]
			order := permutation[from]
			low, high := 255, 0
			for _, row := range rows {
				low, high = min(low, rank(row, order)), max(high, rank(row, order))
			}
			if low >= high {
				continue
			}
			differ = true
			cuts := make([]int, shape.Thresholds)
			for i := range cuts {
				cuts[i] = low + below(high-low)
			}
			slices.Sort(cuts)
			for _, cut := range cuts {
				var left, right []int
				for _, row := range rows {
					if rank(row, order) <= cut {
						left = append(left, row)
					} else {
						right = append(right, row)
					}
				}
				if len(left) < shape.Rows || len(right) < shape.Rows {
					continue
				}
				if gain := explained(left) + explained(right) - explained(rows); gain > l.gain {
					l.order, l.cut, l.gain = order, cut, gain
				}
			}
		}
		return l
	}
	all := make([]int, s.rows())
	for i := range all {
		all[i] = i
	}
	root := newLeaf(all)
	leaves := []*plainTree{root}
	for len(leaves) < shape.Leaves {
		best := 0
		for i, l := range leaves {
			if l.gain > leaves[best].gain {
				best = i
			}
		}
		l := leaves[best]
		if l.gain <= 0 {
			break
		}
		var left, right []int
		for _, row := range l.rows {
			if rank(row, l.order) <= l.cut {
				left = append(left, row)
			} else {
				right = append(right, row)
			}
		}
		l.left = newLeaf(left)
		leaves[best] = l.left
		l.right = newLeaf(right)
		leaves = append(leaves, l.right)
	}
	return root
}

func (p *plainTree) nodes() int {
	if p.left == nil {
		return 0
	}
	return 1 + p.left.nodes() + p.right.nodes()
}

// write appends the nodes in preorder, and the weights of the rows in the leaves.
func (p *plainTree) write(f *Forest, s Sample) {
	if p.left == nil {
		cover := float32(len(p.rows))
		if s.Weights != nil {
			cover = 0
			for _, row := range p.rows {
				cover += s.Weights[row]
			}
		}
		f.Covers = append(f.Covers, cover)
		return
	}
	f.Compared, f.Cuts, f.Lefts = append(f.Compared, int32(p.order)), append(f.Cuts, uint8(p.cut)), append(f.Lefts, uint8(p.left.nodes()))
	p.left.write(f, s)
	p.right.write(f, s)
}

func bitsMul(a, b uint64) (high, low uint64) {
	low32 := func(x uint64) uint64 { return x & 0xffffffff }
	t := low32(a) * low32(b)
	u := (a>>32)*low32(b) + t>>32
	v := low32(a)*(b>>32) + low32(u)
	return (a>>32)*(b>>32) + u>>32 + v>>32, a * b
}

func TestGrowAsDefined(t *testing.T) {
	for _, c := range []struct {
		n, columns, words, outputs int
		weighted                   bool
		shape                      Shape
	}{
		{600, 9, 0, 1, false, Shape{4, 32, 5, 0.5, 4}},
		{600, 5, 2, 2, true, Shape{3, 64, 1, 0.5, 3}},
		{300, 4, 1, 5, false, Shape{3, 31, 5, 1, 8}},
		{40, 3, 3, 3, true, Shape{5, 32, 5, 0.1, 1}},
		{9, 3, 1, 1, false, Shape{2, 8, 5, 0.5, 1}},
		{1, 1, 0, 1, false, Shape{2, 2, 1, 0.5, 1}},
	} {
		s := sampleOf(7, c.n, c.columns, c.outputs, c.weighted)
		o := ordersOf(7, s, c.words)
		want := Forest{Leaves: c.shape.Leaves, Orders: o}
		for number := range c.shape.Trees {
			tree := plainGrow(s, o, c.shape, 11, 3, uint64(number))
			want.Sizes = append(want.Sizes, uint8(tree.nodes()))
			tree.write(&want, s)
		}
		for workers := range 4 {
			got := Grow(s, o, c.shape, 11, 3, workers)
			arrowtest.NoError(t, got.Check(c.columns))
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, %d workers: %+v, want %+v", c, workers, got, want)
			}
		}
	}
}

// Each leaf has enough rows, and a different seed, stage or tree gives different trees.
func TestGrowLaws(t *testing.T) {
	s := sampleOf(8, 2000, 6, 3, false)
	o := ordersOf(8, s, 1)
	f := Grow(s, o, Shape{8, 32, 5, 0.5, 1}, 1, 2, 2)
	for tree := range f.Trees() {
		rows := make([]int, f.Sizes[tree]+1)
		for i := range 2000 {
			rows[descend(f, tree, s.Codes[i*6:][:6])]++
		}
		for leaf, n := range rows {
			if n < 5 {
				t.Errorf("leaf %d of tree %d has %d rows", leaf, tree, n)
			}
		}
		if f.Sizes[tree] != 31 {
			t.Errorf("tree %d has %d nodes", tree, f.Sizes[tree])
		}
	}
	for _, other := range []Forest{Grow(s, o, Shape{8, 32, 5, 0.5, 1}, 2, 2, 2), Grow(s, o, Shape{8, 32, 5, 0.5, 1}, 1, 3, 2)} {
		if reflect.DeepEqual(other.Cuts, f.Cuts) {
			t.Error("another seed or stage has the same trees")
		}
	}
	fewer := Grow(s, o, Shape{5, 32, 5, 0.5, 1}, 1, 2, 2)
	if nodes := len(fewer.Cuts); !reflect.DeepEqual(fewer.Cuts, f.Cuts[:nodes]) {
		t.Error("fewer trees are not the first of more")
	}
	if f := Grow(Sample{Residuals: make([]float32, 50), Outputs: 1}, Orders{}, Shape{3, 4, 1, 1, 1}, 1, 1, 1); len(f.Cuts) != 0 || f.Trees() != 3 {
		t.Errorf("rows without columns have a forest of %+v", f)
	}
	same := Sample{Codes: make([]uint8, 100), Columns: 2, Residuals: make([]float32, 50), Outputs: 1}
	if f := Grow(same, Orders{Columns: []int32{0, 1}}, Shape{3, 4, 1, 1, 1}, 1, 1, 1); len(f.Cuts) != 0 || f.Trees() != 3 {
		t.Errorf("rows that don't differ have a forest of %+v", f)
	}
}

// The bits of a forest are the same on any machine.
func TestForestDigest(t *testing.T) {
	s := sampleOf(8, 3000, 7, 3, true)
	for i := range s.Residuals {
		s.Residuals[i] /= 7 // no longer exact
	}
	f := Grow(s, ordersOf(8, s, 2), Shape{16, 32, 5, 0.5, 1}, 1, 2, 2)
	h := sha256.New()
	for _, array := range []any{f.Orders.Columns, f.Orders.Ranks, f.Sizes, f.Compared, f.Cuts, f.Lefts} {
		arrowtest.NoError(t, binary.Write(h, binary.LittleEndian, array))
	}
	const want = "a4b4024a40fac833"
	if got := hex.EncodeToString(h.Sum(nil))[:16]; got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
}
