package stages

import "github.com/stagewise/stagewise/schemas"

// Keys documents the keys under `stages.*.features`.
func Keys() []schemas.Key {
	return []schemas.Key{
		{Name: "kind", Meaning: "`rff` (random Fourier features), `logits` (sigmoids of random projections), `polynomial` (random monomials of random projections) or `columns` (a subset of the inputs)"},
		{Name: "size", Meaning: "number of features of the block. `columns`: the default is 0, all columns"},
		{Name: "bandwidth_scale", Meaning: "`rff`: the kernel is exp(-‖x-x'‖²/s), where s = median squared distance × this number"},
		{Name: "degree", Meaning: "`polynomial`: maximum degree of a monomial"},
		{Name: "replacement", Meaning: "`columns`: draw the columns with replacement"},
	}
}

// PrepareKeys documents the keys under `prepare`.
func PrepareKeys() []schemas.Key {
	return []schemas.Key{
		{Name: "scale", Meaning: "`none`, `standard` (divide each feature by its standard deviation) or `unit` (divide each example by its length)"},
		{Name: "pca", Meaning: "number of principal components. 0: use the features themselves"},
	}
}
