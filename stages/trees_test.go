package stages

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/oracle"
	"github.com/stagewise/stagewise/internal/tree"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// mixed is a table with numbers and words.
func mixed(random *rand.Rand) oracle.Table { return oracle.NewTable(random, 1, 4, 1, 300, 1) }

// mapOf returns the map of a stage of trees over a table. It has no trees yet.
func mapOf(t *testing.T, table oracle.Table, leaves, trees int, intercept bool) *Map {
	t.Helper()
	d := table.Width()
	bins, edges := table.Bins()
	preparation := wire.Tensors[float32]{
		wire.Vector(statistics.TensorCenter, make([]float32, d)), wire.Vector(statistics.TensorScale, make([]float32, d)),
		wire.Vector(statistics.TensorSpread, []float32{1}), wire.Words[float32](statistics.TensorLabels, []string{"a", "b"}),
		wire.Matrix(statistics.TensorBins, len(table.Features), 2, bins), wire.Vector(statistics.TensorEdges, edges),
	}
	prepared := assert.Must(NewPreparation(schemas.Prepare{Scale: ScaleNone}, preparation))(t)
	f := DefaultsOf(Trees)
	f.Size, f.Leaves = leaves*trees, leaves
	problems := Check(f)
	assert.Need(t, len(problems) == 0, "%v", problems)
	return assert.Must(NewMap(f, 1, 0, prepared, 0, intercept))(t)
}

// The structure of a forest restores the forest, for any size.
func TestStructureIsTheForest(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, leaves := range []int{2, 5, 64} {
		for _, trees := range []int{1, 7} {
			want := mixed(random).Forest(random, leaves, trees)
			got, err := forestOf(StructureOf(want), leaves, trees)
			assert.True(t, err == nil && reflect.DeepEqual(got, want),
				"%d trees of %d leaves: trees of sizes %v that cut at %v, expected %v and %v, %v", trees, leaves, got.Sizes, got.Cuts, want.Sizes,
				want.Cuts, err)
		}
	}
}

// The block has a 1 in the columns of the intercept and of the leaves of a row, otherwise zeros. The leaves match a descent.
func TestExpandLeaves(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 3))
	for _, leaves := range []int{2, 5, 32, 33, 64} {
		for _, intercept := range []bool{false, true} {
			const trees = 7
			table := mixed(random)
			forest := table.Forest(random, leaves, trees)
			m := assert.Must(mapOf(t, table, leaves, trees, intercept).Grow(StructureOf(forest)))(t)
			assert.True(t, m.Leaves() == leaves && m.Trees() == trees && reflect.DeepEqual(m.Forest(), forest),
				"%d trees of %d leaves, expected %d of %d", m.Trees(), m.Leaves(), trees, leaves)
			for _, n := range []int{1, 64, 65} {
				x := table.Rows(random, n)
				var block kernel.Dense
				m.ExpandLeaves(&block, &tree.Leaves{}, m.coder.AppendCodes(nil, x))
				assert.Need(t, block.Rows == n && block.Cols == m.Size(), "a block of %d × %d, expected %d × %d", block.Rows, block.Cols, n, m.Size())
				for i := range n {
					want := make([]float32, m.Size())
					for tr := range trees {
						want[tr*leaves+oracle.Leaf(forest, tr, table.Codes(x.Row(i)))] = 1
					}
					if intercept {
						want[trees*leaves] = 1
					}
					assert.Need(t, slices.Equal(block.Row(i), want), "row %d of %d has the block %v, expected %v", i, n, block.Row(i), want)
				}
			}
		}
	}
}

// Each impossible number of a structure is damage, and so is each absent tensor or wrong length.
func TestStructuresThatCantBe(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 4))
	const leaves, trees = 5, 4
	table := mixed(random)
	m := mapOf(t, table, leaves, trees, true)
	good := StructureOf(table.Forest(random, leaves, trees))
	assert.Must(m.Grow(good))(t)
	refused := func(what string, change func(wire.Tensors[float32]) wire.Tensors[float32]) {
		bad := make(wire.Tensors[float32], 0, len(good))
		for _, tensor := range good {
			bad = append(bad, wire.Vector(tensor.Name, slices.Clone(tensor.Data)))
		}
		grown, err := m.Grow(change(bad))
		assert.True(t, errors.Is(err, wire.ErrDamaged) || errors.As(err, new(*wire.ShapeError)), "%s: a map %v, %v", what, grown, err)
	}
	for i, tensor := range good {
		covers := tensor.Name == statistics.TensorTreeCovers // numbers, which may be unknown
		for at := range tensor.Data {
			for _, v := range []float32{-1, 0.5, 256, 1 << 24, float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
				if covers && v > 0 && v <= math.MaxFloat32 {
					continue
				}
				refused(tensor.Name, func(s wire.Tensors[float32]) wire.Tensors[float32] { s[i].Data[at] = v; return s })
			}
		}
		if !covers {
			refused(tensor.Name+" absent", func(s wire.Tensors[float32]) wire.Tensors[float32] { return slices.Delete(s, i, i+1) })
		}
		refused(tensor.Name+" longer", func(s wire.Tensors[float32]) wire.Tensors[float32] {
			s[i] = wire.Vector(tensor.Name, append(s[i].Data, 0))
			return s
		})
		refused(tensor.Name+" of texts", func(s wire.Tensors[float32]) wire.Tensors[float32] {
			s[i] = wire.Words[float32](tensor.Name, make([]string, len(tensor.Data)))
			return s
		})
		refused(tensor.Name+" a matrix", func(s wire.Tensors[float32]) wire.Tensors[float32] {
			s[i] = wire.Matrix(tensor.Name, 1, len(tensor.Data), s[i].Data)
			return s
		})
	}
	set := func(name string, at int, v float32) func(wire.Tensors[float32]) wire.Tensors[float32] {
		return func(s wire.Tensors[float32]) wire.Tensors[float32] {
			tensor, _ := s.Find(name)
			if at < 0 {
				at += len(tensor.Data)
			}
			tensor.Data[at] = v
			return s
		}
	}
	refused("as many nodes as leaves", set(statistics.TensorTreeSizes, 0, leaves))
	refused("another number of nodes", set(statistics.TensorTreeSizes, 0, 1))
	refused("an order of a column that is not there", set(statistics.TensorTreeOrders, 0, 5))
	refused("an order of words without ranks", set(statistics.TensorTreeOrders, 0, 1))
	refused("ranks of numbers", set(statistics.TensorTreeOrders, -1, 0))
	refused("an order that is not there", set(statistics.TensorTreeCompared, 0, 7))
	refused("a left side of all nodes", set(statistics.TensorTreeLefts, 0, leaves-1))
}

// Trees need bins, and a block of leaves alone.
func TestTreesNeedBins(t *testing.T) {
	assert.MustFail(assert.Must(NewMap(DefaultsOf(Trees), 1, 0, plain(3, 4), 0, false))(t).Grow(nil))(t, ErrNoCodes, wire.ErrDamaged)
	for _, f := range []schemas.Features{Defaults(), DefaultsOf(Trees)} {
		for _, scores := range []bool{false, true} {
			problems := CheckStage(schemas.Stage{Features: f, Scores: scores}, schemas.Prepare{}, examples.OneLabel)
			assert.Equal(t, len(problems) > 0, scores && f.Kind == Trees, "%s with scores %v has problems", f.Kind, scores)
		}
	}
}
