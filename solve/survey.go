package solve

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/stagewise/stagewise/schemas"
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

// ColumnSums are the survey's sums over sparse rows.
type ColumnSums struct {
	Columns []examples.ColumnRows // number of training rows where each column is not 0, by column
	Rows    int64                 // training rows
	Labels  []string              // the classes, or the names of the targets
	Task    examples.Task
	Numbers DenseSums // of the leading columns that are numbers of a table, if any
}

// PrepareSparse computes the preparation of sparse rows. A column in fewer than p.MinRows rows is omitted. Any other
// column has the factor (log((rows+1)/(its rows+1))+1)^p.IDF. Leading numbers are centred and divided by their standard
// deviations. An error may be a *LabelsError.
func PrepareSparse(p schemas.Prepare, s ColumnSums) (*Preparation, error) {
	if err := checkLabels(s.Labels, s.Task); err != nil {
		return nil, err
	}
	if s.Rows <= 0 {
		return nil, errNoWeight
	}
	numbers := &Preparation{}
	d := len(s.Numbers.Shift)
	if d > 0 {
		var err error
		if numbers, err = PrepareDense(s.Numbers, true, 0); err != nil {
			return nil, err
		}
	}
	factors := &statistics.Factors{Width: d, Columns: make([]int32, 0, len(s.Columns)), Values: make([]float32, 0, len(s.Columns))}
	for _, n := range s.Columns {
		if int(n.Rows) < p.MinRows || int(n.Column) < d {
			continue
		}
		factors.Columns, factors.Values = append(factors.Columns, n.Column), append(factors.Values, factorOf(p, n, s.Rows))
		factors.Width = int(n.Column) + 1
	}
	if factors.Width == 0 {
		if p.MinRows > 1 {
			return nil, fmt.Errorf("prepare.min_rows: no feature is in %d training rows or more: set a smaller number", p.MinRows)
		}
		return nil, errors.New("no training row has a non-zero feature")
	}
	return &Preparation{Factors: factors, Center: numbers.Center, Scale: numbers.Scale, Labels: s.Labels}, nil
}

// factorOf returns the factor of a column, given its number of rows.
func factorOf(p schemas.Prepare, n examples.ColumnRows, rows int64) float32 {
	return float32(math.Pow(math.Log(float64(rows+1)/float64(n.Rows+1))+1, p.IDF))
}

// ExtendPreparation returns the preparation of an update: that of the previous version, with factors for columns that only the new
// rows have. rows are those of the window, including the new ones. Other factors stay, as weights depend on them. The
// error is that of [statistics.FactorsOf].
func ExtendPreparation(p schemas.Prepare, before wire.Tensors[float32], found []examples.ColumnRows,
	rows int64) (wire.Tensors[float32], error) {
	known, _, err := statistics.FactorsOf(before)
	if err != nil {
		return nil, err
	}
	var all statistics.Factors
	at, grown := 0, false
	add := func(column int32, value float32) {
		all.Columns, all.Values = append(all.Columns, column), append(all.Values, value)
	}
	for _, n := range found {
		for ; at < len(known.Columns) && known.Columns[at] < n.Column; at++ {
			add(known.Columns[at], known.Values[at])
		}
		if int(n.Rows) >= p.MinRows && (at == len(known.Columns) || known.Columns[at] != n.Column) {
			add(n.Column, factorOf(p, n, rows))
			grown = true
		}
	}
	if !grown {
		return before, nil
	}
	for ; at < len(known.Columns); at++ {
		add(known.Columns[at], known.Values[at])
	}
	after := all.Tensors(true)
	for _, t := range before {
		switch t.Name {
		case statistics.TensorFactors, statistics.TensorFactorColumns, statistics.TensorFactorValues:
		default:
			after = append(after, t)
		}
	}
	return after, nil
}

