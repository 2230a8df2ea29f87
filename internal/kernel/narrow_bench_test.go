package kernel

import (
	"fmt"
	"testing"

	"gonum.org/v1/gonum/blas"
)

// BenchmarkNarrow compares the loops of narrow products with the BLAS, for tiles of 64 rows of 1024 columns.
func BenchmarkNarrow(b *testing.B) {
	library, err := Open("")
	if err != nil {
		b.Fatal(err)
	}
	const rows, n, p = 16384, 64, 1024
	x := random(rows, p, 1)
	for _, k := range []int{8, 10, 26, 48, 49, 64, 65, 80, 100, 128, 129} {
		w, r, dst := random(p, k, 2), random(rows, k, 3), NewDense(n, k)
		moment := NewDense(p, k)
		for _, choice := range []string{"blas", vectorAVX512, vectorAVX2} {
			restore := restoreVector()
			if choice != "blas" {
				if err := UseVector(choice); err != nil {
					b.Log(err)
					continue
				}
			}
			l := NewWeights(w)
			var c Cross
			c.Begin(p, k)
			for name, do := range map[string]func(x, r Dense){
				"MulAdd": func(x, _ Dense) {
					if choice == "blas" {
						library.Mul(dst, x, w, true)
					} else {
						library.MulAdd(dst, x, l)
					}
				},
				"Cross": func(x, r Dense) {
					if choice == "blas" {
						library.routines.Sgemm(blas.Trans, blas.NoTrans, p, k, n, 1, x.Data, p, r.Data, k, 1, moment.Data, k)
					} else {
						c.add(library, x, r)
					}
				},
			} {
				b.Run(fmt.Sprintf("%s/k=%d/%s", name, k, choice), func(b *testing.B) {
					at := 0
					for b.Loop() {
						do(x.Slice(at, at+n), r.Slice(at, at+n))
						at = (at + n) % rows
					}
					b.ReportMetric(float64(b.N)*n*p*4/b.Elapsed().Seconds()/1e9, "GB/s")
				})
			}
			restore()
		}
	}
}
