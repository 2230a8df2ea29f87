package solve

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/stagewise/stagewise/schemas"
)

// SurveySums is the reduced result of the survey's visit.
type SurveySums struct {
	// Sums are the moments of the training rows about Shift, a missing value
	// counting as Shift: sums and squares of each feature, present, and if there
	// are to be principal components gram.
	Sums   schemas.Tensors[float64]
	Shift  []float32 // d
	Sample []float32 // n × d raw rows, missing values as NaN
	Labels []string  // the classes
}

// maxClasses bounds what is taken for classes: more is a number to regress on.
const maxClasses = 10_000

// maxPCAFeatures is how many features principal components are taken of at most: the
// eigenvectors of 4096 take minutes, of 10,000 an hour and 5 GB.
const maxPCAFeatures = 4096

// WidthError says that so many components can't be had of so many features.
type WidthError struct{ Components, Features int }

func (e *WidthError) Error() string {
	if e.Features > maxPCAFeatures {
		return fmt.Sprintf("prepare.pca: of %d features; principal components are of at most %d, others have pca: 0", e.Features, maxPCAFeatures)
	}
	return fmt.Sprintf("prepare.pca: %d components of %d features", e.Components, e.Features)
}

// CheckWidth tells whether a preparation can be had of so many features: a
// *WidthError if not.
func CheckWidth(prepare schemas.Prepare, features int) error {
	if prepare.PCA > features || prepare.PCA > 0 && features > maxPCAFeatures {
		return &WidthError{prepare.PCA, features}
	}
	return nil
}

// LabelsError says that the labels can't be classes.
type LabelsError struct{ Classes int }

func (e *LabelsError) Error() string {
	if e.Classes == 0 {
		return "no example has a label"
	}
	return fmt.Sprintf("%d different labels: expected classes, at most %d", e.Classes, maxClasses)
}

// CheckClasses tells whether so many different labels are too many for classes;
// none may yet become some.
func CheckClasses(labels int) error {
	if labels > maxClasses {
		return &LabelsError{labels}
	}
	return nil
}

// Survey finds the preparation: centre, scale, principal directions, and the
// median squared distance between prepared rows. unit says that rows are
// divided by their length first, as they were in the sums.
func Survey(prepare schemas.Prepare, s SurveySums) (schemas.Tensors[float32], error) {
	d := len(s.Shift)
	if len(s.Labels) == 0 {
		return nil, &LabelsError{}
	}
	if err := CheckClasses(len(s.Labels)); err != nil {
		return nil, err
	}
	if err := CheckWidth(prepare, d); err != nil {
		return nil, err
	}
	weight := schemas.LossesOf(s.Sums)[schemas.Train].Weight
	if weight <= 0 {
		return nil, NoWeightError{}
	}
	first, err := s.Sums.Shaped(schemas.FieldSums, d)
	if err != nil {
		return nil, err
	}
	squares, err := s.Sums.Shaped(schemas.FieldSquares, d)
	if err != nil {
		return nil, err
	}
	present, err := s.Sums.Shaped(schemas.FieldPresent, d)
	if err != nil {
		return nil, err
	}
	center, scale := make([]float32, d), make([]float32, d)
	for j := range d {
		if present[j] == 0 {
			continue // never there: 0 whatever it is
		}
		if !finite(squares[j]) || !finite(first[j]) {
			return nil, &NotFiniteError{fmt.Sprintf("the variance of feature %d", j)}
		}
		mean := first[j] / present[j]
		center[j] = float32(float64(s.Shift[j]) + mean)
		variance := squares[j]/present[j] - mean*mean
		switch {
		case constant(variance, mean, float64(s.Shift[j])):
			scale[j] = 0
		case prepare.Scale == "standard":
			scale[j] = float32(1 / math.Sqrt(variance))
		default:
			scale[j] = 1
		}
	}
	tensors := schemas.Tensors[float32]{schemas.Vector(schemas.TensorCenter, center), schemas.Vector(schemas.TensorScale, scale)}
	var basis []float32
	if prepare.PCA > 0 {
		if basis, err = principal(s.Sums, first, scale, weight, prepare.PCA); err != nil {
			return nil, err
		}
		tensors = append(tensors, schemas.Matrix(schemas.TensorBasis, d, prepare.PCA, basis))
	}
	spread := spread(s.Sample, center, scale, basis, prepare)
	if !finite(float64(float32(spread))) {
		return nil, &NotFiniteError{"the distance between examples"}
	}
	return append(tensors, schemas.Vector(schemas.TensorSpread, []float32{float32(spread)}),
		schemas.Words[float32](schemas.TensorLabels, s.Labels)), nil
}

// constant tells a column whose variance is rounding: its values are float32,
// so around a value of 1 deviations below 1e-7 are not there.
func constant(variance, mean, shift float64) bool {
	least := 1e-7 * (math.Abs(shift) + math.Abs(mean))
	return !(variance > least*least)
}

