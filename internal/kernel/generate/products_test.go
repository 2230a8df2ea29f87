package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The narrow products match the definition, the versions have the same bits, and neither accesses memory outside its
// matrices: dst or r, x, and w or sum fill the memory of the machine.
func TestProducts(t *testing.T) {
	files, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	text := string(files[assembly])
	for _, product := range []string{"mulNarrow", "crossNarrow"} {
		versions := []routine{routineOf(t, text, product+avx512.suffix), routineOf(t, text, product+avx2.suffix)}
		for _, n := range []int{1, 4, 6, 7, 8, 10, 13, 21} {
			for _, p := range []int{1, 7, 8, 16, 17, 33} {
				for _, k := range []int{1, 7, 8, 9, 15, 16} {
					const more = 3 // gap between two rows of the matrix, in values
					stride, strideX := k+more, p
					if product == "crossNarrow" {
						strideX += more
					}
					x, w := (n-1)*stride+k, (n-1)*stride+k+(n-1)*strideX+p // offsets of the matrices
					before := make([]uint32, w+narrow*p)
					r := rand.New(rand.NewPCG(uint64(n), uint64(p*narrow+k)))
					for i := range before {
						before[i] = math.Float32bits(float32(r.NormFloat64()))
					}
					at := func(i int) float64 { return float64(math.Float32frombits(before[i])) }
					want := make([]float64, len(before))
					for i := range want {
						want[i] = at(i)
					}
					for i := range n {
						for j := range p {
							for c := range k {
								if product == "mulNarrow" {
									want[i*stride+c] += at(x+i*strideX+j) * at(w+j*narrow+c)
								} else {
									want[w+j*narrow+c] += at(x+i*strideX+j) * at(i*stride+c)
								}
							}
						}
					}
					var first []uint32
					for version, code := range versions {
						m := machine{memory: slices.Clone(before), arguments: map[string]int{
							"dst": 0, "r": 0, "x": 4 * x, "w": 4 * w, "sum": 4 * w, "n": n, "p": p, "k": k, "stride": stride, "strideR": stride,
							"strideX": strideX,
						}}
						m.run(code)
						shape := fmt.Sprintf("%s, version %d, %d×%d×%d", product, version, n, p, k)
						for i, v := range m.memory {
							if got := float64(math.Float32frombits(v)); !(math.Abs(got-want[i]) <= 1e-4) || want[i] == at(i) && v != before[i] {
								t.Fatalf("%s: value %d is %v, expected %v", shape, i, got, want[i])
							}
						}
						if first == nil {
							first = m.memory
						} else if !slices.Equal(m.memory, first) {
							t.Fatalf("%s: other bits than version 0", shape)
						}
					}
				}
			}
		}
	}
}
