package kernel

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

// widths straddle the lanes of the vector instructions and the tiles of rows.
var widths = []int{1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65}

// patterns returns the bits of the values; all NaN have the same.
func patterns(x []float32) []uint32 {
	b := make([]uint32, len(x))
	for i, v := range x {
		if b[i] = math.Float32bits(v); v != v {
			b[i] = 1<<32 - 1
		}
	}
	return b
}

// The AVX2 and AVX-512 loops do the same operations in the same order: their results are bitwise identical, and values
// past the end do not change.
func TestLoopsHaveTheSameBits(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, cols := range widths {
		const rows = 5
		offsets, scales := random(1, cols, 2).Data, random(1, cols, 3).Data
		source := random(rows+1, cols, 1)
		for i := range source.Data {
			source.Data[i] *= 20
		}
		source.Data[0], source.Data[cols] = nan, -inf
		source.Data[len(source.Data)-cols-1] = inf
		raw := make([]uint8, cols)
		for i := range raw {
			raw[i] = uint8(255 - 3*i)
		}
		var first []uint32
		withEachAcceleration(t, func(t *testing.T) {
			if !hasAVX2() {
				return
			}
			var all []float32
			apply := func(name string, f func(x Dense)) {
				x := Dense{Rows: rows + 1, Cols: cols, Data: slices.Clone(source.Data)}
				f(x.Slice(0, rows))
				if !slices.Equal(x.Row(rows), source.Row(rows)) {
					t.Errorf("%s of %d columns wrote past its rows", name, cols)
				}
				all = append(all, x.Data...)
			}
			apply("Cosine", func(x Dense) { Cosine(x, offsets, 0.3) })
			apply("Standardize", func(x Dense) { Standardize(x, offsets, scales) })
			apply("FromBytes", func(x Dense) { FromBytes(x.Row(rows-1), raw) })
			apply("AddLeafRows", func(x Dense) {
				AddLeafRows(x.Data, []uint8{0, 1, 1, 0, 1, 1, 0, 0, 1, 0, 1, 1, 0, 0, 1}, random(6, cols, 4).Data, rows, 2, cols)
			})
			apply("SoftmaxRows", func(x Dense) {
				logs, columns := make([]float64, rows), make([]int32, rows)
				SoftmaxRows(x, logs, columns)
				for i, log := range logs {
					all = append(all, float32(log), float32(columns[i]))
				}
			})
			apply("AddColumns", func(x Dense) {
				sums := make([][]float64, 3)
				for i := range sums {
					sums[i] = slices.Repeat([]float64{1}, cols+1)
				}
				AddColumns(sums[0][:cols], sums[1][:cols], sums[2][:cols], x, offsets, []float32{1, 0, 2, 0.5, 1})
				for _, sum := range sums {
					if sum[cols] != 1 {
						t.Errorf("AddColumns of %d columns wrote past its sums", cols)
					}
					for _, v := range sum {
						all = append(all, float32(v))
					}
				}
			})
			if first == nil {
				first = patterns(all)
			}
			if got := patterns(all); !slices.Equal(got, first) {
				at := 0
				for got[at] == first[at] {
					at++
				}
				t.Errorf("%d columns: value %d of %d is %v, expected the bits of %v", cols, at, len(got), all[at], math.Float32frombits(first[at]))
			}
		})
	}
}

func TestUseVector(t *testing.T) {
	defer restoreVector()()
	blas := Gonum()
	best := blas.Vector()
	if err := UseVector(""); err != nil || blas.Vector() != best {
		t.Errorf("no choice: %v, and the instructions are %s instead of %s", err, blas.Vector(), best)
	}
	var wrong *VectorError
	for _, choice := range []string{"AVX2", "sse", "go", "avx512,avx2"} {
		if err := UseVector(choice); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "not known, expected ") || blas.Vector() != best {
			t.Errorf("%q: %v, and the instructions are %s", choice, err, blas.Vector())
		}
	}
	if hasAVX2() {
		if err := UseVector(vectorAVX2); err != nil || blas.Vector() != vectorAVX2 {
			t.Errorf("avx2: %v, and the instructions are %s", err, blas.Vector())
		}
		const want = `vector instructions "avx512": this machine does not have them, expected avx2 or none`
		if err := UseVector(vectorAVX512); err == nil || err.Error() != want {
			t.Errorf("avx512 without it: %v, expected %s", err, want)
		}
	}
	if err := UseVector(vectorNone); err != nil || blas.Vector() != "go" {
		t.Errorf("none: %v, and the instructions are %s", err, blas.Vector())
	}
	const want = `vector instructions "avx2": this machine does not have them, expected none`
	if err := UseVector(vectorAVX2); err == nil || err.Error() != want {
		t.Errorf("avx2 without it: %v, expected %s", err, want)
	}
}
