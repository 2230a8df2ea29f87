package accumulate

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// Whichever records come, of partitions, of groups, or of the first groups, in any order and more than once, the sum has the bits of the
// partitions' own.
func TestReductionTakesAnyRecords(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		tree := coverage.Tree{Parts: 1 + r.IntN(40), Group: 1 + r.IntN(9)}
		values := make([]float64, tree.Parts)
		for i := range values {
			values[i] = r.NormFloat64() * math.Exp(10*r.NormFloat64())
		}
		// sumOf reduces the partitions from one to before another, which are those of a group or of the first groups.
		sumOf := func(from, to int) *Sum {
			part := NewReduction(coverage.Tree{Parts: to - from, Group: tree.Group})
			for group := range part.Groups() {
				for at, more := part.Next(group); more; at, more = part.Next(group) {
					if err := part.Add(group, covering(from+at, 0, 1, values[from+at])); err != nil {
						t.Fatal(err)
					}
				}
			}
			sum, err := part.Sum()
			if err != nil {
				t.Fatal(err)
			}
			return sum
		}
		want := sumOf(0, tree.Parts)
		come, whole := map[[2]int]*Sum{}, NewReduction(tree)
		for lacking := 0; lacking >= 0; {
			from := r.IntN(tree.Parts)
			to := from + 1
			switch first, end := tree.Range(from / tree.Size()); r.IntN(6) {
			case 0:
				from, to = first, end
			case 1:
				from, to = 0, end
			}
			if to-from == 1 || tree.Has(from, to-from) {
				come[[2]int{from, to}] = sumOf(from, to)
			}
			if r.IntN(3) > 0 {
				continue // more comes before the solver looks
			}
			var err error
			lacking, err = whole.AddReady(func(from, to int) (*Sum, error) {
				sum := come[[2]int{from, to}]
				delete(come, [2]int{from, to})
				return sum, nil
			})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		got, err := whole.Sum()
		if err != nil {
			t.Fatal(err)
		}
		if a, b := got.Field(statistics.FieldCross, 1, 1)[0], want.Field(statistics.FieldCross, 1, 1)[0]; a != b {
			t.Fatalf("seed %d: %+v sums to %v, expected %v", seed, tree, a, b)
		}
		mustEqual(t, got, want)
	}
}

// The sums of increments are the same after they were stacked.
func TestStack(t *testing.T) {
	for _, apart := range []bool{true, false} {
		sum := &Sum{}
		for _, place := range []int{0, 2} {
			of := statistics.Increment(place)
			copy(sum.Field(of.Visited(), 4), []float64{1, float64(place), 3, 4})
			if apart {
				copy(sum.Field(of.Terms(), 2, 1, 2), []float64{float64(place), 6, 7, 8})
			}
		}
		want := clone(sum)
		sum.Stack(3, apart, 1, 2)
		if got := len(sum.Tensors()); got != 1 && !apart || got != 2 && apart {
			t.Errorf("%d tensors", got)
		}
		if err := sum.Unstack(3, apart); err != nil {
			t.Fatal(err)
		}
		for _, field := range want.Tensors() {
			got, _ := sum.Tensors().Find(field.Name)
			if len(got.Data) != len(field.Data) || got.Data[0] != field.Data[0] || got.Data[1] != field.Data[1] {
				t.Errorf("%s is %v, expected %v", field.Name, got.Data, field.Data)
			}
		}
		sum.Stack(3, apart, 1, 2)
		if err := sum.Unstack(2, apart); err == nil {
			t.Error("an increment that the plan does not have was taken")
		}
	}
}
