package stages

import (
	"fmt"
	"math"
	"sync"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/onnx"
	"github.com/stagewise/stagewise/schemas"
)

// PatchPolynomial is the kind of random monomials of pooled patches: feature j is a product of 1 … degree projections
// w·z, where z are the features of [Patches] of the image, P of them, and w is from N(0, I/(P·bandwidth_scale)). The
// moments of z are 0 and 1, so that a projection has a variance of about 1 / bandwidth_scale.
const PatchPolynomial = "patch_polynomial"

func patchPolynomial() Kind {
	k := patches()
	k.name, k.meaning = PatchPolynomial, "random monomials of random projections of the features of `patches`"
	k.keys = append(k.keys, polynomial().keys...)
	k.minSize, k.products = 1, true
	k.defaults = func(f *schemas.Features) {
		size := f.Size
		patches().defaults(f)
		f.Size = size
	}
	k.describe = func(f schemas.Features) string {
		return fmt.Sprintf("%d %s degree %d of %s", f.Size, f.Kind, f.Degree, patches().describe(f))
	}
	k.blockSize = nil
	k.read = func(m *Map, prepared *Preparation) (func() drawn, error) {
		bank, err := readPatches(m, prepared)
		if err != nil {
			return nil, err
		}
		return func() drawn { return bank.monomials(m) }, nil
	}
	return k
}

// monomials makes the draws of a map of monomials of pooled patches.
func (b *filterBank) monomials(m *Map) drawn {
	p := patchColumns(m.features)
	products := drawMonomials(&Map{
		features: m.features, seed: m.seed, stage: m.stage, size: m.size, extra: m.extra,
		inputs: p, deviation: math.Sqrt(1 / (float64(p) * m.features.BandwidthScale)),
	})
	pooled, memory := b.drawn(), sync.Pool{New: func() any { return new(kernel.Dense) }}
	return drawn{
		expand: func(blas *kernel.BLAS, dst kernel.Dense, scratch *kernel.Dense, x kernel.Dense) {
			z := memory.Get().(*kernel.Dense)
			defer memory.Put(z)
			z.Reshape(x.Rows, p)
			pooled.expand(blas, *z, scratch, x)
			products.expand(blas, dst, scratch, *z)
		},
		node: func(g *onnx.Graph, x onnx.Value) onnx.Value { return products.node(g, pooled.node(g, x)) },
	}
}
