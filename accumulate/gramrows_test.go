package accumulate

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Rows that cross a topic have the Gram matrix that workers would have summed, bit for bit: over messages, segments, partitions, groups and
// increments that leave.
func TestGramOfRows(t *testing.T) {
	blas, err := kernel.Open("")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []int{1, 2, 63, 64, 65} {
		for _, leaving := range [][]float64{nil, {1}, {0.25, 0.1}} {
			for _, parts := range []int{1, 2, 5} {
				t.Run(fmt.Sprintf("%d columns, %d partitions, %v leave", p, parts, leaving), func(t *testing.T) {
					r := rand.New(rand.NewPCG(uint64(p), uint64(10*parts+len(leaving))))
					tree := coverage.Tree{Parts: parts, Group: 2}
					want, rows := NewReduction(tree), NewReduction(tree)
					var numbers []int
					for part := range parts {
						numbers = append(numbers, 3*part+1)
						gram, sent := partitionOfRows(t, blas, r, p, 3*part+1, leaving)
						if err := errors.Join(want.Add(part/2, gram), rows.Add(part/2, sent)); err != nil {
							t.Fatal(err)
						}
					}
					sent := arrowtest.Must(rows.Sum())(t)
					record := statistics.GramRowsRecord(wire.Identity{Kind: statistics.KindGramRows}, sent.Tensors())
					fields := arrowtest.Must(statistics.GramRowsOf(record))(t)
					buffers := &BufferPool{}
					of := GramOfRows{BLAS: blas, Buffers: buffers, Size: p * (p + 1) / 2, Partitions: numbers, Tree: tree}
					got := arrowtest.Must(of.Sum(fields, leaving))(t)
					if whole := arrowtest.Must(want.Sum())(t); !slices.Equal(gramField(got), gramField(whole)) {
						t.Errorf("%v, expected %v", gramField(got), gramField(whole))
					}
				})
			}
		}
	}
}

// partitionOfRows returns the Gram matrix of a partition's rows, as a worker sums it, and the rows.
func partitionOfRows(t *testing.T, blas *kernel.BLAS, r *rand.Rand, p, number int, leaving []float64) (gram, rows *Sum) {
	t.Helper()
	grams, rows := make([]Sum, max(len(leaving), 1)), &Sum{}
	for segment := range r.IntN(5) {
		at := GramPlace{Partition: number, Increment: r.IntN(len(grams)), Segment: segment}
		sums, keeps := Accumulator{BLAS: blas}, Accumulator{BLAS: blas}
		sums.Begin(p, 0, true)
		keeps.Begin(p, 0, false)
		for range r.IntN(4) {
			block, weights := kernel.NewDense(1+r.IntN(9), p), []float32(nil)
			for i := range block.Data {
				block.Data[i] = float32(r.NormFloat64())
			}
			whole := r.IntN(2) == 0
			for range block.Rows {
				w := float32(1)
				if !whole {
					w = float32(r.IntN(3)) / 3
				}
				weights = append(weights, w)
			}
			sums.AddGram(block, weights)
			keeps.AddGramRows(block, weights, at)
		}
		if err := errors.Join(grams[at.Increment].MergeWhole(sums.End(), nil, nil), rows.MergeWhole(keeps.End(), nil, nil)); err != nil {
			t.Fatal(err)
		}
	}
	if leaving == nil {
		grams[0].RoundGram()
		return grams[0].TakeGram(), rows
	}
	gram = &Sum{}
	for i := range grams {
		if field := gramField(&grams[i]); field != nil {
			AddRounded(gram.Field(statistics.FieldGram, len(field)), leaving[i], field)
		}
	}
	return gram, rows
}

// Rows of partitions or increments that the plan does not have, or in another order, are an error that wraps wire.ErrDamaged.
func TestGramOfRowsOfAnotherPlan(t *testing.T) {
	two := GramOfRows{BLAS: kernel.Gonum(), Size: 3, Partitions: []int{1, 2}, Tree: coverage.Tree{Parts: 2}}
	for name, batches := range map[string][]float64{
		"another partition": {4, 0, 0, 1}, "another order": {2, 0, 0, 1, 1, 0, 0, 1}, "another increment": {1, 1, 0, 1},
	} {
		n := len(batches) / 4
		fields := wire.Tensors[float64]{wire.Matrix(statistics.FieldGramBatches, n, 4, batches),
			wire.Matrix(statistics.FieldGramBlock, n, 2, make([]float64, 2*n))}
		if _, err := two.Sum(fields, nil); !errors.Is(err, wire.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A row of more columns than the block has is an error that wraps wire.ErrDamaged: its Gram matrix could exceed memory.
func TestGramOfRowsOfOtherColumns(t *testing.T) {
	one := GramOfRows{BLAS: kernel.Gonum(), Size: 3, Partitions: []int{1}, Tree: coverage.Tree{Parts: 1}}
	for _, columns := range []int{0, 1, 3, 1 << 20} {
		fields := wire.Tensors[float64]{wire.Matrix(statistics.FieldGramBatches, 1, 4, []float64{1, 0, 0, 1}),
			wire.Matrix(statistics.FieldGramBlock, 1, columns, make([]float64, columns))}
		if _, err := one.Sum(fields, nil); !errors.Is(err, wire.ErrDamaged) {
			t.Errorf("%d columns: %v", columns, err)
		}
	}
}
