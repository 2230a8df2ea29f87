package kernel

import (
	"math"
	"slices"
	"testing"
)

// A product with directions overwrites dst. In the assembly loops, the bits of a row do not depend on the other rows.
func TestDirectionsAgainstFloat64(t *testing.T) {
	withEachAcceleration(t, func(t *testing.T) {
		for _, b := range backends(t) {
			for _, n := range []int{1, 4, 6, 63, 64, 65} {
				for _, p := range []int{1, 15, 16, 17, 50, 65} {
					for _, k := range []int{1, 8, 15, 16, 17, 63, 64, 65, 127, 128, 129, 250} {
						x, w, dst := random(n, p, 1), random(p, k, 2), fill(n, k, float32(math.NaN()))
						directions := NewDirections(w)
						if !slices.Equal(directions.Dense().Data, w.Data) {
							t.Fatalf("%d×%d: the directions have another matrix", p, k)
						}
						b.Product(dst, x, directions)
						want, scale := product(x, w, false)
						wide := fill(n, k+5, 7)
						b.ProductInto(wide, 2, x, directions)
						for i := range n {
							for j, v := range wide.Row(i) {
								if j < 2 || j >= k+2 {
									if v != 7 {
										t.Fatalf("%s: %d×%d×%d: column %d beside the product is %v", b.Name(), n, p, k, j, v)
									}
								} else if !(math.Abs(float64(v)-want[i*k+j-2]) <= 1e-6*scale) {
									t.Fatalf("%s: %d×%d×%d: column %d of a wider matrix is %v, want %v", b.Name(), n, p, k, j, v, want[i*k+j-2])
								}
							}
						}
						for i, v := range dst.Data {
							if !(math.Abs(float64(v)-want[i]) <= 1e-6*scale) {
								t.Fatalf("%s: %d×%d×%d: value %d is %v, want %v", b.Name(), n, p, k, i, v, want[i])
							}
						}
						one := NewDense(1, k)
						if b.Product(one, x.Slice(n-1, n), directions); directions.panels != nil && !slices.Equal(one.Data, dst.Row(n-1)) {
							t.Fatalf("%s: %d×%d×%d: the last row alone has other bits", b.Name(), n, p, k)
						}
					}
				}
			}
		}
	})
}
