package solve

import (
	"fmt"
	"math"

	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// DenseSums is the reduced sums of the survey's visit, over d features.
type DenseSums struct {
	// Sums are the moments of the training rows about Shift, where a missing value counts as Shift: the fields splits,
	// sums, squares and present, and gram if there are principal components.
	Sums   wire.Tensors[float64]
	Shift  []float32 // the point (d) that the moments are about
	Labels []string  // the classes, or the names of the targets
	Task   examples.Task
}

// Preparation is the result of a survey: each feature is centred and scaled, and then projected on the basis if there
// is one. A feature of sparse rows has a factor instead.
type Preparation struct {
	Factors   *statistics.Factors // of the columns of sparse rows; nil: rows are dense
	Occurring bool                // write only the columns with a factor

	Center []float32 // mean of each feature (d)
	Scale  []float32 // factor of each centred feature (d); 0 for a constant one
	Basis  []float32 // principal directions (d × m, row-major); nil without principal components
	Labels []string  // the classes
	// ClassWeights are the weight factors of the training rows of each class (k); nil: 1. See [ClassWeights].
	ClassWeights []float32
	// TargetCenter and TargetScale are the mean and the standard deviation of each numeric target (k); nil: labels are
	// predicted. See [PrepareTargets].
	TargetCenter []float64
	TargetScale  []float32
}

// Tensors returns the content of the record that publishes the preparation. spread is the result of [Spread] for
// prepared rows; sparse rows have none.
func (p *Preparation) Tensors(spread float32) wire.Tensors[float32] {
	var t wire.Tensors[float32]
	if p.Factors != nil {
		t = append(t, p.Factors.Tensors(p.Occurring)...)
		if p.Center != nil {
			t = append(t, wire.Vector(statistics.TensorCenter, p.Center), wire.Vector(statistics.TensorScale, p.Scale))
		}
	} else {
		d := len(p.Center)
		t = append(t, wire.Vector(statistics.TensorCenter, p.Center), wire.Vector(statistics.TensorScale, p.Scale))
		if p.Basis != nil {
			t = append(t, wire.Matrix(statistics.TensorBasis, d, len(p.Basis)/d, p.Basis))
		}
		t = append(t, wire.Vector(statistics.TensorSpread, []float32{spread}))
	}
	if p.ClassWeights != nil {
		t = append(t, wire.Vector(statistics.TensorClassWeight, p.ClassWeights))
	}
	if p.TargetCenter != nil {
		center, rest := halves(p.TargetCenter, p.TargetScale)
		t = append(t, wire.Vector(statistics.TensorTargetCenter, center))
		if rest != nil {
			t = append(t, wire.Vector(statistics.TensorTargetRest, rest))
		}
		t = append(t, wire.Vector(statistics.TensorTargetScale, p.TargetScale))
	}
	return append(t, wire.Words[float32](statistics.TensorLabels, p.Labels))
}

// maxClasses bounds the number of classes. More distinct labels are likely numbers for a regression.
const maxClasses = 10_000

// maxPCAFeatures bounds the number of features for principal components: the eigenvectors of 4096 features take
// minutes, those of 10,000 an hour and 5 GB.
const maxPCAFeatures = 4096

// WidthError means that the number of principal components is invalid for the number of features.
type WidthError struct{ Components, Features int }

func (e *WidthError) Error() string {
	if e.Features > maxPCAFeatures {
		return fmt.Sprintf("prepare.pca: the examples have %d features, but principal components support at most %d: set pca to 0",
			e.Features, maxPCAFeatures)
	}
	return fmt.Sprintf("prepare.pca: %d components of %d features: expected at most %[2]d", e.Components, e.Features)
}

// CheckWidth returns a *WidthError if the number of principal components is invalid for the number of features.
func CheckWidth(components, features int) error {
	if components > features || components > 0 && features > maxPCAFeatures {
		return &WidthError{components, features}
	}
	return nil
}

// LabelsError means that the labels can't be classes.
type LabelsError struct {
	Classes int    // number of distinct labels
	Label   string // if there is only one
}

func (e *LabelsError) Error() string {
	switch e.Classes {
	case 0:
		return "no example has a label: examples.label, or with examples.outcome examples.outcome.label, names its column, and " +
			"examples.missing_values the words for a missing label"
	case 1:
		return fmt.Sprintf("all examples have the label %q: a model needs at least two classes; examples.label, or with "+
			"examples.outcome examples.outcome.label, names the label column, examples.classes the allowed labels", e.Label)
	}
	return fmt.Sprintf("%d different labels: expected classes, at most %d. examples.label names the label column, examples.classes the "+
		"allowed labels, examples.targets numbers to predict, and retrain.new_class_rows how many rows make a new label a class",
		e.Classes, maxClasses)
}

// CheckClasses returns a *LabelsError if there are too many distinct labels for classes. It accepts 0 labels: labels
// may follow.
func CheckClasses(labels int) error {
	if labels > maxClasses {
		return &LabelsError{Classes: labels}
	}
	return nil
}

// checkLabels returns a *LabelsError if labels can't be the classes of a task.
func checkLabels(labels []string, task examples.Task) error {
	switch {
	case len(labels) == 0:
		return &LabelsError{}
	case len(labels) == 1 && task == examples.OneLabel:
		return &LabelsError{1, labels[0]}
	}
	return CheckClasses(len(labels))
}

// maxSeveral bounds the number of labels for rows with several labels: the sums of their metrics take 5 kB each.
const maxSeveral = 2000

// CheckSeveral returns an error if there are too many labels for rows with several labels.
func CheckSeveral(labels int) error {
	if labels > maxSeveral {
		return fmt.Errorf("%d different labels for rows with several labels: expected at most %d: examples.classes lists the "+
			"allowed labels", labels, maxSeveral)
	}
	return nil
}

// PrepareDense computes the preparation: the centre of each feature, its factor, and the given number of principal
// directions (0: none). With standardize, the factor of a feature is 1 over its standard deviation, otherwise 1. Errors
// may be a *LabelsError, *WidthError, *NotFiniteError or *[wire.ShapeError].
func PrepareDense(s DenseSums, standardize bool, components int) (*Preparation, error) {
	d := len(s.Shift)
	if err := checkLabels(s.Labels, s.Task); err != nil {
		return nil, err
	}
	if err := CheckWidth(components, d); err != nil {
		return nil, err
	}
	weight := statistics.LossesOf(s.Sums)[examples.Train].Weight
	if weight <= 0 {
		return nil, errNoWeight
	}
	var moments [3][]float64
	for i, field := range []string{statistics.FieldSums, statistics.FieldSquares, statistics.FieldPresent} {
		var err error
		if moments[i], err = s.Sums.Shaped(field, d); err != nil {
			return nil, err
		}
	}
	first, squares, present := moments[0], moments[1], moments[2]
	p := &Preparation{Center: make([]float32, d), Scale: make([]float32, d), Labels: s.Labels}
	for j := range d {
		if present[j] == 0 {
			continue // missing in all rows: the feature is prepared to 0
		}
		if !Finite(squares[j]) || !Finite(first[j]) {
			return nil, &NotFiniteError{What: fmt.Sprintf("the variance of feature %d", j)}
		}
		mean := first[j] / present[j]
		p.Center[j] = float32(float64(s.Shift[j]) + mean)
		variance := squares[j]/present[j] - mean*mean
		switch {
		case constant(variance, mean, float64(s.Shift[j])):
			p.Scale[j] = 0
		case standardize:
			p.Scale[j] = float32(1 / math.Sqrt(variance))
		default:
			p.Scale[j] = 1
		}
	}
	var err error
	if components > 0 {
		p.Basis, err = principal(s.Sums, first, p.Scale, weight, components)
	}
	return p, err
}

// constant reports whether the variance of a feature is only rounding. The values are float32, which does not represent
// deviations below 1e-7 of the value.
func constant(variance, mean, shift float64) bool {
	threshold := 1e-7 * (math.Abs(shift) + math.Abs(mean))
	return !(variance > threshold*threshold)
}

// principal returns the directions (d × m) of the largest variance of the scaled features as columns. The largest
// component of each is positive. The decomposition excludes constant features, which have component 0.
func principal(sums wire.Tensors[float64], first []float64, scale []float32, weight float64, m int) ([]float32, error) {
	d := len(first)
	gram, err := sums.Shaped(statistics.FieldGram, d*(d+1)/2)
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
	_, vectors, err := eigen(covariance, n, "the covariance of the features")
	if err != nil {
		return nil, err
	}
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
