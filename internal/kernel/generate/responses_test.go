package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The sums of rectified responses match the definition, the versions have the same bits, and neither writes outside its
// sums, which fill the memory of the machine with the rows, the filters and the tile.
func TestResponses(t *testing.T) {
	files, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	text := string(files[assembly])
	versions := []routine{routineOf(t, text, "addResponses"+avx512.suffix), routineOf(t, text, "addResponses"+avx2.suffix)}
	const threshold, tile = 0.5, 8 * narrow
	for n := 1; n <= 17; n++ {
		for _, shape := range [][2]int{{1, 0}, {4, 0}, {9, 0}, {3, 1}, {6, 6}, {8, 5}} {
			even, q := shape[0], shape[0]+shape[1]
			x := tile + 4*narrow
			w := x + n*q
			before := make([]uint32, w+q*narrow)
			r := rand.New(rand.NewPCG(uint64(n), uint64(q)))
			for i := range before {
				before[i] = math.Float32bits(float32(r.NormFloat64()))
			}
			at := func(i int) float64 { return float64(math.Float32frombits(before[i])) }
			want := make([]float64, len(before))
			for i := range want {
				want[i] = at(i)
			}
			for i := range n {
				for j := range narrow {
					same, changed := 0.0, 0.0
					for l := range q {
						if product := at(x+i*q+l) * at(w+l*narrow+j); l < even {
							same += product
						} else {
							changed += product
						}
					}
					sums := tile + j
					want[sums] += max(same+changed, threshold)
					want[sums+narrow] += max(-same-changed, threshold)
					if even < q {
						want[sums+2*narrow] += max(same-changed, threshold)
						want[sums+3*narrow] += max(changed-same, threshold)
					}
				}
			}
			var first []uint32
			for version, code := range versions {
				m := machine{memory: slices.Clone(before), numbers: map[string]float32{"threshold": threshold}, arguments: map[string]int{
					"tile": 0, "above": 4 * tile, "below": 4 * (tile + narrow), "mirroredAbove": 4 * (tile + 2*narrow),
					"mirroredBelow": 4 * (tile + 3*narrow),
					"x":             4 * x, "w": 4 * w, "n": n, "even": even, "odd": q - even,
				}}
				m.run(code)
				for i := tile; i < len(before); i++ {
					if got := float64(math.Float32frombits(m.memory[i])); !(math.Abs(got-want[i]) <= 1e-4) || want[i] == at(i) &&
						m.memory[i] != before[i] {
						t.Fatalf("version %d, %d×(%d + %d): value %d is %v, expected %v", version, n, even, q-even, i, got, want[i])
					}
				}
				if first == nil {
					first = m.memory[tile:]
				} else if !slices.Equal(m.memory[tile:], first) {
					t.Fatalf("version %d, %d×(%d + %d): other bits than version 0", version, n, even, q-even)
				}
			}
		}
	}
}
