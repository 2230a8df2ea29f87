package stages

import (
	"math"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/examples"
)

// Feature j is the product of the first projections of the features of the same patches without monomials.
func TestPatchPolynomial(t *testing.T) {
	f, stage := DefaultsOf(PatchPolynomial), 1
	f.Size, f.Degree, f.BandwidthScale, f.Patch, f.Filters, f.Grid, f.Mirror = 65, 3, 2, 3, 4, 2, true
	pooled := f
	pooled.Kind, pooled.Size = Patches, 0
	p, x := photographs(12, examples.Image{9, 8, 1})
	p.Learnt = learn(t, f, stage, p, x)
	block := expand(mustMap(t, f, stage, p, 0, true), x, kernel.Dense{})
	z := expand(mustMap(t, pooled, stage, p, 0, false), x, kernel.Dense{})
	const columns = 2 * 4 * 2 * 2
	if block.Cols != 66 || z.Cols != columns {
		t.Fatalf("%d columns of %d, expected 66 of %d", block.Cols, z.Cols, columns)
	}
	degrees, factors := NewStream(seed, stage, drawDegrees), 0
	for j := range 65 {
		n := 1 + degrees.Below(uint64(j), f.Degree)
		factors += n
		for i := range x.Rows {
			want := 1.0
			for l := range n {
				draws, sum := NewStream(seed, stage, drawDirections+16*uint64(l)), 0.0
				for c, v := range z.Row(i) {
					sum += math.Sqrt(1/(columns*f.BandwidthScale)) * draws.Normal(uint64(j*columns+c)) * float64(v)
				}
				want *= sum
			}
			if got := float64(block.Row(i)[j]); math.Abs(got-want) > 1e-3*(1+math.Abs(want)) {
				t.Fatalf("row %d, feature %d of %d factors is %v, expected %v", i, j, n, got, want)
			}
		}
	}
	if factors < 100 || block.Row(0)[65] != 1 {
		t.Errorf("%d factors, the intercept is %v", factors, block.Row(0)[65])
	}
	alone := expand(mustMap(t, f, stage, p, 0, true), x.Slice(3, 4), kernel.Dense{})
	if !slices.Equal(alone.Data, block.Row(3)) {
		t.Error("a row alone has other features")
	}
}
