package stages

import (
	"math"

	"github.com/stagewise/stagewise/internal/kernel"
)

// Mirroring an image permutes the values of a patch. If patches are mirrored as often as not, their covariance is
// invariant to mirroring, and so is its inverse square root: the whitened patch of a mirrored image is the mirrored
// whitened patch. Then sums of two swapped whitened values are the same, their differences are negated, and the
// responses of an image and of its mirror image share their products.

// placesOfMirrored returns the index of each value of a patch after the image is mirrored.
func placesOfMirrored(size, channels int) []int {
	places := make([]int, size*size*channels)
	for i := range places {
		pixel, channel := i/channels, i%channels
		row, column := pixel/size, pixel%size
		places[i] = (row*size+size-1-column)*channels + channel
	}
	return places
}

// asMirrored sets swapped values to their mean, with equal bits.
func asMirrored[T float32 | float64](values []T, places []int) {
	for i, j := range places {
		if i < j {
			values[i] = (values[i] + values[j]) / 2
			values[j] = values[i]
		}
	}
}

// placesOfProducts returns the permutation of the elements of a matrix whose rows and columns are permuted.
func placesOfProducts(places []int) []int {
	n := len(places)
	products := make([]int, n*n)
	for i, row := range places {
		for j, column := range places {
			products[i*n+j] = row*n + column
		}
	}
	return products
}

// isAsMirrored reports whether all swapped values are equal.
func isAsMirrored(values []float32, places []int) bool {
	for i, j := range places {
		if values[i] != values[j] {
			return false
		}
	}
	return true
}

// turned returns the matrix that transforms sums and differences as x (q × q) transforms the values of rows.
func turned(x kernel.Dense, places []int) kernel.Dense {
	for range 2 {
		for i := range x.Rows {
			sumsAndDifferences(x.Row(i), places)
		}
		x = transpose(x)
	}
	return x
}

// fold applies sumsAndDifferences to the patch row at each position of each image row, and writes the sums and the
// differences separately: windows of the results are patches of sums, and patches of differences.
func (b *filterBank) fold(sums, differences, pixels []float32) {
	const factor = 1 / math.Sqrt2
	size, channels := b.features.Patch, b.image.Channels()
	for y := range b.image.Height() {
		for x := range b.across.positions() {
			row := pixels[(y*b.image.Width()+x)*channels:][:size*channels]
			for left, right := 0, (size-1)*channels; left <= right; left, right = left+channels, right-channels {
				for c := range channels {
					if left == right {
						sums[c] = row[left+c]
						continue
					}
					sums[c], differences[c] = (row[left+c]+row[right+c])*factor, (row[left+c]-row[right+c])*factor
				}
				sums = sums[channels:]
				if left < right {
					differences = differences[channels:]
				}
			}
		}
	}
}

// evenValues returns the number of values before the differences in the result of sumsAndDifferences.
func evenValues(places []int) int {
	n := 0
	for i, j := range places {
		if i <= j {
			n++
		}
	}
	return n
}

// sumsAndDifferences replaces the values of a patch by the sums of swapped values and the unswapped values, and then
// the differences. Sums and differences are divided by √2, so that inner products stay the same.
func sumsAndDifferences(values []float32, places []int) {
	sums, differences := make([]float32, 0, len(values)), make([]float32, 0, len(values)/2)
	for i, j := range places {
		switch a, b := float64(values[i]), float64(values[j]); {
		case i == j:
			sums = append(sums, values[i])
		case i < j:
			sums = append(sums, float32((a+b)/math.Sqrt2))
			differences = append(differences, float32((a-b)/math.Sqrt2))
		}
	}
	copy(values, append(sums, differences...))
}
