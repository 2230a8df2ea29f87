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

// Surveyed is the reduced result of the survey's visit.
type Surveyed struct {
	// Sums are the moments of the training rows about Shift, a missing value
	// counting as Shift: sums and squares of each feature, present, and if there
	// are to be principal components gram.
	Sums   schemas.Tensors[float64]
	Shift  []float32 // d
	Sample []float32 // n × d raw rows, missing values as NaN
	Labels []string  // the classes
}

// mostClasses bounds what is taken for classes: more is a number to regress on.
const mostClasses = 10_000

// widest is how many features principal components are taken of at most: the
// eigenvectors of 4096 take minutes, of 10,000 an hour and 5 GB.
const widest = 4096

// WidthError says that so many components can't be had of so many features.
type WidthError struct{ Components, Features int }

func (e *WidthError) Error() string {
	if e.Features > widest {
		return fmt.Sprintf("prepare.pca: of %d features; principal components are of at most %d, others have pca: 0", e.Features, widest)
	}
	return fmt.Sprintf("prepare.pca: %d components of %d features", e.Components, e.Features)
}

// CheckWidth tells whether a preparation can be had of so many features: a
// *WidthError if not.
func CheckWidth(prepare schemas.Prepare, features int) error {
	if prepare.PCA > features || prepare.PCA > 0 && features > widest {
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
	return fmt.Sprintf("%d different labels: expected classes, at most %d", e.Classes, mostClasses)
}

// CheckClasses tells whether so many different labels are too many for classes;
// none may yet become some.
func CheckClasses(labels int) error {
	if labels > mostClasses {
		return &LabelsError{labels}
	}
	return nil
}

// Survey finds the preparation: centre, scale, principal directions, and the
// median squared distance between prepared rows. unit says that rows are
// divided by their length first, as they were in the sums.
func Survey(prepare schemas.Prepare, s Surveyed) (schemas.Tensors[float32], error) {
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
	weight := schemas.ScoresOf(s.Sums)[schemas.Train].Weight
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
// features, as columns, the largest component of each positive.
func principal(sums schemas.Tensors[float64], first []float64, scale []float32, weight float64, m int) ([]float32, error) {
	d := len(first)
	gram, err := sums.Shaped(schemas.FieldGram, d*(d+1)/2)
	if err != nil {
		return nil, err
	}
	covariance := make([]float64, d*d)
	for i, at := 0, 0; i < d; i++ {
		for j := 0; j <= i; j++ {
			c := gram[at]/weight - first[i]/weight*first[j]/weight
			covariance[j*d+i] = c * float64(scale[i]) * float64(scale[j])
			at++
		}
	}
	if !finite(floats.Sum(covariance)) {
		return nil, &NotFiniteError{"the covariance of the features"}
	}
	var eigen mat.EigenSym
	if !eigen.Factorize(mat.NewSymDense(d, covariance), true) {
		return nil, &NotFiniteError{"the covariance of the features"}
	}
	var vectors mat.Dense
	eigen.VectorsTo(&vectors)
	basis := make([]float32, d*m)
	for c := range m {
		from, largest := d-1-c, 0.0 // values ascend
		for i := range d {
			if v := vectors.At(i, from); math.Abs(v) > math.Abs(largest) {
				largest = v
			}
		}
		sign := math.Copysign(1, largest)
		for i := range d {
			basis[i*m+c] = float32(sign * vectors.At(i, from))
		}
	}
	return basis, nil
}

// median of numbers ≥ 0, the lower one of an even count. Those that begin with
// the bits of the median are all that is sorted: of numbers ≥ 0 the bits are in
// the order of the numbers.
func median(x []float64) float64 {
	const low = 48
	if len(x) < 1<<(64-low)/16 { // sorted before as many counts are cleared
		x = slices.Sorted(slices.Values(x))
		return x[(len(x)-1)/2]
	}
	counts := make([]int, 1<<(64-low))
	for _, v := range x {
		counts[math.Float64bits(v)>>low]++
	}
	rank, top := (len(x)-1)/2, 0
	for rank >= counts[top] {
		rank -= counts[top]
		top++
	}
	var same []float64
	for _, v := range x {
		if math.Float64bits(v)>>low == uint64(top) {
			same = append(same, v)
		}
	}
	slices.Sort(same)
	return same[rank]
}

// spread is the median squared distance between the prepared rows of the
// sample; their mean if more than half of the pairs are of equal rows, and 1 if
// all are, so that it can be divided by.
func spread(sample, center, scale, basis []float32, prepare schemas.Prepare) float64 {
	d := len(center)
	n := len(sample) / d
	rows := mat.NewDense(max(n, 1), d, nil)
	for i := range n {
		raw, length := sample[i*d:(i+1)*d], 1.0
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
			if v == v {
				rows.Set(i, j, (float64(v)/length-float64(center[j]))*float64(scale[j]))
			}
		}
	}
	if basis != nil {
		directions := mat.NewDense(d, prepare.PCA, nil)
		for i, v := range basis {
			directions.RawMatrix().Data[i] = float64(v)
		}
		var projected mat.Dense
		projected.Mul(rows, directions)
		rows = &projected
	}
	products := mat.NewSymDense(max(n, 1), nil)
	products.SymOuterK(1, rows)
	// Lengths of the same product as the others: those of another sum would leave equal rows apart by rounding.
	lengths, distances := make([]float64, n), make([]float64, 0, n*(n-1)/2)
	for i := range n {
		lengths[i] = products.At(i, i)
	}
	for i := range n {
		for j, product := range products.RawSymmetric().Data[i*n+i+1 : (i+1)*n] {
			distances = append(distances, max(lengths[i]+lengths[i+1+j]-2*product, 0))
		}
	}
	if len(distances) == 0 {
		return 1
	}
	for _, s := range []float64{median(distances), stat.Mean(distances, nil)} {
		if float32(s) > 0 {
			return s
		}
	}
	return 1
}
