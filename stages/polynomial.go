package stages

import (
	"fmt"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/onnx"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas"
)

// Polynomial is the kind of random monomials: feature j is a product of 1 … degree projections w·x, with each w from
// N(0, 2/s·I) for the s of [RFF], and a uniformly drawn number of factors.
const Polynomial = "polynomial"

const maxDegree = 8

// drawDegrees is the purpose of the draws of the number of factors of monomials.
const drawDegrees = 4

func polynomial() Kind {
	return Kind{
		name:    Polynomial,
		Scaled:  true,
		meaning: "random monomials of random projections",
		keys: []option.Key{bandwidthScale(projectionBandwidth),
			{Name: "degree", Meaning: "the maximum number of factors of a monomial", Rule: option.Whole(1, maxDegree)}},
		minSize:  1,
		products: true,
		describe: func(f schemas.Features) string { return fmt.Sprintf("%d %s degree %d", f.Size, f.Kind, f.Degree) },
		draw:     drawMonomials,
	}
}

func drawMonomials(m *Map) drawn {
	factors, degrees := make([]projection, m.features.Degree), m.stream(drawDegrees)
	for l := range factors {
		factors[l] = m.project(m.stream(drawDirections+16*uint64(l)), func(j int) bool { return l > degrees.Below(uint64(j), m.features.Degree) })
	}
	return drawn{
		expand: func(blas *kernel.BLAS, dst kernel.Dense, scratch *kernel.Dense, x kernel.Dense) {
			factors[0].apply(blas, dst, x)
			for _, f := range factors[1:] {
				scratch.Reshape(dst.Rows, dst.Cols)
				f.apply(blas, *scratch, x)
				for i, v := range scratch.Data {
					dst.Data[i] *= v
				}
			}
		},
		node: func(g *onnx.Graph, x onnx.Value) onnx.Value {
			product := factors[0].add(g, x, m.size)
			for _, f := range factors[1:] {
				product = g.Node("Mul", product, f.add(g, x, m.size))
			}
			return product
		},
		slopes: productSlopes(factors),
	}
}
