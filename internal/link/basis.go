package link

import (
	"slices"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/onnx"
)

// MaxPower is the largest power of a [Basis]: scores are bounded so that their cubes fit float32.
const MaxPower = 3

// Basis is the powers of predictions, ascending, on which Algorithm 2 fits a link. Nil means 1, 2 and 3, as in the
// paper: G(z) = (z, z², z³).
type Basis []int

// Powers returns the powers.
func (b Basis) Powers() []int {
	if b == nil {
		return []int{1, 2, MaxPower}
	}
	return b
}

// Valid reports whether the powers are from 1 to [MaxPower], ascending, and at least one.
func (b Basis) Valid() bool {
	powers := b.Powers()
	for i, power := range powers {
		if power < 1 || power > MaxPower || i > 0 && power <= powers[i-1] {
			return false
		}
	}
	return len(powers) > 0
}

// Len returns the number of powers.
func (b Basis) Len() int { return len(b.Powers()) }

// Expand writes G(z) of predictions (n × k), elementwise, into dst (n × k for each power), which is reshaped.
func (b Basis) Expand(dst *kernel.Dense, z kernel.Dense) {
	k, powers := z.Cols, b.Powers()
	dst.Reshape(z.Rows, len(powers)*k)
	for i := range z.Rows {
		from, to := z.Row(i), dst.Row(i)
		for c, v := range from {
			product, have := v, 1
			for j, power := range powers {
				for ; have < power; have++ {
					product *= v
				}
				to[j*k+c] = product
			}
		}
	}
}

// Add is [Basis.Expand] in a graph.
func (b Basis) Add(g *onnx.Graph, z onnx.Value) onnx.Value {
	var all []onnx.Value
	product, have := z, 1
	for _, power := range b.Powers() {
		for ; have < power; have++ {
			product = g.Node("Mul", product, z)
		}
		all = append(all, product)
	}
	if len(all) == 1 {
		return all[0]
	}
	return g.Along(1, "Concat", slices.Clip(all)...)
}
