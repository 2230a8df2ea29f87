package accumulate

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/spill"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// sumOfColumns returns the sum of a partition with fields by column, between others; without rows: without these.
func sumOfColumns(r *rand.Rand, p, k, number int, rows bool) *Sum {
	sum := &Sum{Coverage: coverage.Coverage{Spans: coverage.Spans{{Partition: number, To: 1}}}}
	if rows {
		for i := range sum.Field(statistics.FieldCross, p, k) {
			sum.Field(statistics.FieldCross, p, k)[i] = r.NormFloat64()
		}
	}
	sum.Field(statistics.FieldOverflow, 1)[0] = float64(number)
	if rows {
		for i := range sum.Field(statistics.FieldDiagonal, p) {
			sum.Field(statistics.FieldDiagonal, p)[i] = r.ExpFloat64()
		}
	}
	return sum
}

// Sums that are spilled while others are made have the fields and the bits of sums that stay in memory, in whatever order groups come, and
// also beside partitions without rows. The sums of the next visit reuse the file.
func TestSpilledSums(t *testing.T) {
	const k, parts = 2, 5
	for _, p := range []int{1, spillWindow/k - 1, spillWindow + 3} {
		file := spill.New(t.TempDir())
		defer file.Close()
		for visit, groups := range [][]int{{0, 0, 1, 1, 2}, {1, 0, 1, 2, 0}, {2, 1, 1, 0, 0}, {0, 1, 0, 1, 2}} {
			reduce := func(spills bool) *Sum {
				r, reduction := rand.New(rand.NewPCG(uint64(visit), 7)), NewReduction(coverage.Tree{Parts: parts, Group: 2})
				reduction.Crosses = &CrossPool{}
				for i, group := range groups {
					part, _ := reduction.Next(group)
					if err := reduction.Add(group, sumOfColumns(r, p, k, part, part != visit)); err != nil {
						t.Fatal(err)
					}
					if spills && i < parts-1 {
						if err := reduction.Spill(file); err != nil {
							t.Fatal(err)
						}
					}
				}
				sum, err := reduction.Sum()
				if err != nil {
					t.Fatal(err)
				}
				return sum
			}
			got, want := reduce(true), reduce(false)
			if !reflect.DeepEqual(got.Tensors(), want.Tensors()) || !got.Coverage.Same(want.Coverage) {
				t.Errorf("%d columns, visit %d: the spilled sum differs", p, visit)
			}
		}
		if size, most := file.Place(1), 3*(p*k+p); size > most {
			t.Errorf("%d columns: the file has %d values, expected at most %d", p, size, most)
		}
	}
}

// A spilled sum of partitions that those of their group, or of the first groups, replace leaves no place in use.
func TestSpilledSumsThatAreReplaced(t *testing.T) {
	const p, k = 9, 2
	file, r := spill.New(t.TempDir()), rand.New(rand.NewPCG(1, 1))
	defer file.Close()
	for range 3 {
		reduction := NewReduction(coverage.Tree{Parts: 6, Group: 2})
		reduction.Crosses = &CrossPool{}
		group, first := sumOfColumns(r, p, k, 0, true), sumOfColumns(r, p, k, 1, true)
		want := slices.Clone(first.Tensors())
		for _, add := range []func() error{
			func() error { return reduction.Add(0, sumOfColumns(r, p, k, 0, true)) },
			func() error { return reduction.Add(1, sumOfColumns(r, p, k, 2, true)) },
			func() error { return reduction.AddGroup(0, group) },
			func() error { return reduction.AddFirst(3, first) },
		} {
			if err := add(); err != nil {
				t.Fatal(err)
			}
			if reduction.First() == 3 {
				break
			}
			if err := reduction.Spill(file); err != nil {
				t.Fatal(err)
			}
		}
		got, err := reduction.Sum()
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got.Tensors(), want) {
			t.Error("the sum of the first groups differs")
		}
	}
	if size, most := file.Place(1), 2*(p*k+p); size > most {
		t.Errorf("the file has %d values, expected at most %d", size, most)
	}
}

// A spilled sum has no field by column in memory, and a file that can't be read or written is an error.
func TestSpillFails(t *testing.T) {
	r, file := rand.New(rand.NewPCG(1, 1)), spill.New(t.TempDir())
	sum, other := sumOfColumns(r, 9, 2, 0, true), sumOfColumns(r, 9, 2, 1, true)
	if err := sum.Spill(file, nil); err != nil {
		t.Fatal(err)
	}
	for _, f := range sum.Tensors() {
		if byColumn(f.Name) && f.Data != nil {
			t.Errorf("%s is in memory", f.Name)
		}
	}
	file.Close()
	if err := sum.MergeWhole(sumOfColumns(r, 9, 2, 2, true), nil, nil); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("a file that can't be read: %v", err)
	}
	if err := other.MergeWhole(sum, nil, nil); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("the sum that is merged can't be read: %v", err)
	}
	if err := other.Spill(file, nil); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("a file that can't be written: %v", err)
	}
}
