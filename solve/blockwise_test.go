package solve

import (
	"errors"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// blockSums returns the sums of a visit with a step, including the Gram matrix of its block.
func (pr *problem) blockSums(l schemas.Link, step Step) wire.Tensors[float64] {
	sums := pr.sparseSums(l, step.W)
	if step.Block == nil {
		return sums
	}
	columns := slices.Clone(step.Block)
	for j := pr.shape.Penalised; j < pr.shape.Columns; j++ {
		columns = append(columns, int32(j))
	}
	cross, _ := sums.Find(statistics.FieldCross)
	k := pr.shape.Classes
	var gram, own []float64
	for a, i := range columns {
		for _, j := range columns[:a+1] {
			sum := 0.0
			for row, weight := range pr.weight {
				sum += weight * pr.x.At(row, int(i)) * pr.x.At(row, int(j))
			}
			gram = append(gram, sum)
		}
	}
	for _, j := range columns {
		own = append(own, cross.Data[int(j)*k:(int(j)+1)*k]...)
	}
	sums = slices.DeleteFunc(sums, func(t wire.Tensor[float64]) bool { return t.Name == statistics.FieldCross })
	var packed []float64 // nonzero values, each after its index
	for place, v := range gram {
		if v != 0 {
			packed = append(packed, float64(place), v)
		}
	}
	return append(sums, wire.Matrix(statistics.FieldBlock, len(packed)/2, 2, packed), wire.Matrix(statistics.FieldCross, len(columns), k, own))
}

// fitBlocks makes the visits of a fit in blocks. It returns the weights at the end, the evaluations and the blocks.
func fitBlocks(t *testing.T, pr *problem, stage schemas.Stage, size int) (w []float32, passes []*Evaluation, blocks [][]int32) {
	t.Helper()
	visits, final, _ := sparseVisits(t, pr, stage, size)
	for _, v := range visits[1:] {
		blocks = append(blocks, v.block)
	}
	return final.W, evaluations(visits), blocks
}

// Blocks of any size reach the same minimum as all columns at once, and no pass raises J.
func TestBlocksFindTheMinimum(t *testing.T) {
	for _, l := range []schemas.Link{link.Identity, link.Softmax} {
		pr := sparseProblem(3, 300, 12, 3)
		stage := Defaults()
		stage.Link, stage.Passes, stage.Ridge, stage.Method = l, 500, 0.2, MethodLBFGS
		if l == link.Identity {
			stage.Method = MethodCG
		}
		want, _, _ := fitSparse(t, pr, stage)
		for _, size := range []int{1, 3, 5, 11, 100} {
			got, passes, _ := fitBlocks(t, pr, stage, size)
			for i, v := range got {
				assert.Near(t, float64(v), float64(want[i]), 1e-3, "%s, blocks of %d: weight %d", l, size, i)
			}
			for i, e := range passes {
				assert.True(t, e.Accepted && e.Number == i+1, "%s, blocks of %d: pass %d: %+v", l, size, i+1, e)
			}
		}
	}
}

// In a round each nonzero column has one turn. The first block has the columns with the largest gradient by their norm.
func TestBlocksTakeTurns(t *testing.T) {
	pr := sparseProblem(4, 200, 12, 2)
	stage := Defaults()
	stage.Link, stage.Passes, stage.Ridge = link.Identity, 10, 0.1
	_, _, blocks := fitBlocks(t, pr, stage, 3)
	assert.Need(t, len(blocks) == 9 && blocks[4] == nil, "the blocks %v in 10 passes", blocks) // the passes 1 and 6 choose blocks
	for round := range 2 {
		had := slices.Concat(blocks[5*round : 5*round+4]...)
		slices.Sort(had)
		// column 10 is 0 in all rows, and column 11 is the intercept
		assert.Equal(t, had, []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, "columns of round %d", round)
	}
	sums := pr.sparseSums(stage.Link, nil)
	cross, _ := sums.Find(statistics.FieldCross)
	squares, _ := sums.Find(statistics.FieldDiagonal)
	gradient, total, trace := mat.NewDense(12, 2, cross.Data), 0.0, 0.0
	for _, w := range pr.weight {
		total += w
	}
	for _, s := range squares.Data[:11] {
		trace += s
	}
	fall := func(j int32) float64 {
		g := mat.Norm(gradient.RowView(int(j)), 2) / total
		return g * g / (squares.Data[j]/total + 0.1*trace/total/11)
	}
	for _, j := range blocks[0] {
		for i := range int32(10) {
			assert.True(t, slices.Contains(blocks[0], i) || fall(i) <= fall(j),
				"column %d is in the first block, and column %d is not, which lowers J by more", j, i)
		}
	}
}

// A stage ends after its rounds, with the last change of weights, even if passes are left. For other links a round is one step per block.
func TestBlocksEndAfterTheirRounds(t *testing.T) {
	for _, l := range []schemas.Link{link.Identity, link.Softmax} {
		for _, size := range []int{3, 10, 100} {
			for rounds := 1; rounds <= 3; rounds++ {
				pr := sparseProblem(4, 200, 12, 2) // column 10 is 0 in all rows, and column 11 is the intercept
				pr.shape.Rounds = rounds
				stage := Defaults()
				stage.Link, stage.Passes, stage.Ridge = l, MaxPasses, 0.1
				got, passes, blocks := fitBlocks(t, pr, stage, size)
				turns := map[int32]int{}
				for _, block := range blocks {
					for _, j := range block {
						turns[j]++
					}
				}
				for j := range int32(10) {
					assert.Equal(t, turns[j], rounds, "%s, blocks of %d, %d rounds: turns of column %d", l, size, rounds, j)
				}
				pr.shape.Rounds, stage.Passes = 0, len(passes)
				want, _, _ := fitBlocks(t, pr, stage, size)
				assert.True(t, slices.Equal(got, want), "%s, blocks of %d, %d rounds: the weights are not those of as many passes", l, size, rounds)
			}
		}
	}
}

func TestBlockOfStepIsChecked(t *testing.T) {
	shape := Shape{Columns: 5001, Penalised: 5000, Classes: 1}
	step := Step{Block: []int32{0, 4095, 4096, 4999}}
	assert.Equal(t, assert.Must(StepOf(step.Tensors(shape), shape))(t).Block, step.Block, "the block")
	step = Step{Changed: []int32{7, 4999}, Change: []float32{1, 2, 3}}
	got, err := StepOf(step.Tensors(shape), shape)
	assert.True(t, err == nil && slices.Equal(got.Changed, step.Changed) && slices.Equal(got.Change, step.Change),
		"%v by %v: %v", got.Changed, got.Change, err)
	change := wire.Tensors[float32]{wire.Matrix(statistics.TensorChanged, 1, 2, []float32{0, 3}), wire.Matrix(statistics.TensorChange,
		1, 1, []float32{1})}
	assert.MustFail(StepOf(change, shape))(t, new(*wire.ShapeError))
	for _, block := range [][]int32{{5000}, {3, 3}, {4, 3}, {-1}} {
		_, err := StepOf(Step{Block: block}.Tensors(shape), shape)
		assert.True(t, errors.Is(err, wire.ErrDamaged), "block %v: %v", block, err)
	}
	for _, digits := range [][]float32{{0.5, 0}, {0, 0.5}} {
		_, err := StepOf(wire.Tensors[float32]{wire.Matrix(statistics.TensorBlock, 1, 2, digits)}, shape)
		assert.True(t, errors.Is(err, wire.ErrDamaged), "digits %v: %v", digits, err)
	}
}
