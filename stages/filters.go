package stages

import (
	"math"
	"slices"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Values of the key `source`: the source of the filters.
const (
	SourceData     = "data"     // whitened patches of the sample
	SourceGaussian = "gaussian" // random directions
	SourceKMeans   = "kmeans"   // centroids of whitened patches by angle (Coates and Ng 2012)
)

func sources() []string { return []string{SourceData, SourceGaussian, SourceKMeans} }

// learnPatches finds the whitening, the filters and the moments of pooled responses in the survey's sample.
func learnPatches(l Learner, f schemas.Features, stage int, prepared *Preparation) (wire.Tensors[float32], error) {
	b, err := newFilterBank(f, prepared)
	if err != nil {
		return nil, err
	}
	sample, contrast := b.sample(l, stage)
	q := b.values
	mean, covariance := l.Covariance(l.BLAS, sample)
	products := placesOfProducts(b.places)
	if f.Mirror { // equivalent to a sample that also has each patch mirrored
		asMirrored(mean, b.places)
		asMirrored(covariance, products)
	}
	whitening, err := l.Whiten(covariance, q, f.Whiten)
	if err != nil {
		return nil, err
	}
	offset := kernel.NewDense(1, q)
	l.BLAS.Mul(offset, kernel.Dense{Rows: 1, Cols: q, Data: mean}, kernel.Dense{Rows: q, Cols: q, Data: whitening}, false)
	if f.Mirror { // equal up to rounding
		asMirrored(whitening, products)
		asMirrored(offset.Data, b.places)
	}
	b.whitenBy(whitening, offset.Data, contrast)
	filters := b.choose(l, stage, sample)
	b.filterBy(filters)
	pooled, factor := b.measurePooled(l)
	of := func(name string) string { return statistics.OfStage(name, stage) }
	return wire.Tensors[float32]{
		wire.Matrix(of(statistics.TensorWhitening), q, q, whitening), wire.Vector(of(statistics.TensorOffset), offset.Data),
		wire.Matrix(of(statistics.TensorFilters), q, f.Filters, filters.Data), wire.Vector(of(statistics.TensorContrast),
			[]float32{float32(contrast)}),
		wire.Vector(of(statistics.TensorMean), pooled), wire.Vector(of(statistics.TensorFactor), factor),
	}, nil
}

// sample draws patches (n × q) from the sample of images, each minus its mean and divided by its deviation. It also
// returns the constant added to their variances.
func (b *filterBank) sample(l Learner, stage int) (sample kernel.Dense, contrast float64) {
	draws := NewStream(l.Seed, stage, drawPatches)
	n := sampledPatches
	if l.Rows.Rows == 0 {
		n = 0
	}
	sample = kernel.NewDense(n, b.values)
	means, variances, pixels := make([]float64, n), make([]float64, n), make([]float32, b.image.Size())
	total := 0.0
	for i := range n {
		b.pixels(pixels, l.Rows.Row(draws.Below(3*uint64(i), l.Rows.Rows)))
		y, x := draws.Below(3*uint64(i)+1, b.down.positions()), draws.Below(3*uint64(i)+2, b.across.positions())
		b.patch(sample.Row(i), pixels, y, x)
		means[i], variances[i] = momentsOf(sample.Row(i))
		total += variances[i]
	}
	if contrast = float64(float32(b.features.Contrast * total / float64(max(n, 1)))); contrast == 0 {
		contrast = 1 // all patches are uniform
	}
	for i, variance := range variances {
		row, factor := sample.Row(i), 1/math.Sqrt(variance+contrast)
		for j, v := range row {
			row[j] = float32((float64(v) - means[i]) * factor)
		}
	}
	return sample, contrast
}

// momentsOf returns the mean and the variance of values.
func momentsOf(values []float32) (mean, variance float64) {
	sum, square := 0.0, 0.0
	for _, v := range values {
		sum += float64(v)
		square += float64(v) * float64(v)
	}
	n := float64(len(values))
	return sum / n, max(square-sum*sum/n, 0) / max(n-1, 1)
}

// rowsPerProduct is the number of patches that are multiplied at once.
const rowsPerProduct = 1000

// choose returns the filters (q × f), each of length 1.
func (b *filterBank) choose(l Learner, stage int, sample kernel.Dense) kernel.Dense {
	q, f, draws := b.values, b.features.Filters, NewStream(l.Seed, stage, drawFilters)
	rows := kernel.NewDense(f, q) // one filter per row
	if b.features.Source == SourceGaussian || sample.Rows == 0 {
		for j := range rows.Data {
			rows.Data[j] = float32(draws.Normal(uint64(j)))
		}
		scaleToOne(rows, make([]float32, q))
		return transpose(rows)
	}
	chosen := shuffled(draws, sample.Rows)
	for j := range f {
		copy(rows.Row(j), sample.Row(chosen[j%len(chosen)]))
	}
	rows = b.whitened(l.BLAS, rows)
	if b.features.Source == SourceKMeans {
		rows = means(l.BLAS, b.whitened(l.BLAS, sample), rows)
	}
	return transpose(rows)
}

// whitened returns whitened patches, each of length 1.
func (b *filterBank) whitened(blas *kernel.BLAS, x kernel.Dense) kernel.Dense {
	white := kernel.NewDense(x.Rows, x.Cols)
	blas.Mul(white, x, kernel.Dense{Rows: x.Cols, Cols: x.Cols, Data: b.whitening}, false)
	scaleToOne(white, b.offset)
	return white
}

// scaleToOne subtracts an offset from each row, and scales it to length 1.
func scaleToOne(x kernel.Dense, offset []float32) {
	kernel.ScaleRows(x, slices.Repeat([]float32{1}, x.Rows), offset, 1)
}

// means returns centroids of the patches x (n × q, of length 1), one per row, starting from the given ones. Each patch
// is assigned to the centroid with the largest absolute inner product, and weighted by that product (spherical k-means,
// Coates and Ng 2012).
func means(blas *kernel.BLAS, x, centroids kernel.Dense) kernel.Dense {
	var products kernel.Dense
	for range roundsOfMeans {
		columns, next := transpose(centroids), kernel.NewDense(centroids.Rows, centroids.Cols)
		copy(next.Data, centroids.Data) // the old centroid counts as one patch, so that no cluster is empty
		for from := 0; from < x.Rows; from += rowsPerProduct {
			part := x.Slice(from, min(from+rowsPerProduct, x.Rows))
			products.Reshape(part.Rows, centroids.Rows)
			blas.Mul(products, part, columns, false)
			for i := range part.Rows {
				nearest, product := 0, float32(0)
				for j, v := range products.Row(i) {
					if v > max(product, -product) || -v > max(product, -product) {
						nearest, product = j, v
					}
				}
				centroid := next.Row(nearest)
				for j, v := range part.Row(i) {
					centroid[j] += product * v
				}
			}
		}
		centroids = next
		scaleToOne(centroids, make([]float32, x.Cols))
	}
	return centroids
}

func transpose(x kernel.Dense) kernel.Dense {
	t := kernel.NewDense(x.Cols, x.Rows)
	for i := range x.Rows {
		for j, v := range x.Row(i) {
			t.Data[j*x.Rows+i] = v
		}
	}
	return t
}

// measurePooled returns the mean of each pooled response over the sample, and its scale factor.
func (b *filterBank) measurePooled(l Learner) (mean, factor []float32) {
	p := patchColumns(b.features)
	sums, squares := make([]float64, p), make([]float64, p)
	var scratch kernel.Dense
	row := kernel.NewDense(1, p)
	for i := range l.Rows.Rows {
		b.pool(l.BLAS, row, &scratch, l.Rows.Slice(i, i+1))
		for j, v := range row.Data {
			sums[j] += float64(v)
			squares[j] += float64(v) * float64(v)
		}
	}
	n, all := float64(max(l.Rows.Rows, 1)), 0.0
	mean, factor = make([]float32, p), make([]float32, p)
	variances := make([]float64, p)
	for j := range variances {
		average := sums[j] / n
		mean[j], variances[j] = float32(average), max(squares[j]/n-average*average, 0)
		all += variances[j] / float64(p)
	}
	for j, variance := range variances {
		if all > 0 {
			factor[j] = float32(1 / math.Sqrt(max(variance, rareResponse*rareResponse*all)))
		}
	}
	return mean, factor
}