// PrepareTargets computes the mean (k) and the standard deviation (k) of each numeric target, from the survey's sums
// about shift (k; nil: 0); the deviation of a constant target is 1. An error may be a *NotFiniteError or a
// *[wire.ShapeError].
func PrepareTargets(sums wire.Tensors[float64], shift []float64, names []string) (center []float64, scale []float32, err error) {
	k := len(names)
	moments, err := sums.Shaped(statistics.FieldTargets, 3, k)
	if err != nil {
		return nil, nil, err
	}
	if shift == nil {
		shift = make([]float64, k)
	}
	if len(shift) != k {
		return nil, nil, &wire.ShapeError{Tensor: "target_shift", Got: []int{len(shift)}, Want: []int{k}}
	}
	center, scale = make([]float64, k), make([]float32, k)
	for c := range k {
		weight := moments[c]
		if weight <= 0 {
			return nil, nil, errNoWeight
		}
		mean, square := moments[k+c]/weight, moments[2*k+c]/weight
		if !Finite(square) || !Finite(shift[c]) {
			return nil, nil, &NotFiniteError{What: fmt.Sprintf("the variance of the target %q", names[c])}
		}
		center[c], scale[c] = shift[c]+mean, 1
		// The variance of a constant target is only rounding.
		if variance := square - mean*mean; variance > 1e-13*square {
			scale[c] = float32(math.Sqrt(variance))
		}
	}
	return center, scale, nil
}

// halves returns means as float32, and the remainders, which are nil if small relative to the deviations.
func halves(center []float64, scale []float32) (first, rest []float32) {
	first = make([]float32, len(center))
	left, much := make([]float32, len(center)), false
	for c, v := range center {
		first[c] = float32(v)
		left[c] = float32(v - float64(first[c]))
		much = much || math.Abs(float64(left[c])) > 1e-6*float64(scale[c])
	}
	if !much {
		return first, nil
	}
	return first, left
}

// maxNamed is the maximum number of classes in an error.
const maxNamed = 10

// ClassWeights returns the weight factors of the training rows of each class (k); nil means 1 for all. rows has the
// number of training rows of each label. A class without rows has 1 unless w names it. An error
// means that w names a label that is not a class; the factors are valid despite it.
func ClassWeights(w schemas.ClassWeight, classes []string, rows map[string]int64) ([]float32, error) {
	if w.IsZero() {
		return nil, nil
	}
	factors, by, labels := make([]float32, len(classes)), make(map[string]float64, len(w.By)), examples.NewLabels(classes)
	for label, factor := range w.By {
		by[labels.Spelt(label)] = factor
	}
	all, filled := int64(0), int64(0)
	for _, class := range classes {
		if n := rows[class]; n > 0 {
			all, filled = all+n, filled+1
		}
	}
	for c, class := range classes {
		factors[c] = 1
		if factor, has := by[class]; has {
			factors[c] = float32(factor)
		} else if n := rows[class]; w.Balanced && n > 0 {
			factors[c] = float32(float64(all) / (float64(filled) * float64(n)))
		}
	}
	for _, label := range slices.Sorted(maps.Keys(w.By)) {
		if !slices.Contains(classes, labels.Spelt(label)) {
			named, more := classes, ""
			if len(classes) > maxNamed {
				named, more = classes[:maxNamed], fmt.Sprintf(" and %d more", len(classes)-maxNamed)
			}
			return factors, fmt.Errorf("examples.class_weight: no row has the label %q: expected one of the classes %q%s", label, named, more)
		}
	}
	return factors, nil
}

// Whiten returns (C + ridge·I)^−½ (n × n, row-major), the symmetric whitening of vectors with the covariance C (n × n, row-major); ridge
// is > 0. It returns a *NotFiniteError for a covariance without eigenvalues.
func Whiten(covariance []float64, n int, ridge float64) ([]float32, error) {
	values, vectors, err := eigen(covariance, n, "the covariance of patches")
	if err != nil {
		return nil, err
	}
	var scaled, whitening mat.Dense
	scaled.Apply(func(_, j int, v float64) float64 { return v / math.Sqrt(max(values[j], 0)+ridge) }, vectors)
	whitening.Mul(&scaled, vectors.T())
	return narrow(whitening.RawMatrix().Data), nil
}

// eigen returns the eigenvalues of a symmetric matrix (n × n, row-major; the upper triangle suffices), ascending, and
// the eigenvectors, one per column. It returns a *NotFiniteError with the given name for a matrix without eigenvalues.
func eigen(matrix []float64, n int, name string) (values []float64, vectors *mat.Dense, err error) {
	var of mat.EigenSym
	if !Finite(floats.Sum(matrix)) || !of.Factorize(mat.NewSymDense(n, matrix), true) {
		return nil, nil, &NotFiniteError{What: name}
	}
	vectors = new(mat.Dense)
	of.VectorsTo(vectors)
	return of.Values(nil), vectors, nil
}
