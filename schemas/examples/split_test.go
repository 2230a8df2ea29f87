package examples

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Each row is in one fold, the folds are about as large, and no row is in a fold of none.
func TestFolds(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for _, of := range []int{2, 3, 5, 7, 10, 100} {
		rows := make([]int, of)
		for i := range 100_000 {
			hash := random.Uint64()
			if i < 2 {
				hash = []uint64{0, math.MaxUint64}[i]
			}
			in := 0
			for number := range of {
				if (Fold{number, of}).Has(hash) {
					in++
					rows[number]++
				}
			}
			if in != 1 {
				t.Fatalf("the hash %x is in %d of %d folds", hash, in, of)
			}
		}
		for number, n := range rows {
			if want := 100_000 / of; n < want*8/10 || n > want*12/10 {
				t.Errorf("fold %d of %d has %d rows", number, of, n)
			}
		}
	}
	if (Fold{}).Has(0) || (Fold{}).Has(math.MaxUint64) {
		t.Error("a row is in a fold of none")
	}
}
