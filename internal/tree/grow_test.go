package tree

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/bits"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kernel"
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
func plainGrow(s sample, o Orders, shape Shape, seed, stage, number uint64) *plainTree {
	draws := rand.NewPCG(mix(seed, stage), number)
	below := func(n int) int { high, _ := bits.Mul64(draws.Uint64(), uint64(n)); return int(high) }
	permutation := make([]int, len(o.Columns))
	for j := range permutation {
		permutation[j] = j
	}
	rank := func(row, order int) int {
		code := s.codes[row*s.columns+int(o.Columns[order])]
		if ranks := o.RanksOf(order); ranks != nil {
			return int(ranks[code])
		}
		return int(code)
	}
	explained := func(rows []int) float64 {
		weight, total := 0.0, 0.0
		sums := make([]float64, s.outputs)
		for _, row := range rows {
			w := float64(s.weights[row])
			weight += w
			for c := range sums {
				sums[c] += w * float64(s.residuals[row*s.outputs+c])
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
	all := make([]int, len(s.weights))
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
func (p *plainTree) write(f *Forest, s sample) {
	if p.left == nil {
		cover := float32(0)
		for _, row := range p.rows {
			cover += s.weights[row]
		}
		f.Covers = append(f.Covers, cover)
		return
	}
	f.Compared, f.Cuts, f.Lefts = append(f.Compared, int32(p.order)), append(f.Cuts, uint8(p.cut)), append(f.Lefts, uint8(p.left.nodes()))
	p.left.write(f, s)
	p.right.write(f, s)
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
			got := Grow(s.dense(), s.columns, o, c.shape, 11, 3, workers)
			assert.NoError(t, got.Check(c.columns))
			assert.Equal(t, got, want, "%+v, %d workers", c, workers)
		}
	}
}

// Another seed or stage has other trees. Rows without columns, or that don't differ, have trees of one leaf.
func TestGrowLaws(t *testing.T) {
	s := sampleOf(8, 2000, 6, 3, false)
	o := ordersOf(8, s, 1)
	f := Grow(s.dense(), 6, o, Shape{8, 32, 5, 0.5, 1}, 1, 2, 2)
	for _, other := range []Forest{Grow(s.dense(), 6, o, Shape{8, 32, 5, 0.5, 1}, 2, 2, 2), Grow(s.dense(), 6, o, Shape{8, 32, 5, 0.5, 1}, 1, 3, 2)} {
		assert.True(t, !reflect.DeepEqual(other.Cuts, f.Cuts), "another seed or stage has the same trees")
	}
	for _, o := range []Orders{{}, {Columns: []int32{0, 1}}} {
		f := Grow(kernel.NewDense(50, 4), 2, o, Shape{3, 4, 1, 1, 1}, 1, 1, 1)
		assert.True(t, len(f.Cuts) == 0 && len(f.Sizes) == 3, "rows that don't differ have a forest of %+v", f)
	}
}

// The bits of a forest are the same on any machine.
func TestForestDigest(t *testing.T) {
	s := sampleOf(8, 3000, 7, 3, true)
	for i := range s.residuals {
		s.residuals[i] /= 7 // no longer exact
	}
	f := Grow(s.dense(), s.columns, ordersOf(8, s, 2), Shape{16, 32, 5, 0.5, 1}, 1, 2, 2)
	h := sha256.New()
	for _, array := range []any{f.Orders.Columns, f.Orders.Ranks, f.Sizes, f.Compared, f.Cuts, f.Lefts} {
		assert.NoError(t, binary.Write(h, binary.LittleEndian, array))
	}
	const want = "a4b4024a40fac833"
	assert.Equal(t, hex.EncodeToString(h.Sum(nil))[:16], want, "digest")
}

func TestFindByDescent(t *testing.T) {
	for _, c := range []struct{ columns, words, trees, leaves int }{
		{1, 0, 1, 2}, {3, 1, 2, 31}, {4, 4, 31, 32}, {5, 2, 32, 33}, {28, 3, 33, 32},
		{7, 0, 16, 64}, {200, 5, 32, 32}, {300, 0, 17, 64}, {3, 0, 0, 8},
	} {
		s := sampleOf(3, 500, c.columns, 2, false)
		f := Grow(s.dense(), s.columns, ordersOf(3, s, c.words), Shape{c.trees, c.leaves, 2, 0.5, 1}, 4, 5, 2)
		finder := NewFinder(f, c.columns)
		r := rand.New(rand.NewPCG(6, 6))
		var got Leaves
		for _, n := range []int{0, 1, 63, 64, 65} {
			codes := make([]uint8, n*c.columns)
			for i := range codes {
				codes[i] = uint8(r.IntN(256))
			}
			finder.Find(&got, codes)
			assert.Need(t, got.Rows == n && got.Trees == c.trees, "%+v: %d × %d leaves", c, got.Trees, got.Rows)
			for i := range n {
				for tree := range c.trees {
					leaf, want := int(got.Tree(tree)[i]), descend(f, tree, codes[i*c.columns:][:c.columns])
					assert.Need(t, leaf == want, "%+v: row %d is in leaf %d of tree %d, want %d", c, i, leaf, tree, want)
				}
			}
		}
	}
}

func TestForestsFromOutside(t *testing.T) {
	s := sampleOf(3, 200, 4, 2, false)
	valid := Grow(s.dense(), s.columns, ordersOf(3, s, 1), Shape{3, 8, 2, 0.5, 1}, 4, 5, 2)
	for name, damage := range map[string]func(f *Forest){
		"leaves":   func(f *Forest) { f.Leaves = 65 },
		"sizes":    func(f *Forest) { f.Sizes[1]++ },
		"compared": func(f *Forest) { f.Compared[3] = int32(len(f.Orders.Columns)) },
		"cuts":     func(f *Forest) { f.Cuts = f.Cuts[1:] },
		"lefts":    func(f *Forest) { f.Lefts[0] = f.Sizes[0] },
		"orders":   func(f *Forest) { f.Orders.Columns[0] = 4 },
		"ranks":    func(f *Forest) { f.Orders.Ranks = f.Orders.Ranks[1:] },
	} {
		f := valid
		f.Orders.Columns = slices.Clone(f.Orders.Columns)
		f.Sizes, f.Compared, f.Lefts = slices.Clone(f.Sizes), slices.Clone(f.Compared), slices.Clone(f.Lefts)
		damage(&f)
		err := f.Check(4)
		assert.True(t, err != nil && strings.HasPrefix(err.Error(), "trees: "+name+":"), "%s: error %v", name, err)
	}
	err := Forest{Leaves: 32, Sizes: make([]uint8, MaxSize)}.Check(4)
	assert.True(t, err != nil, "too many trees: error %v", err)
}

// For any bytes, Check rejects a forest, or Find returns the leaves that its nodes lead to.
func FuzzForest(f *testing.F) {
	f.Add(32, 0, []byte{0}, []byte{1, 2}, []byte{0, 1, 0}, []byte{3, 4, 5}, []byte{1, 0, 0}, []byte{3, 9})
	f.Add(32, 256, []byte{0, 0}, make([]byte, 16), []byte{}, []byte{}, []byte{}, []byte{1, 2}) // no nodes
	f.Add(64, 256, []byte{0, 1}, []byte{3}, []byte{0, 1, 1}, []byte{3, 4, 5}, []byte{2, 1, 0}, []byte{200, 9})
	f.Fuzz(func(t *testing.T, leaves, ranks int, columns, sizes, compared, cuts, lefts, row []byte) {
		const d = 2
		forest := Forest{Leaves: leaves, Sizes: sizes, Cuts: cuts, Lefts: lefts}
		for _, order := range compared {
			forest.Compared = append(forest.Compared, int32(int8(order)))
		}
		for _, column := range columns {
			forest.Orders.Columns = append(forest.Orders.Columns, int32(int8(column)))
		}
		for i := range max(0, min(ranks, 2048)) {
			forest.Orders.Ranks = append(forest.Orders.Ranks, uint8(i*7))
		}
		if forest.Check(d) != nil {
			return
		}
		row = slices.Concat(row, make([]byte, d))[:d]
		var l Leaves
		NewFinder(forest, d).Find(&l, row)
		for tree, leaf := range l.Data {
			want := descend(forest, tree, row)
			assert.True(t, int(leaf) == want && want <= int(sizes[tree]), "leaf %d of tree %d, want %d", leaf, tree, want)
		}
	})
}

// Words are ordered by their mean residual in a direction.
func TestOrdersOfWords(t *testing.T) {
	for _, k := range []int{1, 2, 5} {
		s := sampleOf(5, 1000, 4, k, false)
		o := ordersOf(9, s, 2)
		orders := 2
		if k <= 2 {
			orders = 1
		}
		assert.True(t, (k > 2 || slices.Equal(o.Columns, []int32{0, 1, 2, 3})) && len(o.Ranks) == 2*orders*Codes && o.Numbers() == 2,
			"%d outputs: columns %v, %d ranks", k, o.Columns, len(o.Ranks))
		assert.True(t, slices.Equal(ordersOf(9, s, 2).Ranks, o.Ranks), "the same seed has other orders")
		for order := 2; order < len(o.Columns); order++ {
			ranks := slices.Clone(o.RanksOf(order))
			slices.Sort(ranks)
			assert.True(t, ranks[0] == 0 && ranks[255] == 255 && len(slices.Compact(ranks)) == Codes, "%d outputs: order %d: %v", k, order, ranks)
		}
		if k > 2 {
			assert.True(t, !slices.Equal(o.RanksOf(2), o.RanksOf(3)), "both orders of a column are the same")
			continue
		}
		sums, counts := [Codes]float64{}, [Codes]float64{}
		for i := range s.weights {
			code := s.codes[i*4+3]
			counts[code]++
			sums[code] += float64(s.residuals[i*k+k-1])
			if sums[code] -= float64(s.residuals[i*k]) * float64(k-1); k == 1 {
				sums[code] -= 2 * float64(s.residuals[i])
			}
		}
		ranks := o.RanksOf(3)
		for a := range Codes {
			for b := range a {
				x, y := sums[a]/(counts[a]/4+10), sums[b]/(counts[b]/4+10)
				if x < y && ranks[a] > ranks[b] || x >= y && ranks[a] < ranks[b] {
					t.Fatalf("%d outputs: codes %d and %d of means %v and %v have ranks %d and %d", k, a, b, x, y, ranks[a], ranks[b])
				}
			}
		}
	}
}

// sample is n rows of a sample.
type sample struct {
	columns, outputs int
	codes            []uint8   // n × columns
	residuals        []float32 // n × outputs
	weights          []float32 // n
}

// dense returns the rows in the layout of Grow.
func (s sample) dense() kernel.Dense {
	rows := kernel.NewDense(len(s.weights), s.columns+s.outputs+1)
	for i, w := range s.weights {
		row := rows.Row(i)
		for j, code := range s.codes[i*s.columns:][:s.columns] {
			row[j] = float32(code)
		}
		copy(row[s.columns:], s.residuals[i*s.outputs:][:s.outputs])
		row[s.columns+s.outputs] = w
	}
	return rows
}

// sampleOf returns a sample of random codes, with integer residuals, so that their sums are exact, that depend on a few
// columns. Columns of numbers come first, columns of words last.
func sampleOf(seed uint64, n, columns, outputs int, weighted bool) sample {
	r := rand.New(rand.NewPCG(seed, 1))
	s := sample{columns, outputs, make([]uint8, n*columns), make([]float32, n*outputs), slices.Repeat([]float32{1}, n)}
	for i := range s.codes {
		s.codes[i] = uint8(r.IntN(2 + i%columns*60%255)) // columns of 2 values to all
	}
	for i := range s.residuals {
		s.residuals[i] = float32(r.IntN(9)-4) + float32(s.codes[i/outputs*columns]%4) - float32(s.codes[i/outputs*columns+columns-1]/64)
	}
	for i := range s.weights {
		if weighted {
			s.weights[i] = float32(1 + r.IntN(3))
		}
	}
	return s
}

// ordersOf returns orders of columns, the last of which are of words.
func ordersOf(seed uint64, s sample, words int) Orders {
	numbers := make([]int, s.columns)
	for j := range numbers {
		numbers[j] = j
	}
	numbers, last := numbers[:s.columns-words], numbers[s.columns-words:]
	sums := make([]float64, words*Codes*(s.outputs+1))
	for j, column := range last {
		for i := range s.weights {
			of := sums[(j*Codes+int(s.codes[i*s.columns+column]))*(s.outputs+1):]
			for c, r := range s.residuals[i*s.outputs:][:s.outputs] {
				of[c] += float64(r)
			}
			of[s.outputs] += 0.25
		}
	}
	return NewOrders(numbers, last, sums, seed, 0)
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

// A code is one more than the number of edges below the value.
func TestEncode(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	inf := float32(math.Inf(1))
	for _, edges := range [][]float32{nil, {0}, {-inf, -1, 0, 1e-40, 2, inf}, WordEdges(MaxWords), edgesOf(r, 250), edgesOf(r, 3)} {
		values := []float32{float32(math.NaN()), -float32(math.NaN()), 0, float32(math.Copysign(0, -1)), inf, -inf}
		values = append(values, math.MaxFloat32, -math.MaxFloat32, 1e-45, -1e-45)
		for _, edge := range edges {
			values = append(values, edge, math.Nextafter32(edge, inf), math.Nextafter32(edge, -inf))
		}
		for _, x := range values {
			want := uint8(1)
			for _, edge := range edges {
				if edge < x {
					want++
				}
			}
			if x != x {
				want = 0
			}
			got := CodeOf(edges, x)
			assert.True(t, got == want, "%v has the code %d, want %d, of edges %v", x, got, want, edges)
		}
	}
}

func edgesOf(r *rand.Rand, n int) []float32 {
	values := make([]float32, 40*n)
	for i := range values {
		values[i] = float32(r.NormFloat64())
	}
	return EdgesOf(slices.Sorted(slices.Values(values)))
}

// A sample has at most 250 codes per column. Up to 250 distinct values each get their own. A value that occurs in 1/250
// of the rows ends a bin, and other bins have about equally many rows.
func TestBinsOfASample(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{1, 2, 249, 250, 251, 1000, 20000} {
		for _, frequent := range []int{-1, 0, 1, 20, 200} {
			values := make([]float32, n)
			for i := range values {
				if values[i] = float32(r.ExpFloat64()); frequent > 0 && i%2 == 0 {
					values[i] = float32(i/2%frequent) / 3
				} else if frequent < 0 { // few values, many of them rare
					values[i] = float32(math.Floor(20 * float64(values[i])))
				}
			}
			edges := EdgesOf(slices.Sorted(slices.Values(values)))
			assert.NoError(t, CheckEdges(edges))
			codes := make([]uint8, n)
			for i, x := range values {
				codes[i] = CodeOf(edges, x)
			}
			rows, largest, count := map[uint8]int{}, map[uint8]float32{}, map[float32]int{}
			for i, code := range codes {
				rows[code]++
				largest[code] = max(largest[code], values[i])
				count[values[i]]++
			}
			assert.True(t, len(rows) <= MaxEdges+1 && len(edges) <= MaxEdges && len(rows) == len(edges)+1,
				"%d values have %d codes of %d edges", n, len(rows), len(edges))
			assert.True(t, len(count) > MaxEdges+1 || len(rows) == len(count),
				"%d values, of which %d are different, have %d codes", n, len(count), len(rows))
			for i, code := range codes {
				if x := values[i]; count[x]*(MaxEdges+1) >= n && x != largest[code] {
					t.Errorf("%v, which %d of %d rows have, does not end a bin, but %v", x, count[x], n, largest[code])
				}
			}
			for code, n := range rows {
				assert.True(t, n-count[largest[code]] <= len(values)/(MaxEdges+1)+1, "%d of %d rows share the code %d", n, len(values), code)
			}
		}
	}
}

func TestEdgesAreBetweenValues(t *testing.T) {
	assert.True(t, between(1, math.Nextafter32(1, 2)) == 1 && between(float32(math.Inf(-1)), 3) == float32(math.Inf(-1)),
		"an edge is not between its values")
}

func TestBinsFromOutside(t *testing.T) {
	for _, edges := range [][]float32{{1, 1}, {2, 1}, {float32(math.NaN())}, {1, float32(math.NaN())}, make([]float32, 255)} {
		assert.True(t, CheckEdges(edges) != nil, "%v: no error", edges)
	}
}
