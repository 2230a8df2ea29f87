package sink

import "github.com/stagewise/stagewise/internal/kernel"

// Cubic writes G(z) = (z, z², z³), elementwise, into dst (n × 3k): the basis in which Algorithm 2 learns the link. dst is
// reshaped.
func Cubic(dst *kernel.Dense, z kernel.Dense) {
	k := z.Cols
	dst.Reshape(z.Rows, 3*k)
	for i := range z.Rows {
		from, to := z.Row(i), dst.Row(i)
		for c, v := range from {
			to[c], to[k+c], to[2*k+c] = v, v*v, v*v*v
		}
	}
}
