package main

import "github.com/stagewise/stagewise/internal/kernel"

// patches determines the products of features of kind patches. All are 0 for other features.
type patches struct {
	positions int // of patches in an image
	values    int // of a patch
	filters   int
}

// products are the operands of the products of one image.
type products struct {
	raw, white, responses kernel.Dense // positions × values, the same, positions × filters
	whitening, filters    kernel.Dense // values × values, values × filters
}

func newProducts(s patches) products {
	return products{
		raw: filled(s.positions, s.values, 1), white: kernel.NewDense(s.positions, s.values), responses: kernel.NewDense(s.positions, s.filters),
		whitening: filled(s.values, s.values, 0.3), filters: filled(s.values, s.filters, 0.3),
	}
}

// multiply makes the products of so many images: it whitens their patches, and multiplies them by the filters.
func (p *products) multiply(blas *kernel.BLAS, images int) {
	for range images {
		blas.Mul(p.white, p.raw, p.whitening, false)
		blas.Mul(p.responses, p.white, p.filters, false)
	}
}