// principal is the d × m directions of the largest variance of the scaled
// features, as columns, the largest component of each positive. Features that never
// change have none of it, and are left out of what is factored.
func principal(sums schemas.Tensors[float64], first []float64, scale []float32, weight float64, m int) ([]float32, error) {
	d := len(first)
	gram, err := sums.Shaped(schemas.FieldGram, d*(d+1)/2)
	if err != nil {
		return nil, err
	}
	basis := make([]float32, d*m)
	var varying []int
	for j, s := range scale {
		if s != 0 {
			varying = append(varying, j)
		}
	}
	n := len(varying)
	if n == 0 {
		return basis, nil
	}
	covariance := make([]float64, n*n)
	for a, i := range varying {
		for b, j := range varying[:a+1] {
			c := gram[i*(i+1)/2+j]/weight - first[i]/weight*first[j]/weight
			covariance[b*n+a] = c * float64(scale[i]) * float64(scale[j])
		}
	}
	if !finite(floats.Sum(covariance)) {
		return nil, &NotFiniteError{"the covariance of the features"}
	}
	var eigen mat.EigenSym
	if !eigen.Factorize(mat.NewSymDense(n, covariance), true) {
		return nil, &NotFiniteError{"the covariance of the features"}
	}
	var vectors mat.Dense
	eigen.VectorsTo(&vectors)
	for c := range min(m, n) {
		from, largest := n-1-c, 0.0 // values ascend
		for a := range n {
			if v := vectors.At(a, from); math.Abs(v) > math.Abs(largest) {
				largest = v
			}
		}
		sign := math.Copysign(1, largest)
		for a, i := range varying {
			basis[i*m+c] = float32(sign * vectors.At(a, from))
		}
	}
	return basis, nil
}

// median of numbers ≥ 0, the lower one of an even count. The bits of numbers ≥ 0
// are in the order of the numbers: those that begin with the bits of the median,
// digit by digit, are all that is left to be sorted.
func median(x []float64) float64 {
	const digit, few = 16, 1 << 12 // sorted before as many counts are cleared
	rank := (len(x) - 1) / 2
	for low := 64 - digit; low >= 0 && len(x) > few; low -= digit {
		counts := make([]int, 1<<digit)
		for _, v := range x {
			counts[math.Float64bits(v)>>low%(1<<digit)]++
		}
		top := 0
		for ; rank >= counts[top]; top++ {
			rank -= counts[top]
		}
		same := make([]float64, 0, counts[top])
		for _, v := range x {
			if math.Float64bits(v)>>low%(1<<digit) == uint64(top) {
				same = append(same, v)
			}
		}
		x = same
	}
	return slices.Sorted(slices.Values(x))[rank]
}

// strip is how many rows of the sample are worked on together, so that what is
// made of them stays in the cache: 1 MB of 2000 rows' products.
const strip = 64

// rounding is more than what a squared distance by products is off, as a part of
// the squares that it is the difference of: what is nearer is equal.
const rounding = 1e-13

// spread is the median squared distance between the prepared rows of the
// sample; their mean if more than half of the pairs are of equal rows, and 1 if
// all are, so that it can be divided by.
func spread(sample, center, scale, basis []float32, prepare schemas.Prepare) float64 {
	rows := preparedSample(sample, center, scale, basis, prepare)
	n, width := rows.Dims()
	if n < 2 {
		return 1
	}
	lengths, distances := make([]float64, n), make([]float64, 0, n*(n-1)/2)
	for i := range n {
		lengths[i] = floats.Dot(rows.RawRowView(i), rows.RawRowView(i))
	}
	var products mat.Dense
	for from := 0; from < n; from += strip {
		to := min(from+strip, n)
		products.Reset()
		products.Mul(rows.Slice(from, to, 0, width), rows.Slice(from, n, 0, width).T())
		for i := from; i < to; i++ {
			others := lengths[i+1:]
			for j, product := range products.RawRowView(i - from)[i+1-from:] {
				both := lengths[i] + others[j]
				distance := both - 2*product
				if distance < rounding*both {
					distance = 0
				}
				distances = append(distances, distance)
			}
		}
	}
	for _, s := range []float64{median(distances), stat.Mean(distances, nil)} {
		if float32(s) > 0 {
			return s
		}
	}
	return 1
}

// preparedSample is the sample's rows prepared, as wide as a stage's inputs.
func preparedSample(sample, center, scale, basis []float32, prepare schemas.Prepare) *mat.Dense {
	d := len(center)
	n := len(sample) / d
	if n == 0 {
		return &mat.Dense{}
	}
	if basis == nil {
		rows := mat.NewDense(n, d, nil)
		prepareRows(rows, sample, center, scale, prepare)
		return rows
	}
	rows, raw, directions := mat.NewDense(n, prepare.PCA, nil), mat.NewDense(strip, d, nil), mat.NewDense(d, prepare.PCA, nil)
	for i, v := range basis {
		directions.RawMatrix().Data[i] = float64(v)
	}
	for from := 0; from < n; from += strip {
		to := min(from+strip, n)
		some := raw.Slice(0, to-from, 0, d).(*mat.Dense)
		prepareRows(some, sample[from*d:to*d], center, scale, prepare)
		rows.Slice(from, to, 0, prepare.PCA).(*mat.Dense).Mul(some, directions)
	}
	return rows
}

// prepareRows prepares as many raw rows as dst has.
func prepareRows(dst *mat.Dense, raw, center, scale []float32, prepare schemas.Prepare) {
	n, d := dst.Dims()
	for i := range n {
		prepareRow(dst.RawRowView(i), raw[i*d:(i+1)*d], center, scale, prepare)
	}
}

// prepareRow centres and scales one raw row, a missing value being 0 then.
func prepareRow(dst []float64, raw, center, scale []float32, prepare schemas.Prepare) {
	length := 1.0
	if prepare.Scale == "unit" {
		length = 0
		for _, v := range raw {
			if v == v {
				length += float64(v) * float64(v)
			}
		}
		if length = math.Sqrt(length); length == 0 {
			length = 1
		}
	}
	for j, v := range raw {
		if dst[j] = 0; v == v {
			dst[j] = (float64(v)/length - float64(center[j])) * float64(scale[j])
		}
	}
}
